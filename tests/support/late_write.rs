//! Late lines, which a stopped process prints when it continues in another candidate's term.
//!
//! Late lines are a documented limit. If a process is stopped between its check and its print, its line is printed when
//! the process continues. No library can prevent the line, but the receiver can reject its fencing token. There is no
//! second late line, because the next check of the process fails.
//!
//! The stamp of a late line is correct (see [`super::exclusion`]) and precedes the stop. The test receives the line
//! after the process was continued, in the term of another candidate.

use super::exclusion::History;
use super::process::Line;

/// A time during which a candidate's process was stopped.
#[derive(Clone, Debug)]
pub struct Suspension {
    pub identity: String,
    /// A time at which the process was already stopped.
    pub stopped_at: f64,
    /// A time at which the process was still stopped.
    pub continued_at: f64,
    /// The number of lines received from all candidates before the process was continued.
    pub heard: usize,
}

/// Returns the number of late lines of the stopped process.
pub fn lines(lines: &[Line], history: &History, suspension: &Suspension) -> usize {
    let late = lines[suspension.heard..].iter().filter(|line| {
        line.event == "leading" && line.identity == suspension.identity && line.mono <= suspension.stopped_at
    });
    let superseded = |line: &&Line| {
        let by = |token| token > line.fencing_token;
        history.terms.iter().any(|term| by(term.token) && term.first < suspension.continued_at)
    };
    late.filter(superseded).count()
}
