//! One linearizable store that behaves like an API server.
//!
//! Each state of the store has a number.

use std::collections::HashMap;

use foldhash::quality::FixedState;
use leasehold::store::LeaderElectionRecord;

use crate::records::{Call, Records, Standing};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StoreId(u32);

/// The state of the store after one write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Stored {
    pub version: u16,
    pub object: Option<Standing>,
    /// The number of objects that have been created under the lease's name.
    objects: u8,
    /// The tick of the write, or zero if the store does not remember its history.
    pub written_at: u8,
    /// The state before the write, if the store remembers its history.
    before: Option<StoreId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reply {
    Stands(Standing),
    Nothing,
    Conflict,
}

pub struct Stores {
    remembers: bool,
    list: Vec<Stored>,
    numbers: HashMap<Stored, StoreId, FixedState>,
}

impl Stores {
    /// Creates a store without any state.
    ///
    /// If `remembers`, each state includes its history, which the watches deliver. States with different histories then
    /// differ.
    pub fn new(remembers: bool) -> Self {
        Self { remembers, list: Vec::new(), numbers: HashMap::default() }
    }

    pub fn empty(&mut self) -> StoreId {
        self.number(Stored { version: 0, object: None, objects: 0, written_at: 0, before: None })
    }

    pub fn get(&self, id: StoreId) -> &Stored {
        &self.list[id.0 as usize]
    }

    /// Returns the state after the first write that is newer than `version`.
    pub fn next_after(&self, mut id: StoreId, version: u16) -> Option<&Stored> {
        let mut next = None;
        while self.get(id).version > version {
            next = Some(self.get(id));
            id = self.get(id).before?;
        }
        next
    }

    pub fn apply(
        &mut self,
        id: StoreId,
        tick: u8,
        call: Call,
        records: &mut Records,
    ) -> Result<(StoreId, Reply), String> {
        let stored = *self.get(id);
        match (call, stored.object) {
            (Call::Get, Some(standing)) => Ok((id, Reply::Stands(standing))),
            (Call::Get, None) => Ok((id, Reply::Nothing)),
            (Call::Create(record), None) => {
                let uid = Some(format!("uid-{}", stored.objects + 1));
                let notes = records.notes(record).clone();
                let record = records.number(LeaderElectionRecord { uid, ..records.get(record).clone() }, notes);
                let standing = Standing { version: stored.version + 1, record };
                Ok((self.write(id, tick, Some(standing), stored.objects + 1), Reply::Stands(standing)))
            }
            (Call::Update(base, record), Some(standing)) if base.version == standing.version => {
                if base != standing {
                    return Err(format!("{} was never there to be written over", records.show(base)));
                }
                must_move(records.get(standing.record), records.get(record))?;
                let standing = Standing { version: stored.version + 1, record };
                Ok((self.write(id, tick, Some(standing), stored.objects), Reply::Stands(standing)))
            }
            (Call::Create(_) | Call::Update(..), _) => Ok((id, Reply::Conflict)),
        }
    }

    /// Edits a label: the version changes, but the record does not.
    pub fn edit(&mut self, id: StoreId, tick: u8) -> Option<StoreId> {
        let Stored { version, object, objects, .. } = *self.get(id);
        let standing = Standing { version: version + 1, ..object? };
        Some(self.write(id, tick, Some(standing), objects))
    }

    /// Writes a request beside the record, which asks the holder to step down.
    pub fn request(&mut self, id: StoreId, tick: u8, records: &mut Records) -> Option<StoreId> {
        let Stored { version, object, objects, .. } = *self.get(id);
        let (record, mut notes) = (records.get(object?.record).clone(), records.notes(object?.record).clone());
        notes.step_down = record.holder().map(str::to_owned);
        let standing = Standing { version: version + 1, record: records.number(record, notes) };
        Some(self.write(id, tick, Some(standing), objects))
    }

    pub fn delete(&mut self, id: StoreId, tick: u8) -> Option<StoreId> {
        let stored = *self.get(id);
        stored.object.map(|_| self.write(id, tick, None, stored.objects))
    }

    fn write(&mut self, before: StoreId, tick: u8, object: Option<Standing>, objects: u8) -> StoreId {
        let version = self.get(before).version + 1;
        let (written_at, before) = if self.remembers { (tick, Some(before)) } else { (0, None) };
        self.number(Stored { version, object, objects, written_at, before })
    }

    fn number(&mut self, stored: Stored) -> StoreId {
        let next = StoreId(self.list.len() as u32);
        *self.numbers.entry(stored).or_insert_with(|| {
            self.list.push(stored);
            next
        })
    }
}

/// Returns an error if two records do not show the write between them.
///
/// Each write must change `renewTime` or `acquireTime`. Each new `acquireTime` must add one to `leaseTransitions`.
fn must_move(before: &LeaderElectionRecord, after: &LeaderElectionRecord) -> Result<(), String> {
    if before.renew_time == after.renew_time && before.acquire_time == after.acquire_time {
        return Err(format!("a write left renewTime standing still: {after:?}"));
    }
    let steps = after.lease_transitions.unwrap_or(0) - before.lease_transitions.unwrap_or(0);
    if steps != i32::from(before.acquire_time != after.acquire_time) {
        return Err(format!("leaseTransitions went from {before:?} to {after:?}"));
    }
    Ok(())
}
