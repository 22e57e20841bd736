//! What is to happen, in the order of true time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use leasehold::election::StoreResponse;
use leasehold::election::candidate::side::Side;

use crate::clock::Nanos;
use crate::store::Call;
use crate::stream::Turn;
use crate::two_objects::multi_lock::{Ask, Told};

/// To whom something happens: a node, and which of the processes that it has been.
pub type To = (usize, u32);

pub enum What {
    Wake(Side, u64),
    /// A request reaches the store, and its answers are sent.
    Arrives(Sent, Call, Vec<Nanos>),
    Answer(Sent, StoreResponse),
    TimesOut(Side, u64),
    Interrupt(Side, u64),
    /// Something becomes of a watch of the node: of the stream with this number.
    Watch(Side, u64, Turn),
    ClientGoWakes,
    /// A request of client-go's reaches its store, and is answered so much later.
    ClientGoAsks(Ask, Nanos),
    ClientGoHears(Told),
    /// The work of the term that this campaign won makes progress, or hangs.
    Work(u64),
    SetFit(bool),
    /// The store of this object does not answer from now on.
    Outage(usize),
    /// The user's thread tells of a step-down of the term.
    StepDown(u64),
    User,
    Restart,
    Chaos,
    Operator,
    Restore,
    /// An API server catches up with the store.
    Lag(usize),
    Label,
    Heal,
    Check,
    HandOver,
    /// By now somebody else must have taken over.
    HandedOver,
    End,
}

/// A request, and what was known when it was sent.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    pub id: u64,
    pub side: Side,
    /// Of which object.
    pub object: usize,
    /// The newest version.
    pub knowing: u64,
    /// Whether nothing was there.
    pub absent: bool,
    /// When it was sent.
    pub at: Nanos,
}

pub struct Queued {
    pub at: Nanos,
    number: u64,
    pub to: Option<To>,
    /// Boxed, for a heap moves what it holds about.
    pub what: Box<What>,
}

#[derive(Default)]
pub struct Queue {
    heap: BinaryHeap<Reverse<Queued>>,
    queued: u64,
}

impl Queue {
    pub fn push(&mut self, at: Nanos, to: Option<To>, what: What) {
        self.queued += 1;
        self.heap.push(Reverse(Queued { at, number: self.queued, to, what: Box::new(what) }));
    }

    pub fn pop(&mut self) -> Option<Queued> {
        self.heap.pop().map(|Reverse(queued)| queued)
    }
}

impl PartialEq for Queued {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Queued {}

impl PartialOrd for Queued {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Queued {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}
