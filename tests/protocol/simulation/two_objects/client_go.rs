//! The requests of candidates that act like client-go.

use leasehold::store::{RecordNotes, StoreErrorKind};

use super::multi_lock::{Ask, Next, Told};
use crate::clock::{MILLI, Nanos};
use crate::queue::{To, What};
use crate::store::Store;
use crate::trace::trace;
use crate::world::World;

/// The wall clock at the start of the world, in microseconds since 1970.
const WALL: u64 = 1_700_000_000_000_000;

impl World {
    pub fn client_go(&mut self, to: Option<To>, what: What) {
        let Some((index, _)) = to else { return };
        let (truth, wall) = (self.truth, WALL + self.truth / 1_000);
        let now = self.nodes[index].clock.local(truth);
        let next = match what {
            What::ClientGoAsks(ask, answer) => {
                let told = self.client_go_asks(&ask);
                trace!(self, "{} of client-go asks {ask:?}: {told:?}", self.nodes[index].identity);
                return self.queue.push(truth + answer, to, What::ClientGoHears(told));
            }
            What::ClientGoHears(told) => {
                let led = self.nodes[index].valid(truth);
                let next = self.nodes[index].client_go().told(now, wall, told);
                if !led && self.nodes[index].valid(truth) {
                    self.count.fault("terms of client-go");
                }
                next
            }
            _ => self.nodes[index].client_go().wake(now, wall),
        };
        match next {
            Next::Ask(ask) => {
                let (there, back) = (self.random.u64(..15 * MILLI), self.random.u64(..15 * MILLI));
                self.queue.push(truth + there, to, What::ClientGoAsks(ask, back));
            }
            Next::Wait(time) => {
                let time = time.mul_f64(1.0 + 0.2 * self.random.f64()).as_nanos() as Nanos;
                self.queue.push(truth + time, to, What::ClientGoWakes);
            }
            Next::Done => self.crash_for_a_lease(index),
        }
    }

    fn client_go_asks(&mut self, ask: &Ask) -> Told {
        let (object, base, record) = match ask {
            Ask::Get(object) => return Told::Found(self.stores[*object].observed().cloned()),
            Ask::Create(object, record) => (*object, None, record),
            Ask::Update(object, base, record) => (*object, Some(*base), record),
        };
        let written = self.stores[object].write(base, record.clone(), RecordNotes::default());
        self.one_counter();
        match written {
            Ok(observed) => Told::Written(observed.version),
            Err(StoreErrorKind::AlreadyExists) => Told::Exists,
            Err(_) => Told::Failed,
        }
    }

    /// Gives both stores the same version, because both objects are in one etcd.
    pub fn one_counter(&mut self) {
        let version = self.stores.iter().map(Store::version).max().unwrap_or(0);
        self.stores.iter_mut().for_each(|store| store.unrelated(version - store.version()));
    }
}
