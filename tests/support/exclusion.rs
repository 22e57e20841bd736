//! Checks the lines of all candidates for two leaders at the same time.
//!
//! A candidate makes a `leading` line in three steps. It reads the clock, checks its term, and prints the line. The
//! stamp of the line is the time in the first step. If the check succeeds, the term was valid at the stamp, because an
//! ended term never becomes valid again. The term was therefore valid at all times since its first stamp.
//!
//! In this module, a term is therefore the time between its first and its last stamp. If two terms overlap, there were
//! two leaders. A process that is stopped between check and print causes no overlap, because the stamp precedes the
//! check.
//!
//! A `started_leading` line does not count, because no check follows its stamp.

use std::collections::HashMap;

use super::process::Line;

/// A term, from its first to its last `leading` line.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    pub identity: String,
    /// The fencing token, which candidates with client-go do not have.
    pub token: Option<u64>,
    pub first: f64,
    pub last: f64,
}

/// The terms in the lines of all candidates, and the errors in these terms.
#[derive(Debug)]
pub struct History {
    /// The terms in the order of their first lines.
    pub terms: Vec<Term>,
    pub heartbeats: usize,
    /// Pairs of terms that were valid at the same moment.
    pub overlaps: Vec<(Term, Term)>,
    /// Pairs of terms in which the later term does not have the greater token.
    pub disorder: Vec<(Term, Term)>,
}

impl History {
    pub fn of(lines: &[Line]) -> History {
        let mut terms = HashMap::new();
        let mut heartbeats = 0;
        for line in lines.iter().filter(|line| line.event == "leading") {
            heartbeats += 1;
            let Line { mono, fencing_token: token, ref identity, .. } = *line;
            let term = terms.entry((identity, token)).or_insert_with(|| Term {
                identity: identity.clone(),
                token,
                first: mono,
                last: mono,
            });
            (term.first, term.last) = (term.first.min(mono), term.last.max(mono));
        }
        let mut terms: Vec<_> = terms.into_values().collect();
        terms.sort_by(|a, b| a.first.total_cmp(&b.first));
        History { heartbeats, overlaps: overlaps(&terms), disorder: disorder(&terms), terms }
    }

    /// Returns the number of changes of the lease from one candidate to another.
    pub fn handovers(&self) -> usize {
        self.terms.windows(2).filter(|pair| pair[0].identity != pair[1].identity).count()
    }
}

/// Returns the pairs of terms that overlap.
///
/// A term may end after several later terms. Each term is therefore compared with the earlier term that ended last.
fn overlaps(terms: &[Term]) -> Vec<(Term, Term)> {
    let mut found = Vec::new();
    let mut longest: Option<&Term> = None;
    for term in terms {
        if let Some(other) = longest.filter(|other| other.last >= term.first) {
            found.push((other.clone(), term.clone()));
        }
        longest = longest.filter(|other| other.last > term.last).or(Some(term));
    }
    found
}

fn disorder(terms: &[Term]) -> Vec<(Term, Term)> {
    let mut found = Vec::new();
    let mut greatest: Option<&Term> = None;
    for term in terms.iter().filter(|term| term.token.is_some()) {
        match greatest.filter(|other| other.token >= term.token) {
            Some(other) => found.push((other.clone(), term.clone())),
            None => greatest = Some(term),
        }
    }
    found
}
