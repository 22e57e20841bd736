//! Records by number, so that a state that refers to many records stays small.

use std::collections::HashMap;

use leasehold::store::{LeaderElectionRecord, RecordNotes};

use crate::store::Reply;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordId(u32);

/// The stored record and its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Standing {
    pub version: u16,
    pub record: RecordId,
}

/// A request of a candidate to the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    Get,
    Create(RecordId),
    Update(Standing, RecordId),
}

#[derive(Debug, Default)]
pub struct Records {
    list: Vec<(LeaderElectionRecord, RecordNotes)>,
    numbers: HashMap<String, RecordId>,
}

impl Records {
    /// Returns the number of a record with the notes beside it.
    pub fn number(&mut self, record: LeaderElectionRecord, notes: RecordNotes) -> RecordId {
        let next = RecordId(self.list.len() as u32);
        *self.numbers.entry(format!("{record:?} {notes:?}")).or_insert_with(|| {
            self.list.push((record, notes));
            next
        })
    }

    pub fn get(&self, id: RecordId) -> &LeaderElectionRecord {
        &self.list[id.0 as usize].0
    }

    pub fn notes(&self, id: RecordId) -> &RecordNotes {
        &self.list[id.0 as usize].1
    }

    pub fn show(&self, standing: Standing) -> String {
        format!("version {}, {}", standing.version, self.show_record(standing.record))
    }

    pub fn show_record(&self, id: RecordId) -> String {
        let record = self.get(id);
        let renewed = record.renew_time.as_ref().map(|time| time.as_str().trim_start_matches("2023-11-14T22:"));
        let acquired = record.acquire_time.as_ref().map(|time| time.as_str());
        let holder = record.holder().unwrap_or("nobody");
        format!("held by {holder}, acquired {}, renewed {}", acquired.unwrap_or("-"), renewed.unwrap_or("-"))
    }

    pub fn show_call(&self, call: Call) -> String {
        match call {
            Call::Get => "a read".into(),
            Call::Create(record) => format!("a create: {}", self.show_record(record)),
            Call::Update(base, record) => {
                format!("an update of version {}: {}", base.version, self.show_record(record))
            }
        }
    }

    pub fn show_reply(&self, reply: Reply) -> String {
        match reply {
            Reply::Stands(standing) => self.show(standing),
            Reply::Nothing => "nothing".into(),
            Reply::Conflict => "a conflict".into(),
        }
    }
}
