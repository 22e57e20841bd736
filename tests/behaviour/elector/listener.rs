//! What is logged in this process, told apart by what the store calls the record.

use log::{Level, LevelFilter};
use parking_lot::Mutex;

use crate::support::logged;

type LineHook = Box<dyn FnOnce() + Send>;

static HOOKS: Mutex<Vec<(String, LineHook)>> = Mutex::new(Vec::new());

/// Listens from now on.
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

/// What was logged in lines that begin so.
pub fn lines_beginning(begin: &str) -> Vec<(Level, String)> {
    let lines = logged::those(|line| line.text.starts_with(begin));
    lines.into_iter().map(|line| (line.level, line.text)).collect()
}

/// What is logged on this thread meanwhile, in lines that begin so; without their beginning.
pub fn heard_here(begin: &str, run: impl FnOnce()) -> Vec<String> {
    listen();
    let (lines, ()) = logged::of_this_thread(run);
    lines.iter().filter_map(|line| line.text.strip_prefix(begin)).map(str::to_owned).collect()
}

/// How often this record was cause for an error in the log.
pub fn errors_of(record: &str) -> usize {
    lines_of(record).iter().filter(|(level, _)| *level == Level::Error).count()
}

/// Runs this inside of the next log call whose line begins so.
pub fn on_line(begin: &str, hook: impl FnOnce() + Send + 'static) {
    HOOKS.lock().push((begin.to_owned(), Box::new(hook)));
}
