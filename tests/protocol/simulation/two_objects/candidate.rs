//! The requests of candidates that compete for both objects.
//!
//! A candidate sends one request at a time, and another candidate may act between two of its requests.

use std::rc::Rc;
use std::time::Duration;

use leasehold::composite::{Composite, CompositeCall, ObjectOperation};
use leasehold::election::{Operation, StoreRequest, StoreResponse};
use leasehold::store::{StoreError, StoreErrorKind, VersionedRecord};

use crate::clock::Nanos;
use crate::network::Fate;
use crate::plan::Violation;
use crate::queue::{Sent, To, What};
use crate::trace::{self, trace};
use crate::world::World;

/// The lock of two objects of one process.
pub struct Lock {
    composite: Composite,
    call: Option<Call>,
    /// The number of requests to objects.
    requests: u64,
}

/// A call that is under way.
struct Call {
    request: StoreRequest,
    requests: CompositeCall,
    sent: Sent,
    times_out: Nanos,
}

/// A request to an object.
#[derive(Debug, Clone, Copy)]
pub struct ObjectRequest {
    object: usize,
    number: u64,
}

impl Lock {
    pub fn new(identity: &str, lease_duration: Duration) -> Self {
        Self { composite: Composite::new(identity, lease_duration.as_secs() as i32), call: None, requests: 0 }
    }

    /// Ends the current call with an error.
    pub fn gives_up(&mut self, error: &StoreError) {
        if let Some(mut call) = self.call.take() {
            call.requests.answered(&mut self.composite, Err(error.clone()));
        }
    }
}

impl World {
    /// Starts a call of both objects.
    pub fn send_to_objects(&mut self, index: usize, request: StoreRequest) -> Result<(), Violation> {
        let node = &mut self.nodes[index];
        let Some(lock) = &mut node.lock else { unreachable!("one object") };
        let requests = match &request.operation {
            Operation::Get(_) => CompositeCall::read(),
            Operation::Create(record) => lock.composite.write(None, record.with_notes(&request.notes)).expect("own"),
            Operation::Update(base, record) => {
                lock.composite.write(Some(base), record.with_notes(&request.notes)).expect("own")
            }
        };
        let times_out = node.clock.when(node.clock.local(self.truth) + request.timeout).max(self.truth + 1);
        let (knowing, absent) = (node.record.known.0, node.record.known.1.is_none());
        let sent = Sent { id: request.id, object: 0, knowing, absent, at: self.truth };
        node.record.in_flight = Some(request.id);
        self.queue.push(times_out, Some((index, node.incarnation)), What::TimesOut(request.id));
        lock.call = Some(Call { request, requests, sent, times_out });
        self.send_to_object(index);
        Ok(())
    }

    /// Sends the next request of the current call.
    fn send_to_object(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let (to, cut) = (Some((index, node.incarnation)), node.cut(self.truth));
        let Some(Lock { call: Some(call), requests, .. }) = &mut node.lock else { return };
        *requests += 1;
        let (object, operation) = (call.requests.object() as usize, call.requests.operation());
        let request = ObjectRequest { object, number: *requests };
        let is_read = matches!(operation, ObjectOperation::Get);
        let left = call.times_out.saturating_sub(self.truth);
        let fate = match self.plan.fate_of(index, object, is_read, self.truth) {
            // A paused process goes on after the timeout.
            _ if left == 0 => {
                Fate { error: Some((StoreError::new(StoreErrorKind::Timeout, "no time"), 0)), ..Fate::default() }
            }
            Some(fate) => fate,
            None => Fate::draw(&mut self.random, &self.plan.odds, cut, left),
        };
        trace!(self, "{} sends {}: {request:?} {operation:?}, {fate:?}", node.identity, call.request.id);
        self.count.requests += 1;
        fate.faults.iter().for_each(|kind| self.count.fault(kind));
        let operation = Rc::new(operation);
        for arrival in fate.arrivals {
            let at = self.arrives_at(arrival);
            self.queue.push(at, to, What::ObjectArrives(request, Rc::clone(&operation), fate.answers.clone()));
        }
        if let Some((error, delay)) = fate.error {
            self.queue.push(self.truth + delay, to, What::ObjectAnswer(request, Err(error)));
        }
    }

    pub fn object_arrives(
        &mut self,
        to: Option<To>,
        request: ObjectRequest,
        operation: &ObjectOperation,
        answers: Vec<Nanos>,
    ) {
        let store = &mut self.stores[request.object];
        let result = match operation {
            ObjectOperation::Get => Ok(store.observed().cloned()),
            ObjectOperation::Create(record, notes) => store.write(None, record.clone(), notes.clone()).map(Some),
            ObjectOperation::Update(base, record, notes) => {
                store.write(Some(base.version), record.clone(), notes.clone()).map(Some)
            }
        };
        self.one_counter();
        trace!(self, "store {} answers {request:?} of {to:?} with {}", request.object, trace::result(&result));
        for delay in answers {
            let answer = result.clone().map_err(|kind| StoreError::new(kind, "refused"));
            self.queue.push(self.truth + delay, to, What::ObjectAnswer(request, answer));
        }
    }

    pub fn object_answers(
        &mut self,
        index: usize,
        request: ObjectRequest,
        answer: Result<Option<VersionedRecord>, StoreError>,
    ) -> Result<(), Violation> {
        let Some(lock) = &mut self.nodes[index].lock else { return Ok(()) };
        // An answer to an earlier request came on a connection that is closed.
        let Some(mut call) = lock.call.take_if(|_| lock.requests == request.number) else { return Ok(()) };
        let Some(result) = call.requests.answered(&mut lock.composite, answer) else {
            lock.call = Some(call);
            self.send_to_object(index);
            return Ok(());
        };
        let response = match (call.request.operation, result) {
            (_, Err(error)) => StoreResponse::Failed(error),
            (Operation::Get(context), Ok(found)) => StoreResponse::Read(context, found),
            (_, Ok(Some(written))) => StoreResponse::Written(written),
            (_, Ok(None)) => return Err("a write returned no record".to_owned().into()),
        };
        self.answer(index, call.sent, response)
    }
}
