//! Writes of the leader to the same etcd, applied only while its record stands.

use crate::backends::etcd::error::Error;
use crate::backends::etcd::message::{EtcdOperation, Txn};
use crate::backends::etcd::store::{EtcdStore, explain, parse};
use crate::backends::etcd::terms::{EtcdTerm, GuardedRecord};
use crate::leadership::guard::LeaderGuard;
use crate::store::{CallContext, Store, StoreError, StoreErrorKind};

impl EtcdOperation {
    fn key(&self) -> &[u8] {
        match self {
            Self::Put { key, .. } | Self::Delete { key } => key,
        }
    }
}

impl EtcdStore {
    /// Writes all of `operations` to the same etcd in one transaction, which etcd applies only while the record is still that of
    /// the guard's term; answers its revision. A fencing token in what is written to is not needed for that.
    ///
    /// The transaction compares the newest version of the record that this store has seen. When that has moved and the record is
    /// still of the same term (same object, holder and `acquireTime`: a renewal came between), it is sent again with the version
    /// that stands. So at the moment in which it is applied nobody has taken over, whatever clocks say; a pause of this
    /// process between its check and its write changes nothing about that.
    ///
    /// The guard must be of an elector on this very store (or an `Arc` of it), which knows the term by its fencing token. Several
    /// threads may call this at a time. etcd takes 128 operations in one transaction, of 1.5 MiB together, unless it is
    /// configured otherwise, and each key once.
    ///
    /// # Errors
    ///
    /// [`StoreErrorKind::NotApplied`] when the term is over, or the record is another's: nothing was written, and never will be.
    /// [`StoreErrorKind::Conflict`] for the same where it had to be sent twice, for its token was refused: then the first copy is open.
    /// [`StoreErrorKind::Rejected`] for a guard of another store, a key of a record, or what etcd refuses. Any other error, of the kinds
    /// [`StoreErrorKind::Timeout`] and [`StoreErrorKind::Interrupted`] also, leaves open whether it was applied: it may still be, as
    /// long as the record is of this term.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use leasehold::{CallContext, CancelToken, EtcdOperation, EtcdStore, LeaderGuard, StoreErrorKind};
    /// fn finish(store: &EtcdStore, guard: &LeaderGuard, job: &str) -> Result<bool, leasehold::StoreError> {
    ///     let operations = [
    ///         EtcdOperation::Delete { key: format!("jobs/open/{job}").into_bytes() },
    ///         EtcdOperation::Put { key: format!("jobs/done/{job}").into_bytes(), value: b"1".to_vec() },
    ///     ];
    ///     let call = CallContext::new(Duration::from_secs(5), CancelToken::new());
    ///     match store.guarded_txn(guard, &operations, &call) {
    ///         Ok(_revision) => Ok(true),
    ///         Err(error) if error.kind() == StoreErrorKind::NotApplied => Ok(false),
    ///         Err(error) => Err(error),
    ///     }
    /// }
    /// ```
    pub fn guarded_txn(
        &self,
        guard: &LeaderGuard,
        operations: &[EtcdOperation],
        call: &CallContext,
    ) -> Result<u64, StoreError> {
        let rejected = |what: &str| {
            StoreError::new(StoreErrorKind::Rejected, format!("cannot write a guarded transaction: {what}"))
        };
        let Some(GuardedRecord { key, term, mut newest }) = self.terms.find(guard.fencing_token()) else {
            return Err(rejected("the guard is not of an elector on this store"));
        };
        if operations.iter().any(|operation| operation.key() == newest.key) {
            return Err(rejected("it would write over the record"));
        }
        let what = self.describe(&key);
        let place = |error: &Error| explain("write a transaction guarded by", &what, error);
        // A copy whose token was refused says nothing about itself.
        let mut is_certain = true;
        let not_applied = |is_certain: bool, why: &str| {
            let kind = if is_certain { StoreErrorKind::NotApplied } else { StoreErrorKind::Conflict };
            StoreError::new(kind, format!("cannot write a transaction guarded by {what}: {why}"))
        };
        loop {
            guard.check().map_err(|ended| not_applied(is_certain, &ended.to_string()))?;
            let path = newest.key.clone();
            let (txn, is_second) = self.txn(&place, &path, Some(&newest), operations, call)?;
            is_certain &= !is_second;
            newest = match txn {
                Txn::Applied(revision) => return Ok(revision),
                Txn::Beaten(None) => return Err(not_applied(is_certain, "the record is gone")),
                Txn::Beaten(Some(found)) => found,
            };
            match parse(newest.clone()) {
                Ok(observed) if EtcdTerm::of(&observed.record) == term => {}
                Ok(_) => return Err(not_applied(is_certain, "the record is of another term")),
                Err(_) => return Err(not_applied(is_certain, "what stands there is no record")),
            }
        }
    }
}
