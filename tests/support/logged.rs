//! Collects the log records of the test process.

use std::collections::BTreeMap;
use std::sync::Once;
use std::thread::{self, ThreadId};

use log::kv::{Key, Value, VisitSource};
use log::{Level, LevelFilter, Log, Metadata, Record};
use parking_lot::Mutex;

#[derive(Debug, Clone)]
pub struct Logged {
    pub level: Level,
    pub target: String,
    pub text: String,
    pub fields: BTreeMap<String, String>,
    pub thread: ThreadId,
}

static ALL: Mutex<Vec<Logged>> = Mutex::new(Vec::new());

/// A logger that keeps each record, and then calls a function with the record.
struct Collector(fn(&Logged));

struct Fields(BTreeMap<String, String>);

impl<'kvs> VisitSource<'kvs> for Fields {
    fn visit_pair(&mut self, key: Key<'kvs>, value: Value<'kvs>) -> Result<(), log::kv::Error> {
        self.0.insert(key.to_string(), value.to_string());
        Ok(())
    }
}

impl Log for Collector {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let mut fields = Fields(BTreeMap::new());
        record.key_values().visit(&mut fields).expect("any field is accepted");
        let logged = Logged {
            level: record.level(),
            target: record.target().to_owned(),
            text: record.args().to_string(),
            fields: fields.0,
            thread: thread::current().id(),
        };
        ALL.lock().push(logged.clone());
        self.0(&logged);
    }

    fn flush(&self) {}
}

/// Collects the log records of this process, and calls `then` with each record.
///
/// Later calls of `collect` do nothing.
pub fn collect(level: LevelFilter, then: fn(&Logged)) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(Box::leak(Box::new(Collector(then)))).expect("the only logger");
        log::set_max_level(level);
    });
}

/// Returns the records for which `is` returns `true`.
pub fn those(is: impl Fn(&Logged) -> bool) -> Vec<Logged> {
    ALL.lock().iter().filter(|logged| is(logged)).cloned().collect()
}

/// Returns the records that `run` logs on this thread, and the result of `run`.
pub fn of_this_thread<T>(run: impl FnOnce() -> T) -> (Vec<Logged>, T) {
    let before = ALL.lock().len();
    let result = run();
    let this = thread::current().id();
    (ALL.lock()[before..].iter().filter(|logged| logged.thread == this).cloned().collect(), result)
}

/// Returns the text column of the hex dumps of the HTTP client, in one piece.
pub fn undumped(log: &[Logged]) -> String {
    let rows = log.iter().filter(|logged| logged.target == "ureq_proto::util");
    rows.filter_map(|row| row.text.get(row.text.len().checked_sub(16)?..)).collect()
}
