//! What is logged in this process, told apart by what the store calls the record.

use std::cell::RefCell;
use std::sync::Once;

use log::{Level, LevelFilter, Log, Metadata, Record};
use parking_lot::Mutex;

static LINES: Mutex<Vec<(Level, String)>> = Mutex::new(Vec::new());
static HOOKS: Mutex<Vec<(String, CancelHook)>> = Mutex::new(Vec::new());

thread_local! {
    /// The lines of this thread, while somebody wants them.
    static HERE: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

type CancelHook = Box<dyn FnOnce() + Send>;

struct Listener;

impl Log for Listener {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let line = record.args().to_string();
        let hook = {
            let mut hooks = HOOKS.lock();
            let wanted = hooks.iter().position(|(begin, _)| line.starts_with(begin));
            wanted.map(|wanted| hooks.swap_remove(wanted).1)
        };
        HERE.with_borrow_mut(|here| here.iter_mut().for_each(|lines| lines.push(line.clone())));
        LINES.lock().push((record.level(), line));
        if let Some(hook) = hook {
            hook();
        }
    }

    fn flush(&self) {}
}

/// Listens from now on.
pub fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        log::set_logger(&Listener).expect("nobody else listens");
        log::set_max_level(LevelFilter::Debug);
    });
}

/// What was logged of this record.
pub fn lines_of(record: &str) -> Vec<(Level, String)> {
    let of_it =
        |(level, line): &(Level, String)| Some((*level, line.strip_prefix(record)?.strip_prefix(": ")?.to_owned()));
    LINES.lock().iter().filter_map(of_it).collect()
}

/// What was logged in lines that begin so.
pub fn lines_beginning(begin: &str) -> Vec<(Level, String)> {
    LINES.lock().iter().filter(|(_, line)| line.starts_with(begin)).cloned().collect()
}

/// What is logged on this thread meanwhile, in lines that begin so; without their beginning.
pub fn heard_here(begin: &str, run: impl FnOnce()) -> Vec<String> {
    listen();
    HERE.set(Some(Vec::new()));
    run();
    let lines = HERE.take().unwrap_or_default();
    lines.iter().filter_map(|line| line.strip_prefix(begin)).map(str::to_owned).collect()
}

/// How often this record was cause for an error in the log.
pub fn errors_of(record: &str) -> usize {
    lines_of(record).iter().filter(|(level, _)| *level == Level::Error).count()
}

/// Runs this inside of the next log call whose line begins so.
pub fn on_line(begin: &str, hook: impl FnOnce() + Send + 'static) {
    HOOKS.lock().push((begin.to_owned(), Box::new(hook)));
}
