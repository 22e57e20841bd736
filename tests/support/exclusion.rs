//! Checks that there was never more than one leader, from the lines that the candidates printed.
//!
//! A candidate stamps a `leading` line first, then asks whether it leads, and prints the line if so. Its term was valid
//! when it asked, which is not before the stamp; and since a term that is over never comes back, it was valid at the
//! stamp too, and at every moment since the term's first line. So a term is the time between its first and its last
//! stamp, and two of them that share a moment were two leaders at that moment. There is no excuse for that: however long
//! a process is stopped between its check and its print, its line only describes the time of the stamp.
//!
//! A `started_leading` line does not count, because it is stamped after the term was won.

use std::collections::HashMap;

use super::process::Line;

/// A term, as far as its heartbeats show it.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    pub identity: String,
    /// client-go has none.
    pub token: Option<u64>,
    pub first: f64,
    pub last: f64,
}

/// Everything that was said about who led.
#[derive(Debug)]
pub struct History {
    /// In the order in which they began.
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

    /// How often the lease went from one candidate to another.
    pub fn handovers(&self) -> usize {
        self.terms.windows(2).filter(|pair| pair[0].identity != pair[1].identity).count()
    }
}

/// A term may outlast several later terms, so each term is compared with the term that has ended last so far.
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
