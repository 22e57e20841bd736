//! The log lines of one elector, and the thread that logs them.
//!
//! A hanging logger delays only the log thread.

use std::collections::VecDeque;

use log::LevelFilter;

use crate::election::candidate::notice::LogRecord;
use crate::leadership::handle::{ReleaseSender, as_runtime};
use crate::util::log_fields::LogFields;
use crate::util::sync::{Arc, Mutex, thread};

pub(crate) struct Lines {
    queue: Mutex<Queue>,
    /// The maximum number of queued lines while a logger hangs. Later lines are dropped, to limit the memory.
    max_lines: usize,
    fields: LogFields,
    /// `true` for the elector of a slot, whose group reports the membership.
    is_of_slot: bool,
}

#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    /// `true` while a thread logs the lines.
    is_logged: bool,
}

pub(crate) enum Item {
    LogRecord(LogRecord),
    /// Wakes the caller of a finished release when all earlier lines are logged.
    Released(ReleaseSender),
}

impl Lines {
    pub(crate) fn new(max_lines: usize, fields: LogFields, is_of_slot: bool) -> Self {
        Self { queue: Mutex::default(), max_lines, fields, is_of_slot }
    }

    /// Queues `item` for [`log`](Self::log), unless the queue is full or logging is off.
    pub(crate) fn push(&self, item: Item) {
        let items = &mut self.queue.lock().items;
        if items.len() < self.max_lines && log::max_level() > LevelFilter::Off {
            items.push_back(item);
        }
    }

    /// Logs all queued lines in order, on a thread that ends after the last line.
    pub(crate) fn log(self: &Arc<Self>) {
        let mut queue = self.queue.lock();
        if queue.items.is_empty() || queue.is_logged {
            return;
        }
        let lines = Arc::clone(self);
        // If the thread cannot start, the lines wait for the next call.
        queue.is_logged = thread::Builder::new().name("leasehold-log".into()).spawn(move || lines.log_here()).is_ok();
    }

    fn log_here(&self) {
        let _as_runtime = as_runtime();
        while let Some(item) = self.next() {
            match item {
                Item::LogRecord(LogRecord { fencing_token, notice }) => {
                    let notice = if self.is_of_slot { notice.of_slot() } else { notice };
                    notice.log(&LogFields { fencing_token, ..self.fields.clone() });
                }
                Item::Released(ack) => drop(ack),
            }
        }
    }

    fn next(&self) -> Option<Item> {
        let mut queue = self.queue.lock();
        let item = queue.items.pop_front();
        queue.is_logged = item.is_some();
        item
    }
}
