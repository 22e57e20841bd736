//! One linearizable store that behaves as an API server was seen to.

use leasehold::election::Look;
use leasehold::{LeaderElectionRecord, LockErrorKind, Observed, Rest};

use crate::plan::Violation;

/// What a request asks of the store.
#[derive(Debug, Clone)]
pub enum Call {
    Get(Look),
    Create(LeaderElectionRecord),
    Update(Observed, LeaderElectionRecord),
}

/// Which acquisition stood in the store from `since` on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    pub since: u64,
    pub uid: Option<String>,
    pub holder: Option<String>,
    pub acquired: Option<String>,
}

#[derive(Debug, Default)]
pub struct Store {
    version: u64,
    uids: u64,
    object: Option<Observed>,
    /// Every change of holder or acquisition, for the checks.
    pub history: Vec<Holding>,
    /// Whether updates come without a uid, as from a lock that forgot it.
    uid_blind: bool,
}

impl Store {
    pub fn new(uid_blind: bool) -> Self {
        Self { uid_blind, ..Self::default() }
    }

    pub fn apply(&mut self, call: &Call) -> Result<Result<Option<Observed>, LockErrorKind>, Violation> {
        Ok(match call {
            Call::Get(_) => Ok(self.object.clone()),
            Call::Create(_) if self.object.is_some() => Err(LockErrorKind::AlreadyExists),
            Call::Create(record) => Ok(Some(self.create(record.clone()))),
            Call::Update(base, record) => match &self.object {
                None if self.uid_blind => Ok(Some(self.create(record.clone()))),
                None => Err(LockErrorKind::Conflict),
                Some(standing) if standing.version != base.version => Err(LockErrorKind::Conflict),
                Some(standing) if standing.record.uid != base.record.uid => Err(LockErrorKind::Conflict),
                Some(standing) => {
                    must_move(&standing.record, record)?;
                    Ok(Some(self.put(record.clone())))
                }
            },
        })
    }

    /// Something else is written to the store, which has one counter for all.
    pub fn unrelated(&mut self, writes: u64) {
        self.version += writes;
    }

    /// Somebody edits a label.
    pub fn label(&mut self) {
        if let Some(record) = self.record().cloned() {
            self.put(record);
        }
    }

    pub fn delete(&mut self) {
        if self.object.take().is_some() {
            self.version += 1;
            self.note();
        }
    }

    pub fn edit(&mut self, edit: impl FnOnce(&mut LeaderElectionRecord)) {
        if let Some(mut record) = self.record().cloned() {
            edit(&mut record);
            self.put(record);
        }
    }

    pub fn record(&self) -> Option<&LeaderElectionRecord> {
        self.object.as_ref().map(|object| &object.record)
    }

    /// Which acquisition stood at `version`.
    pub fn holding_at(&self, version: u64) -> Option<&Holding> {
        let after = self.history.partition_point(|holding| holding.since <= version);
        after.checked_sub(1).map(|index| &self.history[index])
    }

    fn create(&mut self, record: LeaderElectionRecord) -> Observed {
        self.uids += 1;
        let uid = Some(format!("uid-{}", self.uids));
        self.put(LeaderElectionRecord { uid, ..record })
    }

    fn put(&mut self, record: LeaderElectionRecord) -> Observed {
        self.version += 1;
        let observed = Observed::new(record, self.version, Rest::none());
        self.object = Some(observed.clone());
        self.note();
        observed
    }

    fn note(&mut self) {
        let record = self.record();
        let uid = record.and_then(|record| record.uid.as_deref());
        let holder = record.and_then(LeaderElectionRecord::holder);
        let acquired = record.and_then(|record| record.acquire_time.as_ref()).map(|time| time.as_str());
        let stands = self.history.last().is_some_and(|last| {
            last.uid.as_deref() == uid && last.holder.as_deref() == holder && last.acquired.as_deref() == acquired
        });
        if !stands {
            let (uid, holder, acquired) = (uid.map(Into::into), holder.map(Into::into), acquired.map(Into::into));
            self.history.push(Holding { since: self.version, uid, holder, acquired });
        }
    }
}

/// Whoever compares two records must see that somebody wrote between them, and how often the lease changed hands.
fn must_move(before: &LeaderElectionRecord, after: &LeaderElectionRecord) -> Result<(), Violation> {
    if before.renew_time == after.renew_time && before.acquire_time == after.acquire_time {
        return Err(format!("a write left renewTime standing still: {after:?}").into());
    }
    let steps = after.lease_transitions.unwrap_or(0) - before.lease_transitions.unwrap_or(0);
    if steps != i32::from(before.acquire_time != after.acquire_time) {
        return Err(format!("leaseTransitions went from {before:?} to {after:?}").into());
    }
    Ok(())
}
