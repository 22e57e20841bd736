//! Virtual time: it stands still until a schedule lets it pass.
//!
//! One thread of the model is the time. Whoever waits with a time-out is noted; the time's turn moves the clock to the next
//! of those moments. It always has a turn when no other thread can run, so that nobody waits in vain; and also, now and
//! then, while others could run, which stands for a machine that kept them waiting. Every run that this allows could
//! happen: any thread may be held up for any while.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use shuttle::thread;

use crate::sync::{Condvar, Mutex};

/// Any model is over long before, unless somebody waits for what never comes.
const TURNS: u32 = 2_000;

/// Somebody who waits with a time-out.
pub(crate) trait Sleeper {
    fn wake(&self);
}

/// A reading of the virtual clock, in the stead of `std::time::Instant`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Instant(Duration);

impl Instant {
    pub fn now() -> Self {
        Self(now())
    }

    pub fn checked_add(self, duration: Duration) -> Option<Self> {
        self.0.checked_add(duration).map(Self)
    }

    pub fn elapsed(self) -> Duration {
        Self::now().since(self)
    }

    pub fn since(self, earlier: Instant) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl std::ops::Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

struct Time {
    now: Cell<Duration>,
    sleepers: Mutex<Sleepers>,
    changed: Condvar,
}

#[derive(Default)]
struct Sleepers {
    list: Vec<(Duration, u64, Arc<dyn Sleeper>)>,
    last_id: u64,
    over: bool,
}

// Shuttle runs all threads of a model on one thread of the system, so this is what they share.
thread_local! {
    static TIME: RefCell<Option<Rc<Time>>> = const { RefCell::new(None) };
    static NOBODY_ELSE: Cell<bool> = const { Cell::new(false) };
    static EAGER: Cell<Duration> = const { Cell::new(Duration::MAX) };
}

fn time() -> Rc<Time> {
    TIME.with_borrow(|time| time.clone().expect("a model runs"))
}

/// The virtual time since some origin.
pub(crate) fn now() -> Duration {
    time().now.get()
}

/// Bounds, for this model, how far time may pass at once while another thread could run.
pub fn eager_for(at_most: Duration) {
    EAGER.set(at_most);
}

pub(crate) fn nobody_else_can_run(is_so: bool) {
    NOBODY_ELSE.set(is_so);
}

/// Someone is to be woken for as long as this is held.
pub(crate) struct Alarm(u64);

/// Has `sleeper` woken at `deadline`. It must hold its own lock meanwhile, and wake under it.
pub(crate) fn wake_at(deadline: Instant, sleeper: Arc<dyn Sleeper>) -> Alarm {
    let time = time();
    let mut sleepers = time.sleepers.lock();
    sleepers.last_id += 1;
    let id = sleepers.last_id;
    sleepers.list.push((deadline.0, id, sleeper));
    time.changed.notify_all();
    Alarm(id)
}

impl Drop for Alarm {
    fn drop(&mut self) {
        time().sleepers.lock().list.retain(|(_, id, _)| *id != self.0);
    }
}

/// Begins the time of one run. The clock does not begin at zero, which stands for 'over'.
pub(crate) fn begin() {
    let time = Time {
        now: Cell::new(Duration::from_secs(1000)),
        sleepers: Mutex::new(Sleepers::default()),
        changed: Condvar::new(),
    };
    TIME.set(Some(Rc::new(time)));
    EAGER.set(Duration::MAX);
}

/// Lets time pass, until the run is over.
pub(crate) fn pass() {
    let time = time();
    for _ in 0..TURNS {
        let Some((deadline, sleeper)) = next(&time) else { return };
        time.now.set(time.now.get().max(deadline));
        sleeper.wake();
    }
    panic!("somebody is left waiting for what never comes");
}

/// Waits until time may pass, and takes out who is to be woken; `None` at the end of the run.
fn next(time: &Time) -> Option<(Duration, Arc<dyn Sleeper>)> {
    let mut sleepers = time.sleepers.lock();
    loop {
        if sleepers.over {
            return None;
        }
        let soonest = (0..sleepers.list.len()).min_by_key(|index| sleepers.list[*index].0);
        match soonest {
            None => sleepers = time.changed.wait(sleepers),
            Some(index) => {
                let far = sleepers.list[index].0.saturating_sub(time.now.get()) > EAGER.get();
                if NOBODY_ELSE.get() || !far {
                    let (deadline, _, sleeper) = sleepers.list.remove(index);
                    return Some((deadline, sleeper));
                }
                drop(sleepers);
                thread::yield_now();
                sleepers = time.sleepers.lock();
            }
        }
    }
}

/// Ends the time of one run.
pub(crate) fn end() {
    let time = time();
    time.sleepers.lock().over = true;
    time.changed.notify_all();
}

/// Sleeps for `duration` of virtual time.
pub fn sleep(duration: Duration) {
    let (_sender, receiver) = crate::channel::bounded::<()>(0);
    let _ = receiver.recv_timeout(duration);
}
