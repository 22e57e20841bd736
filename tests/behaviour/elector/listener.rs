//! Collects the log of this process, separated by the name of the record.

use log::{Level, LevelFilter};
use parking_lot::Mutex;

use crate::support::logged;

type LineHook = Box<dyn FnOnce() + Send>;

static HOOKS: Mutex<Vec<(String, LineHook)>> = Mutex::new(Vec::new());

/// Starts to collect log lines.
pub fn listen() {
    logged::collect(LevelFilter::Debug, |line| {
        let mut hooks = HOOKS.lock();
        let wanted = hooks.iter().position(|(begin, _)| line.text.starts_with(begin));
        let hook = wanted.map(|wanted| hooks.swap_remove(wanted).1);
        drop(hooks);
        if let Some(hook) = hook {
            hook();
        }
    });
}

/// Returns the lines of this record, without the record and the identity at their start.
pub fn lines_of(record: &str) -> Vec<(Level, String)> {
    let text = |(level, line): (Level, String)| {
        Some((level, line.strip_prefix(record)?.strip_prefix(" ")?.split_once(": ")?.1.to_owned()))
    };
    lines_beginning(record).into_iter().filter_map(text).collect()
}

/// Returns the lines that start with `begin`.
pub fn lines_beginning(begin: &str) -> Vec<(Level, String)> {
    let lines = logged::those(|line| line.text.starts_with(begin));
    lines.into_iter().map(|line| (line.level, line.text)).collect()
}

/// Returns the lines that `run` logs on this thread and that start with `begin`.
///
/// The returned lines do not contain `begin`.
pub fn heard_here(begin: &str, run: impl FnOnce()) -> Vec<String> {
    listen();
    let (lines, ()) = logged::of_this_thread(run);
    lines.iter().filter_map(|line| line.text.strip_prefix(begin)).map(str::to_owned).collect()
}

/// Returns the number of errors that were logged about this record.
pub fn errors_of(record: &str) -> usize {
    lines_of(record).iter().filter(|(level, _)| *level == Level::Error).count()
}

/// Runs `hook` inside the next log call whose line starts with `begin`.
pub fn on_line(begin: &str, hook: impl FnOnce() + Send + 'static) {
    HOOKS.lock().push((begin.to_owned(), Box::new(hook)));
}
