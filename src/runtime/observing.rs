//! The thread of an observer. A slow, hanging or panicking observer delays no other thread.

use std::io;

use log::Level;

use crate::observe::observer::{Event, Observer};
use crate::util::log_fields::{LogFields, log_with};
use crate::util::panics::caught;
use crate::util::sync::channel::{self, Receiver, Sender, TrySendError};
use crate::util::sync::{Arc, AtomicU64, Ordering, thread};

/// The maximum number of queued events for a slow observer. Later events are dropped.
const MAX_BEHIND: usize = 1024;

/// The sender of events to one observer. The observer's thread ends when the sender is dropped, or after the observer
/// panics.
#[derive(Clone)]
pub(crate) struct Observing {
    events: Sender<Event>,
    missed: Arc<AtomicU64>,
    /// `true` for the elector of a slot. Its watch is not reported, because the group reports a watch of all records.
    is_slot: bool,
}

impl Observing {
    pub(crate) fn spawn(observer: Arc<dyn Observer>, fields: LogFields) -> io::Result<Self> {
        let (sender, events) = channel::bounded(MAX_BEHIND);
        let missed = Arc::new(AtomicU64::new(0));
        let dropped = Arc::clone(&missed);
        let run = move || run(&*observer, &events, &dropped, &fields);
        thread::Builder::new().name("leasehold-observer".into()).spawn(run)?;
        Ok(Self { events: sender, missed, is_slot: false })
    }

    /// Returns a sender of the events of a slot to the same thread.
    pub(crate) fn of_slot(&self) -> Self {
        Self { is_slot: true, ..self.clone() }
    }

    pub(crate) fn send(&self, event: &Event) {
        if self.is_slot && matches!(event, Event::WatchOpened | Event::WatchLost) {
            return;
        }
        if let Err(TrySendError::Full(_)) = self.events.try_send(event.limited()) {
            self.missed.fetch_add(1, Ordering::SeqCst);
        }
    }
}

fn run(observer: &dyn Observer, events: &Receiver<Event>, missed: &AtomicU64, fields: &LogFields) {
    while let Ok(event) = events.recv() {
        if caught(|| observer.on_event(&event)).is_none() {
            log_with!(Level::Error, *fields; "observer panicked: no longer calling the observer");
            return;
        }
        let missed = missed.swap(0, Ordering::SeqCst);
        if missed > 0 {
            log_with!(Level::Warn, *fields; "observer too slow: {missed} events dropped");
        }
    }
}
