//! The store in etcd, with one key for each record.

use std::time::Duration;

use crate::backends::etcd::client::{EtcdAnswer, EtcdClient, EtcdRequest};
use crate::backends::etcd::config::EtcdConfig;
use crate::backends::etcd::error::{Error, EtcdRefusal, code};
use crate::backends::etcd::message::{self, EtcdEvent, KeyValue, Keys, Txn};
use crate::backends::etcd::record;
use crate::backends::etcd::terms::EtcdTerms;
use crate::store::record::{LeaderElectionRecord, RecordWrite, StoreData, VersionedRecord};
use crate::store::{CallContext, Cursor, Store, StoreError, StoreErrorKind, WatchEvent, WatchScope, check_watch};
use crate::util::cancel::CancelToken;
use crate::util::config_error::{ConfigError, require};
use crate::util::debug_fields::debug_fields;

mod guarded;

pub use crate::backends::etcd::message::EtcdOperation;

/// Minimum time without data after which a watch restarts.
///
/// Each watch multiplies this time by a random factor between one and two, so that watches do not restart together.
const SILENCE: Duration = Duration::from_secs(300);

/// Time limit for opening a watch, including the read before the watch.
const OPENING: Duration = Duration::from_secs(10);

/// Maximum length of a key with its prefix, in bytes.
///
/// etcd itself limits only the size of a request.
const LONGEST_KEY: usize = 1024;

/// A store that keeps each record under one key of etcd.
///
/// The methods' `key` is the part of the etcd key after the prefix.
///
/// Requires etcd 3.4 or later with its JSON gateway, which is on by default. All methods may be called from any thread
/// at any time. Share a store with an `Arc`. [STORES.md] compares the stores, and [ETCD.md] describes the effects of a
/// restored etcd.
///
/// The record `jobs` is a JSON document under `<prefix>jobs` with the fields of a Lease's `spec`: `holderIdentity`,
/// `leaseDurationSeconds`, `acquireTime`, `renewTime` and `leaseTransitions`. The store keeps other fields. If the
/// value is not such a document, calls fail with [`Malformed`](StoreErrorKind::Malformed), and the store does not
/// overwrite the value. The store does not use etcd's leases. A record expires on each candidate's clock, as in every
/// store of this crate.
///
/// Versions and fencing tokens are etcd's revisions, which all keys share and which survive deletion. Reads are
/// linearizable. A write is a transaction that compares the key's last revision, its first revision and its value. If
/// the comparison fails, the error is [`NotApplied`](StoreErrorKind::NotApplied). After any other error, the outcome is
/// unknown.
///
/// If a member refuses the connection, has no leader or does not answer in time, the client tries the next endpoint.
/// Later calls start with the next endpoint too. The client never sends a write to a second member if the first may
/// have received the write. The write then fails, and the next attempt starts with another member.
///
/// [STORES.md]: https://docs.rs/crate/leasehold/latest/source/docs/STORES.md
/// [ETCD.md]: https://docs.rs/crate/leasehold/latest/source/docs/stores/ETCD.md
///
/// # Examples
///
/// ```no_run
/// use std::sync::Arc;
/// use std::time::Duration;
/// use leasehold::etcd::{EtcdConfig, EtcdOperation, EtcdStore};
/// use leasehold::store::{CallContext, CancelToken};
/// use leasehold::LeaderElector;
///
/// let store = Arc::new(EtcdStore::new(EtcdConfig::new(["http://127.0.0.1:2379"])?)?);
/// let elector = LeaderElector::builder("jobs").start_on(Arc::clone(&store))?;
/// let guard = elector.block_until_leader()?;
/// while guard.is_leader() {
///     // etcd applies the write only in the guard's term. The written data needs no fencing token.
///     let put = EtcdOperation::Put { key: b"jobs/last".to_vec(), value: b"42".to_vec() };
///     let call = CallContext::new(Duration::from_secs(5), CancelToken::new());
///     if let Err(error) = store.guarded_txn(&guard, &[put], &call) {
///         eprintln!("{error}");
///     }
/// }
/// # Ok::<(), leasehold::Error>(())
/// ```
pub struct EtcdStore {
    client: EtcdClient,
    prefix: String,
    /// The observed terms, which guarded transactions compare.
    terms: EtcdTerms,
}

impl EtcdStore {
    /// Creates a store from `config`.
    ///
    /// Does not connect.
    ///
    /// # Errors
    ///
    /// Returns [`ConfigError`] in these cases:
    ///
    /// - Certificates or keys are unusable.
    /// - The user has no password, or has both a password and a source.
    /// - The password would be sent to another machine without TLS.
    pub fn new(config: EtcdConfig) -> Result<Self, ConfigError> {
        let prefix = config.prefix.clone();
        Ok(Self { client: EtcdClient::new(config)?, prefix, terms: EtcdTerms::default() })
    }

    fn path(&self, key: &str) -> Vec<u8> {
        format!("{}{key}", self.prefix).into_bytes()
    }

