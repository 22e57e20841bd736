//! The transaction of an acquisition, which waits for the fenced transactions of a lease.
//!
//! A fence has a row of its own, so a renewal, which writes the lease alone, waits for no fence. An acquisition locks the
//! row of the fence first, and writes both rows in one transaction.

use std::cell::Cell;
use std::time::{Duration, Instant};

use super::connection::MySqlConnection;
use super::error::Error;
use super::packet::malformed;
use super::session::{self, FENCE};
use crate::backends::sql::blockers::Blockers;

/// The token in a fence before the first acquisition of its lease. No fence accepts this token.
const NEVER: u64 = u64::MAX;

/// The lease to acquire.
pub(super) struct Acquisition<'a> {
    /// The key as a literal.
    pub(super) key: &'a str,
    /// The fenced transactions, if the acquisition waits for long.
    pub(super) blockers: &'a Blockers<'a>,
    /// The number of the connection of the acquisition, for the look-up of the blockers.
    pub(super) thread: &'a Cell<u32>,
}

impl Acquisition<'_> {
    /// Runs `write` while the fence is locked, and commits if `write` returns a value.
    ///
    /// `write` runs in a transaction, gets the token in the fence, and must replace this token. If `write` returns `None`
    /// or fails, nothing is written.
    pub(super) fn run<T>(
        &self,
        connection: &mut MySqlConnection,
        deadline: Instant,
        write: impl FnOnce(&mut MySqlConnection, u64, Instant) -> Result<Option<T>, Error>,
    ) -> Result<Option<T>, Error> {
        // The server must give up before the caller does, because a server does not notice that a waiting client has
        // gone, and blocks all later fences meanwhile.
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_secs(1));
        session::prepare_write(connection, left.as_secs(), deadline)?;
        self.thread.set(connection.thread);
        let written = self.lock_fence(connection, deadline).and_then(|token| write(connection, token, deadline));
        match written {
            Ok(Some(written)) => connection.end_transaction("COMMIT", deadline).map(|()| Some(written)),
            Err(error @ Error::Net(_)) => Err(error),
            // A timeout of a lock undoes only its statement, so the transaction may still lock the fence.
            other => connection.end_transaction("ROLLBACK", deadline).and(other),
        }
    }

    /// Starts the transaction, and returns the token in the fence.
    fn lock_fence(&self, connection: &mut MySqlConnection, deadline: Instant) -> Result<u64, Error> {
        let Self { key, blockers, .. } = *self;
        let lock = |connection: &mut MySqlConnection| {
            connection.start_transaction(deadline)?;
            let select = format!("SELECT acquired FROM {FENCE} WHERE name = {key} FOR UPDATE");
            let rows = connection.query_blocked(&select, Some(blockers), deadline)?.rows;
            Ok::<_, Error>(rows.first().and_then(|row| row.columns().first().copied().flatten()?.parse().ok()))
        };
        if let Some(token) = lock(connection)? {
            return Ok(token);
        }
        // The lock of an absent row is a lock of the gap, which would block the insert of another candidate.
        connection.end_transaction("ROLLBACK", deadline)?;
        let insert = format!("INSERT IGNORE INTO {FENCE} VALUES ({key}, {NEVER})");
        connection.query_blocked(&insert, Some(blockers), deadline)?;
        lock(connection)?.ok_or_else(|| malformed("the row of the fence is absent after its insert").into())
    }
}
