//! A documented limit: a process was stopped after its check and before its work.
//!
//! The stamp of such a line is correct (see [`super::exclusion`]), but the line is printed after the process continues, when
//! another candidate may lead. No library can prevent the line; the receiver rejects its token. The library guarantees that
//! there is no second late line, because a process that continues after its term fails its next check. A late line is from a
//! process that was stopped: stamped before the stop, received after the process was continued, in another candidate's term.

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