    fn describe_scope(&self, scope: WatchScope<'_>) -> String {
        match scope {
            WatchScope::Key(key) => self.describe(key),
            _ => format!("etcd keys below {}{}", self.prefix, scope.text()),
        }
    }

    /// Sends a transaction that etcd applies only if the key is still at `base`.
    ///
    /// Returns the outcome, and `true` if the outcome is of a second copy, because etcd refused the login token of the
    /// first copy. A comparison of the second copy may fail because etcd has applied the first copy.
    fn txn(
        &self,
        place: &dyn Fn(&Error) -> StoreError,
        path: &[u8],
        base: Option<&KeyValue>,
        operations: &[EtcdOperation],
        call: &CallContext,
    ) -> Result<(Txn, bool), StoreError> {
        let body = message::txn(path, base, operations);
        let request = EtcdRequest { path: "/v3/kv/txn", body: &body, is_read: false, call };
        let answer = self.client.request(request);
        let read = |EtcdAnswer { body, is_second }| Ok((message::read_txn(&body, path)?, is_second));
        answer.and_then(read).map_err(|error| place(&error))
    }

    /// Writes a record, and returns the record with its version.
    fn put(
        &self,
        operation: &str,
        key: &str,
        base: Option<&KeyValue>,
        write: RecordWrite<'_>,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        self.terms.follow(key);
        let what = self.describe(key);
        let value = record::write(&write, base.map(|base| &*base.value)).map_err(|rule| {
            StoreError::new(StoreErrorKind::Rejected, format!("cannot {operation} {what}: the record: {rule}"))
        })?;
        let path = self.path(key);
        let place = |error: &Error| explain(operation, &what, error);
        let put = EtcdOperation::Put { key: path.clone(), value: value.clone() };
        match self.txn(&place, &path, base, &[put], call)? {
            (Txn::Applied(revision), _) => {
                let create_revision = base.map_or(revision, |base| base.create_revision);
                self.observe(key, KeyValue { key: path, create_revision, mod_revision: revision, value })
            }
            (Txn::Beaten(found), is_second) => {
                let kind = match (is_second, base) {
                    (false, _) => StoreErrorKind::NotApplied,
                    (true, Some(_)) => StoreErrorKind::Conflict,
                    (true, None) => StoreErrorKind::AlreadyExists,
                };
                let stands =
                    found.map_or_else(|| "no such key".to_owned(), |kv| format!("now at revision {}", kv.mod_revision));
                Err(StoreError::new(kind, format!("cannot {operation} {what}: {stands}")))
            }
        }
    }

    /// Parses the value of a key, and remembers the value for guarded transactions.
    fn observe(&self, key: &str, kv: KeyValue) -> Result<VersionedRecord, StoreError> {
        let observed = parse(kv.clone()).map_err(|what| {
            let message = format!("{}: not a valid record: {what}", self.describe(key));
            StoreError::new(StoreErrorKind::Malformed, message)
        })?;
        self.terms.note(key, &observed.record, kv);
        Ok(observed)
    }

    fn range(
        &self,
        operation: &str,
        what: &str,
        keys: Keys<'_>,
        call: &CallContext,
    ) -> Result<message::Found, StoreError> {
        let body = message::range(keys);
        let request = EtcdRequest { path: "/v3/kv/range", body: &body, is_read: true, call };
        let answer = self.client.request(request);
        let found = answer.and_then(|answer| message::read_range(&answer.body, keys));
        found.map_err(|error| explain(operation, what, &error))
    }

    /// Converts an event of a watch.
    ///
    /// Returns `None` if the key is outside `scope`. An invalid value ends a watch of its key, and no other watch.
    fn event(&self, scope: WatchScope<'_>, event: EtcdEvent) -> Result<Option<WatchEvent>, StoreError> {
        let EtcdEvent { kv, is_deletion } = event;
        let key = str::from_utf8(&kv.key).ok().and_then(|key| key.strip_prefix(&self.prefix));
        let Some(key) = key.filter(|key| scope.includes(key)) else { return Ok(None) };
        let key: Box<str> = key.into();
        if is_deletion {
            return Ok(Some(WatchEvent::Deleted { key, version: kv.mod_revision }));
        }
        WatchEvent::read(scope, &key, self.observe(&key, kv)).map(Some)
    }
}

fn parse(kv: KeyValue) -> Result<VersionedRecord, &'static str> {
    let (record, notes) = record::read(&kv.value)?;
    let record = LeaderElectionRecord { uid: Some(kv.create_revision.to_string()), ..record };
    Ok(VersionedRecord { notes: Box::new(notes), ..VersionedRecord::new(record, kv.mod_revision, StoreData::new(kv)) })
}

impl Store for EtcdStore {
    fn get(&self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        self.terms.follow(key);
        let path = self.path(key);
        let found = self.range("get", &self.describe(key), Keys::One(&path), call)?;
        found.kvs.into_iter().next().map(|kv| self.observe(key, kv)).transpose()
    }

    fn create(&self, key: &str, write: RecordWrite<'_>, call: &CallContext) -> Result<VersionedRecord, StoreError> {
        self.put("create", key, None, write, call)
    }

