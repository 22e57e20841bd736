//! The limit that the documentation names: work that was past its check when the process was stopped.
//!
//! By its stamp such a line is true (see [`super::exclusion`]), but it comes out after the process was continued, when
//! another may lead. No library can keep it back; who receives it refuses it by its token. What a library can do is that
//! there is never a second one: a process that wakes past its term fails its next check. So a late line is one of a
//! process that was stopped, stamped before that, heard after it was continued, in another's term.

use super::exclusion::History;
use super::process::Line;

/// That a candidate's process was stopped for a while.
#[derive(Clone, Debug)]
pub struct Suspension {
    pub identity: String,
    /// A time at which it did nothing any more.
    pub stopped_at: f64,
    /// A time at which it still did nothing.
    pub continued_at: f64,
    /// How many lines were heard of all candidates before it was continued.
    pub heard: usize,
}

/// How many lines came out of that process when it was too late.
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
