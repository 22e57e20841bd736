//! Transactions that etcd applies only while the record belongs to the guard's term.

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
    /// Writes `operations` in one transaction if the record still belongs to the guard's term.
    ///
    /// Returns the revision of the transaction. Blocks at most for the time of `call`. The written data needs no
    /// fencing token.
    ///
    /// etcd compares the record with the newest version that this store has observed. If a renewal has changed the
    /// version, the store repeats the transaction with the new version. The record belongs to the same term if its
    /// first revision, its holder and its `acquireTime` are the same. When etcd applies the transaction, no other
    /// candidate has taken over. This guarantee does not depend on clocks, or on pauses of this process between a check
    /// and the write.
    ///
    /// The guard must belong to an elector on this store, or on an `Arc` of this store. The store finds the term by the
    /// guard's fencing token. Any thread may call this method at any time. By default, etcd accepts up to 128
    /// operations and 1.5 MiB in one transaction. A transaction may write each key once.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # use leasehold::etcd::{EtcdOperation, EtcdStore};
    /// # use leasehold::store::{CallContext, CancelToken, StoreErrorKind};
    /// # use leasehold::LeaderGuard;
    /// fn finish(store: &EtcdStore, guard: &LeaderGuard, job: &str) -> Result<bool, leasehold::store::StoreError> {
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
    ///
    /// # Errors
    ///
    /// - Returns [`StoreErrorKind::NotApplied`] if the term has ended, or if the record no longer belongs to the term.
    ///   The operations are not applied and never will be.
    /// - Returns [`StoreErrorKind::Conflict`] instead of [`StoreErrorKind::NotApplied`] if etcd refused the login token
    ///   of an earlier copy of the transaction. The outcome of the earlier copy is unknown.
    /// - Returns [`StoreErrorKind::Rejected`] if the guard belongs to another store, if a key is the record's key, or
    ///   if etcd rejects the operations.
    /// - Returns another error, such as [`StoreErrorKind::Timeout`] or [`StoreErrorKind::Interrupted`], if the outcome
    ///   is unknown. etcd may still apply the transaction while the record belongs to this term.
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
            return Err(rejected("the guard belongs to an elector on another store"));
        };
        if operations.iter().any(|operation| operation.key() == newest.key) {
            return Err(rejected("an operation would overwrite the record"));
        }
        let what = self.describe(&key);
        let place = |error: &Error| explain("write a transaction guarded by", &what, error);
        // `false` once etcd has refused the login token of a copy. A later comparison may then fail because etcd has
        // applied this copy.
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
                Txn::Beaten(None) => return Err(not_applied(is_certain, "the record was deleted")),
                Txn::Beaten(Some(found)) => found,
            };
            match parse(newest.clone()) {
                Ok(observed) if EtcdTerm::of(&observed.record) == term => {}
                Ok(_) => return Err(not_applied(is_certain, "the record is of another term")),
                Err(_) => return Err(not_applied(is_certain, "the value of the key is not a record")),
            }
        }
    }
}
