//! The watches of ours, and the requests of client-go's.

use leasehold::StoreErrorKind;
use leasehold::election::Change;
use leasehold::election::candidate::session::Input;
use leasehold::election::candidate::side::Side;

use super::multi_lock::{Ask, Next, Told};
use super::node::{Mind, Record, Stream};
use super::world::{Event, Streamed, World};
use crate::clock::{MILLI, Nanos, SECOND};
use crate::plan::Violation;

impl World {
    pub(super) fn open(&mut self, index: usize, side: Side) -> Result<(), Violation> {
        let incarnation = self.nodes[index].incarnation;
        let stalled = self.truth < self.plan.heal_at && self.random.u8(..8) == 0;
        let object = self.ours(index).records[side as usize].object;
        if let Some((until, _)) = self.plan.outage(object, self.truth) {
            let at = until + self.random.u64(..3 * SECOND);
            self.push(at, Event::Open(index, incarnation, side));
            return Ok(());
        }
        let told = self.stores[object].changes.len();
        let there = self.stores[object].observed().cloned();
        let truth = self.truth;
        let record = &mut self.ours(index).records[side as usize];
        record.streams += 1;
        let number = record.streams;
        record.stream = Some(Stream { told, last: truth + MILLI, stalled });
        self.handle(index, side, Input::WatchOpened { from_scratch: true })?;
        if let Some(observed) = there {
            let change = Streamed::Change(Change::Written(observed));
            self.push(truth + MILLI, Event::Streamed(index, incarnation, side, number, change));
        }
        Ok(())
    }

    pub(super) fn tell_streams(&mut self) {
        for index in 0..self.nodes.len() {
            let Mind::Ours(ours) = &mut self.nodes[index].mind else { continue };
            let mut events = Vec::new();
            for record in &mut ours.records {
                let changes = &self.stores[record.object].changes;
                let Some(stream) = &mut record.stream else { continue };
                for change in &changes[stream.told.min(changes.len())..] {
                    stream.last = (self.truth + self.random.u64(..30 * MILLI)).max(stream.last + 1);
                    if !stream.stalled {
                        events.push((stream.last, record.side, record.streams, change.event()));
                    }
                }
                stream.told = changes.len();
            }
            let incarnation = self.nodes[index].incarnation;
            for (at, side, stream, change) in events {
                self.push(at, Event::Streamed(index, incarnation, side, stream, Streamed::Change(change)));
            }
        }
    }

    pub(super) fn streamed(
        &mut self,
        index: usize,
        side: Side,
        stream: u64,
        streamed: Streamed,
    ) -> Result<(), Violation> {
        let record = &mut self.ours(index).records[side as usize];
        if record.stream.is_none() || record.streams != stream {
            return Ok(());
        }
        match streamed {
            Streamed::Change(change) => {
                let received_at = self.nodes[index].clock.local(self.truth);
                self.handle(index, side, Input::Watched { received_at, change })
            }
            Streamed::Ended => {
                record.stream = None;
                let incarnation = self.nodes[index].incarnation;
                let after = self.random.u64(SECOND / 2..3 * SECOND);
                self.push(self.truth + after, Event::Open(index, incarnation, side));
                self.handle(index, side, Input::WatchEnded)
            }
        }
    }

    pub(super) fn end_stream(&mut self, index: usize, side: Side) {
        let incarnation = self.nodes[index].incarnation;
        let stream = self.ours(index).records[side as usize].streams;
        self.push(self.truth + MILLI, Event::Streamed(index, incarnation, side, stream, Streamed::Ended));
    }

    /// Ends each watch of an object.
    pub(super) fn cut(&mut self, object: usize) {
        for index in 0..self.nodes.len() {
            let Mind::Ours(ours) = &self.nodes[index].mind else { continue };
            let is_open = |record: &&Record| record.object == object && record.stream.is_some();
            let sides: Vec<_> = ours.records.iter().filter(is_open).map(|record| record.side).collect();
            sides.into_iter().for_each(|side| self.end_stream(index, side));
        }
    }

    pub(super) fn client_go_next(&mut self, index: usize, next: Next) {
        let incarnation = self.nodes[index].incarnation;
        match next {
            Next::Ask(ask) => {
                let (there, back) = (self.random.u64(..15 * MILLI), self.random.u64(..15 * MILLI));
                self.push(self.truth + there, Event::ClientGoAsks(index, incarnation, ask, back));
            }
            Next::Wait(time) => {
                let time = time.mul_f64(1.0 + 0.2 * self.random.f64()).as_nanos() as Nanos;
                self.push(self.truth + time, Event::ClientGoWakes(index, incarnation));
            }
            Next::Done => self.crash(index),
        }
    }

    pub(super) fn client_go_asks(&mut self, ask: &Ask) -> Told {
        let (object, base, record) = match ask {
            Ask::Get(object) => return Told::Found(self.stores[*object].observed().cloned()),
            Ask::Create(object, record) => (*object, None, record),
            Ask::Update(object, base, record) => (*object, Some(*base), record),
        };
        let written = self.stores[object].write(base, record.clone());
        self.one_counter();
        match written {
            Ok(observed) => Told::Written(observed.version),
            Err(StoreErrorKind::AlreadyExists) => Told::Exists,
            Err(_) => Told::Failed,
        }
    }
}
