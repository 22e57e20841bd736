//! The events that will happen, in the order of true time.

use std::collections::BTreeMap;
use std::rc::Rc;

use leasehold::composite::ObjectOperation;
use leasehold::election::{StoreRequest, StoreResponse};
use leasehold::store::{StoreError, VersionedRecord};

use crate::clock::Nanos;
use crate::stream::Turn;
use crate::two_objects::candidate::ObjectRequest;
use crate::two_objects::multi_lock::{Ask, Told};

/// The recipient of an event: a node, and the number of its process.
pub type To = (usize, u32);

pub enum What {
    Wake(u64),
    /// A request reaches the store, which sends its answers after the given delays.
    Arrives(Sent, Rc<StoreRequest>, Vec<Nanos>),
    Answer(Sent, StoreResponse),
    TimesOut(u64),
    Interrupt(u64),
    /// An event of the node's watch, on the stream with this number.
    Watch(u64, Turn),
    /// A request to one of two objects arrives, and its store answers after the given delays.
    ObjectArrives(ObjectRequest, Rc<ObjectOperation>, Vec<Nanos>),
    ObjectAnswer(ObjectRequest, Result<Option<VersionedRecord>, StoreError>),
    ClientGoWakes,
    /// A request of a client-go candidate reaches its store.
    ///
    /// The answer arrives after the given delay.
    ClientGoAsks(Ask, Nanos),
    ClientGoHears(Told),
    /// The work of the term makes progress or hangs.
    ///
    /// The number is the campaign that won the term.
    Work(u64),
    SetFit(bool),
    /// An outage of the object's store starts.
    Outage(usize),
    /// The user's thread reports the step-down of the term.
    StepDown(u64),
    User,
    Restart,
    Chaos,
    Operator,
    /// An operator edits the notes, or repeats the request for this identity.
    EditNotes(Option<String>),
    Restore,
    /// An API server catches up with the store.
    Lag(usize),
    Label,
    Heal,
    Check,
    HandOver,
    /// The time by which another candidate must have taken over.
    HandedOver,
    End,
}

/// A request, and what the node knew when it sent the request.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    pub id: u64,
    /// The object to which the request was sent.
    pub object: usize,
    /// The newest version that the node knew.
    pub knowing: u64,
    /// `true` if the node knew that no object existed.
    pub absent: bool,
    /// The time at which the request was sent.
    pub at: Nanos,
}

#[derive(Default)]
pub struct Queue {
    /// The events by time, and by insertion order for the same time.
    ///
    /// Events are boxed, because a map moves its values.
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
