//! The state of a group's world, and the actions that change the state.

use std::collections::HashMap;

use foldhash::quality::FixedState;
use leasehold::election::group::GroupKey;

use super::process::{ProcessId, SHARDS};
use super::records::{Call, Reply, Stored};
use super::scope::Left;

pub const NODES: usize = 3;
pub const SLOTS: usize = 2;
pub const KEYS: [GroupKey; SLOTS + SHARDS] =
    [GroupKey::Slot(0), GroupKey::Slot(1), GroupKey::Shard(0), GroupKey::Shard(1)];
pub const LATE_WRITES: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupState {
    pub tick: u8,
    pub left: Left,
    pub store: [Stored; KEYS.len()],
    pub nodes: [Option<Node>; NODES],
    /// Writes that may still reach the store although their senders no longer wait, in any order.
    pub late: [Option<Call>; LATE_WRITES],
    /// The highest fencing token of each shard.
    pub tokens: [u8; SHARDS],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Node {
    pub process: ProcessId,
    pub name: u8,
    /// The events that the watch has not delivered, or `None` without a watch.
    pub watch: Option<QueueId>,
    pub request: Option<Flight>,
    pub elector: Elector,
    /// `true` if the process runs and renews in every tick, and learns its own renewals and listings at once.
    pub is_prompt: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Flight {
    pub call: Call,
    pub sent: u8,
    pub reply: Option<Reply>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Elector {
    Idle,
    Campaign { slot: usize, flight: Flight },
    Held { slot: usize, known: Stored, renewed_at: u8, flight: Option<Flight> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GroupAction {
    Tick,
    Start(usize),
    Crash(usize),
    Pause(usize),
    Wake(usize),
    Open(usize),
    Cut(usize),
    Deliver(usize, usize),
    Land(usize),
    Answer(usize),
    Fail(usize),
    Renew(usize),
    ElectorLands(usize),
    ElectorAnswer(usize),
    ElectorFails(usize),
    Return(usize, usize),
    Leave(usize),
    LandLate(usize),
    Edit(usize),
    Delete(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct QueueId(u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    Opened(u8),
    Changed(GroupKey, Stored),
    Listed,
}

#[derive(Default)]
pub struct Queues {
    pub list: Vec<Vec<Event>>,
    pub numbers: HashMap<Vec<Event>, QueueId, FixedState>,
}

impl Queues {
    pub fn number(&mut self, queue: Vec<Event>) -> QueueId {
        let next = QueueId(self.list.len() as u32);
        *self.numbers.entry(queue).or_insert_with_key(|queue| {
            self.list.push(queue.clone());
            next
        })
    }

    pub fn get(&self, id: QueueId) -> &[Event] {
        &self.list[id.0 as usize]
    }
}

impl GroupAction {
    /// Returns zero for the actions of a world without faults.
    pub fn rank(&self) -> u8 {
        u8::from(!matches!(
            self,
            Self::Wake(_)
                | Self::Open(_)
                | Self::Deliver(..)
                | Self::Land(_)
                | Self::Answer(_)
                | Self::Renew(_)
                | Self::ElectorLands(_)
                | Self::ElectorAnswer(_)
        ))
    }
}

impl Node {
    /// Returns the elector's request in flight.
    pub fn flight(&self) -> Option<Flight> {
        match self.elector {
            Elector::Idle => None,
            Elector::Campaign { flight, .. } => Some(flight),
            Elector::Held { flight, .. } => flight,
        }
    }
}

pub fn node(state: &mut GroupState, index: usize) -> &mut Node {
    state.nodes[index].as_mut().expect("a process")
}

/// Keeps a write that has not reached the store. If there is no room, the write never arrives.
pub fn abandon(state: &mut GroupState, flight: Option<Flight>) {
    let Some(Flight { call, reply: None, .. }) = flight else { return };
    if call.write.is_some()
        && let Some(free) = state.late.iter_mut().find(|late| late.is_none())
    {
        *free = Some(call);
        state.late.sort_unstable();
    }
}
