//! Every state that a candidate has been in, by number, with the outcome of each event.
//!
//! A candidate cannot be copied, so a state is stored as the events that led to it. To find the outcome of another
//! event, a new candidate first replays the stored events. The outcome is then cached, so each pair of state and event
//! is replayed only once.

use std::collections::HashMap;

use foldhash::quality::FixedState;

use crate::candidate::{Event, Facts, Process};
use crate::coverage::Witnesses;
use crate::normal::fingerprint;
use crate::records::Records;
use crate::scope::Scope;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CandidateId(u32);

#[derive(Debug, Clone, Copy)]
enum Origin {
    Start { index: usize, incarnation: u8 },
    From { before: CandidateId, tick: u8, event: Event },
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
    outcomes: HashMap<(CandidateId, u8, Event), Outcome, FixedState>,
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
        let candidate = Process::new(&self.scope, index, incarnation);
        self.number(&candidate, 0, Origin::Start { index, incarnation })
    }

    pub fn facts(&self, id: CandidateId) -> &Facts {
        &self.facts[id.0 as usize]
    }

    pub fn take(
        &mut self,
        before: CandidateId,
        tick: u8,
        event: Event,
        records: &mut Records,
    ) -> Result<Outcome, String> {
        if let Some(outcome) = self.outcomes.get(&(before, tick, event)) {
            return Ok(*outcome);
        }
        let mut candidate = self.revive(before, records);
        candidate.take(tick, event, records)?;
        let covered = candidate.covered();
        let after = self.number(&candidate, tick, Origin::From { before, tick, event });
        let outcome = Outcome { after, covered };
        self.outcomes.insert((before, tick, event), outcome);
        Ok(outcome)
    }

    fn number(&mut self, candidate: &Process, tick: u8, origin: Origin) -> CandidateId {
        let next = CandidateId(self.facts.len() as u32);
        let id = *self.numbers.entry(fingerprint(&candidate.text(tick))).or_insert(next);
        if id == next {
            self.origins.push(origin);
            self.facts.push(candidate.facts());
        }
        id
    }

    fn revive(&self, mut id: CandidateId, records: &mut Records) -> Process {
        let mut events = Vec::new();
        let (index, incarnation) = loop {
            match self.origins[id.0 as usize] {
                Origin::Start { index, incarnation } => break (index, incarnation),
                Origin::From { before, tick, event } => {
                    events.push((tick, event));
                    id = before;
                }
            }
        };
        let mut candidate = Process::new(&self.scope, index, incarnation);
        for (tick, event) in events.into_iter().rev() {
            candidate.take(tick, event, records).expect("an event that was taken before");
        }
        candidate.covered();
        candidate
    }
}
