//! The numbers and times of the requests that a claim has sent.

use crate::store::StoreOperation;
use crate::store::record::{MicroTime, unix_micros};
use crate::util::clock::{Moment, Now};

/// The requests of a claim: their numbers, their times, and the request under way.
#[derive(Debug, Default)]
pub(super) struct SentRequests {
    /// The last `renewTime` in microseconds, and its moment.
    last_stamp: Option<(u64, Moment)>,
    last_request: u64,
    under_way: Option<RequestUnderWay>,
    last_acquisition: u64,
}

/// A request whose answer has not arrived.
#[derive(Debug, Clone, Copy)]
pub struct RequestUnderWay {
    /// The number of the request.
    pub id: u64,
    /// The operation of the request.
    pub operation: StoreOperation,
    /// The time at which the request was sent.
    pub sent_at: Moment,
}

impl SentRequests {
    /// Returns the number of the next request.
    pub(super) fn next_id(&self) -> u64 {
        self.last_request + 1
    }

    /// Notes that a request is sent, and returns its number.
    pub(super) fn send(&mut self, now: Moment, operation: StoreOperation) -> u64 {
        self.last_request = self.next_id();
        self.under_way = Some(RequestUnderWay { id: self.last_request, operation, sent_at: now });
        self.last_request
    }

    pub(super) fn under_way(&self) -> Option<RequestUnderWay> {
        self.under_way
    }

    /// Notes the answer to the request `id`. Returns the request unless another request is under way.
    pub(super) fn answered(&mut self, id: u64) -> Option<RequestUnderWay> {
        self.under_way.take_if(|request| request.id == id)
    }

    /// Returns the number of a new acquisition.
    pub(super) fn next_acquisition(&mut self) -> u64 {
        self.last_acquisition += 1;
        self.last_acquisition
    }

    /// Returns the `renewTime` of a write that is sent now, also in microseconds.
    ///
    /// `renewTime` grows with every write, even if the wall clock goes back, because standbys detect a renewal by a
    /// changed record.
    pub(super) fn stamp(&mut self, now: Now) -> (u64, MicroTime) {
        let wall = unix_micros(now.wall);
        let micros = match self.last_stamp {
            Some((last, at)) => {
                let counted = u64::try_from(now.local.since(at).as_micros()).unwrap_or(u64::MAX);
                wall.max(last.saturating_add(counted.max(1)))
            }
            None => wall,
        };
        self.last_stamp = Some((micros, now.local));
        (micros, MicroTime::from_unix_micros(micros))
    }
}