    fn update(
        &self,
        key: &str,
        base: &VersionedRecord,
        write: RecordWrite<'_>,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        let Some(base) = base.data.get::<KeyValue>() else {
            let message = format!("cannot update {}: the observed record is from another store", self.describe(key));
            return Err(StoreError::new(StoreErrorKind::Rejected, message));
        };
        self.put("update", key, Some(base), write, call)
    }

    fn watch(
        &self,
        scope: WatchScope<'_>,
        from: Option<&Cursor>,
        cancel: &CancelToken,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        let what = self.describe_scope(scope);
        let place = |error: &Error| check_watch(cancel).err().unwrap_or_else(|| explain("watch", &what, error));
        let path = self.path(scope.text());
        let keys = if scope.is_one() { Keys::One(&path) } else { Keys::Prefix(&path) };
        let call = CallContext::new(OPENING, cancel.clone());
        let (mut after, present, mut synced) = match from.and_then(Cursor::get::<u64>) {
            Some(after) => (*after, Vec::new(), None),
            None => {
                let found = self.range("watch", &what, keys, &call)?;
                (found.revision, found.kvs, Some(WatchEvent::Synced))
            }
        };
        let silence = SILENCE.mul_f64(1.0 + fastrand::f64());
        let body = message::watch(keys, after.saturating_add(1));
        let mut watch = self.client.watch(&body, &call, silence).map_err(|error| place(&error))?;
        // A member sends no events until its revision has reached `after`. After a restore of etcd, the member may
        // never reach `after`, or another value may have the revision `after`.
        if watch.revision < after {
            let message = format!("cannot watch {what}: etcd's revision {} is older than {after}", watch.revision);
            return Err(StoreError::new(StoreErrorKind::Expired, message));
        }
        on_event(WatchEvent::Opened);
        let mut events: Vec<_> = present.into_iter().map(|kv| EtcdEvent { kv, is_deletion: false }).collect();
        loop {
            for event in events {
                after = after.max(event.kv.mod_revision);
                if let Some(event) = self.event(scope, event)? {
                    on_event(event);
                }
            }
            synced.take().into_iter().for_each(&mut *on_event);
            on_event(WatchEvent::Bookmark(Cursor::new(after)));
            match watch.next().map_err(|error| place(&error))? {
                Some(next) => events = next,
                None => return Ok(()),
            }
        }
    }

    fn check_key(&self, key: &str) -> Result<(), ConfigError> {
        let fits = !key.is_empty() && self.prefix.len() + key.len() <= LONGEST_KEY;
        let rule = format_args!("a key must have 1 to {LONGEST_KEY} bytes with its prefix");
        require(fits, "name", format_args!("{key:?}"), rule)
    }

    fn describe(&self, key: &str) -> String {
        format!("etcd key {}{key}", self.prefix)
    }

    fn keeps_notes(&self) -> bool {
        true
    }

    fn location(&self) -> Option<String> {
        Some(format!("{} (etcd)", self.client.location()))
    }
}

debug_fields!(impl Debug for EtcdStore { self => client: self.client.location(), prefix: self.prefix, .. });

/// Converts an error of the client to an error of the store.
fn explain(operation: &str, what: &str, error: &Error) -> StoreError {
    let (kind, advice) = match error {
        Error::Net(error) => (StoreErrorKind::from(error.kind), ""),
        Error::Refused(EtcdRefusal { code, message }) => of_etcd(*code, message),
    };
    StoreError::new(kind, format!("cannot {operation} {what}: {error}{advice}"))
}

fn of_etcd(code: u32, message: &str) -> (StoreErrorKind, &'static str) {
    use StoreErrorKind::{Expired, Forbidden, NotFound, Rejected, Unauthorized, Unavailable};
    let is_about = |text: &str| message.contains(text);
    match code {
        code::UNAUTHENTICATED => (Unauthorized, ""),
        code::INVALID_ARGUMENT if is_about("user name is empty") => (Unauthorized, "; set a user and a password"),
        code::INVALID_ARGUMENT if is_about("authentication failed") || is_about("user name not found") => {
            (Unauthorized, "")
        }
        code::INVALID_ARGUMENT if is_about("revision of auth store is old") => (Unavailable, ""),
        code::PERMISSION_DENIED => (Forbidden, "; grant the user a role that may read and write below the prefix"),
        code::OUT_OF_RANGE => (Expired, ""),
        code::NOT_FOUND | code::UNIMPLEMENTED => {
            (NotFound, "; check that the URL has etcd's client port, and that its gRPC gateway is enabled")
        }
        code::FAILED_PRECONDITION if is_about("authentication is not enabled") => {
            (Rejected, "; remove the user, or enable authentication")
        }
        code::FAILED_PRECONDITION if is_about("CommonName of client") => {
            (Unauthorized, "; with users enabled, the gateway accepts only client certificates without a common name")
        }
        code::INVALID_ARGUMENT | code::FAILED_PRECONDITION => (Rejected, ""),
        _ => (Unavailable, ""),
    }
}

#[cfg(test)]
mod tests;
