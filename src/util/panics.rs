//! Catching of panics in code of the user, of stores and of loggers.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs external code. Returns `None` after a panic, whose payload is dropped.
pub(crate) fn caught<T>(run: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(value) => Some(value),
        Err(payload) => {
            if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
                // The drop of the payload panicked. The drop of the new payload could panic again, without end.
                std::mem::forget(another);
            }
            None
        }
    }
}

/// Logs a line by the macro `log::$macro`, and catches a panic of the logger.
macro_rules! log_line {
    ($macro:ident, $($line:tt)+) => {{
        let _ = $crate::util::panics::caught(|| log::$macro!($($line)+));
    }};
}

pub(crate) use log_line;

#[cfg(test)]
mod tests {
    use super::*;

    struct PanicsAgain(u32);

    impl Drop for PanicsAgain {
        fn drop(&mut self) {
            if self.0 > 0 {
                std::panic::panic_any(PanicsAgain(self.0 - 1));
            }
        }
    }

    #[test]
    fn panic_in_a_drop_during_a_panic_is_caught() {
        assert_eq!(caught(|| 1), Some(1));
        assert_eq!(caught(|| panic!("made up")), None::<()>);
        assert_eq!(caught(|| std::panic::panic_any(PanicsAgain(5))), None::<()>);
    }
}
