//! Every state that a candidate has been in, by number, with the outcome of each input.
//!
//! An election cannot be copied, so a state is stored as the inputs that led to it. To find the outcome of another
//! input, a new candidate first replays the stored inputs. The outcome is then cached, so each pair of state and input
//! is replayed only once.

use std::collections::HashMap;

use foldhash::quality::FixedState;

use crate::candidate::{Candidate, Facts, Input};
use crate::coverage::Witnesses;
use crate::normal::fingerprint;
use crate::records::Records;
use crate::scope::Scope;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CandidateId(u32);

#[derive(Debug, Clone, Copy)]
enum Origin {
    Start { index: usize, incarnation: u8 },
    From { before: CandidateId, tick: u8, input: Input },
}

#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    pub after: CandidateId,
    pub covered: Witnesses,
}

pub struct Candidates {
    scope: Scope,
    origins: Vec<Origin>,
    facts: Vec<Facts>,
    numbers: HashMap<u128, CandidateId, FixedState>,
    outcomes: HashMap<(CandidateId, u8, Input), Outcome, FixedState>,
}

impl Candidates {
    pub fn new(scope: &Scope) -> Self {
        Self {
            scope: scope.clone(),
            origins: Vec::new(),
            facts: Vec::new(),
            numbers: HashMap::default(),
            outcomes: HashMap::default(),
        }
    }

    /// Returns the number of distinct states of single candidates.
    pub fn len(&self) -> usize {
        self.facts.len()
    }

    pub fn start(&mut self, index: usize, incarnation: u8) -> CandidateId {
        let candidate = Candidate::new(&self.scope, index, incarnation);
        self.number(&candidate, 0, Origin::Start { index, incarnation })
    }

    pub fn facts(&self, id: CandidateId) -> &Facts {
        &self.facts[id.0 as usize]
    }

    pub fn take(
        &mut self,
        before: CandidateId,
        tick: u8,
        input: Input,
        records: &mut Records,
    ) -> Result<Outcome, String> {
        if let Some(outcome) = self.outcomes.get(&(before, tick, input)) {
            return Ok(*outcome);
        }
        let mut candidate = self.revive(before, records);
        candidate.take(tick, input, records)?;
        let covered = candidate.covered();
        let after = self.number(&candidate, tick, Origin::From { before, tick, input });
        let outcome = Outcome { after, covered };
        self.outcomes.insert((before, tick, input), outcome);
        Ok(outcome)
    }

    fn number(&mut self, candidate: &Candidate, tick: u8, origin: Origin) -> CandidateId {
        let next = CandidateId(self.facts.len() as u32);
        let id = *self.numbers.entry(fingerprint(&candidate.text(tick))).or_insert(next);
        if id == next {
            self.origins.push(origin);
            self.facts.push(candidate.facts());
        }
        id
    }

    fn revive(&self, mut id: CandidateId, records: &mut Records) -> Candidate {
        let mut inputs = Vec::new();
        let (index, incarnation) = loop {
            match self.origins[id.0 as usize] {
                Origin::Start { index, incarnation } => break (index, incarnation),
                Origin::From { before, tick, input } => {
                    inputs.push((tick, input));
                    id = before;
                }
            }
        };
        let mut candidate = Candidate::new(&self.scope, index, incarnation);
        for (tick, input) in inputs.into_iter().rev() {
            candidate.take(tick, input, records).expect("an input that was taken before");
        }
        candidate.covered();
        candidate
    }
}
