//! The state of the model's world.

use crate::candidates::CandidateId;
use crate::records::Call;
use crate::scope::Limits;
use crate::store::{Reply, StoreId};

pub const MOST_CANDIDATES: usize = 3;
const MOST_LATE_WRITES: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct State {
    pub tick: u8,
    pub left: Limits,
    pub store: StoreId,
    pub nodes: [Option<Node>; MOST_CANDIDATES],
    pub late_writes: LateWrites,
    pub highest_token: u16,
    /// The version that the latest deletion produced.
    pub deleted_at: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Node {
    pub candidate: CandidateId,
    pub request: Stage,
    pub incarnation: u8,
    /// `true` once the model has seen the end of the term, even if the candidate has not.
    pub over: bool,
    pub watches: bool,
    /// The newest version that the candidate's watch has delivered.
    pub told: u16,
}

/// The progress of a candidate's request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stage {
    None,
    Sent,
    Answered(Reply),
}

/// Writes that may still reach the store although their senders no longer wait.
///
/// The order of the writes has no meaning, so the list is kept sorted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct LateWrites([Option<Call>; MOST_LATE_WRITES]);

impl LateWrites {
    /// Adds `call`, or returns `false` if there is no room.
    pub fn add(&mut self, call: Call) -> bool {
        let free = self.0.iter().position(Option::is_none);
        if let Some(free) = free {
            self.0[free] = Some(call);
            self.sort();
        }
        free.is_some()
    }

    pub fn get(&self, index: usize) -> Option<Call> {
        self.0[index]
    }

    pub fn remove(&mut self, index: usize) {
        self.0[index] = None;
        self.sort();
    }

    /// Keeps the writes for which `may_land` returns `true`.
    pub fn retain(&mut self, may_land: impl Fn(Call) -> bool) {
        for write in &mut self.0 {
            *write = write.filter(|call| may_land(*call));
        }
        self.sort();
    }

    pub fn indices() -> std::ops::Range<usize> {
        0..MOST_LATE_WRITES
    }

    fn sort(&mut self) {
        self.0.sort_by_key(|write| match write {
            None => (2, 0, None),
            Some(Call::Get) => (1, 0, None),
            Some(Call::Create(record)) => (0, 0, Some(*record)),
            Some(Call::Update(base, record)) => (0, base.version, Some(*record)),
        });
    }
}
