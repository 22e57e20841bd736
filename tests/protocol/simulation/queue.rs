//! What is to happen, in the order of true time.

use std::collections::BTreeMap;

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

#[derive(Default)]
pub struct Queue {
    /// By the time and by the order of the pushes. Boxed, because a map moves its values.
    queued: BTreeMap<(Nanos, u64), (Option<To>, Box<What>)>,
    pushes: u64,
}

impl Queue {
    pub fn push(&mut self, at: Nanos, to: Option<To>, what: What) {
        self.pushes += 1;
        self.queued.insert((at, self.pushes), (to, Box::new(what)));
    }

    pub fn pop(&mut self) -> Option<(Nanos, Option<To>, What)> {
        self.queued.pop_first().map(|((at, _), (to, what))| (at, to, *what))
    }
}
