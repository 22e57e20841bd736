//! Watches of the table, which wait for notifications, or poll if no notifications arrive.

use std::time::{Duration, Instant};

use crate::backends::postgres::client::PostgresClient;
use crate::backends::postgres::connection::{PostgresConnection, Rows, Statement};
use crate::backends::postgres::error::Error;
use crate::backends::postgres::table;
use crate::backends::sql::store::WatchRequest;
use crate::backends::sql::watch_diff::WatchDiff;
use crate::backends::sql::{Records, watch_diff};
use crate::net::interrupt::{Interrupter, interrupted};
use crate::net::pool::Demand;
use crate::store::{CallContext, Cursor, WatchEvent, WatchScope};
use crate::util::cancel::CancelToken;
use crate::util::log_fields::STORE;
use crate::util::panics::log_line;

/// Time limit for opening a watch, and for each read of a watch.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit for the arrival of a test notification, after which the watch polls.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Minimum silence after which a watch reads the table, because the connection may be dead.
///
/// Each watch multiplies this time by a random factor between one and two, so that watches do not read together.
const SILENCE: Duration = Duration::from_secs(60);

/// Maximum number of changed records that a watch reads one by one.
///
/// If more records have changed, the watch reads all records.
const ONE_BY_ONE: usize = 16;

const LISTEN: &str = "LISTEN leasehold";
const UNLISTEN: &str = "UNLISTEN leasehold";
/// A statement that makes the server load PL/pgSQL, the language of the trigger.
const LOAD: &str = "DO LANGUAGE plpgsql 'BEGIN END'";
const NOTIFY: &str = "SELECT pg_notify('leasehold', $1)";

pub(super) fn watch(
    client: &PostgresClient,
    WatchRequest { scope, from, cancel }: WatchRequest<'_>,
    on_event: &mut dyn FnMut(WatchEvent),
) -> Result<(), Error> {
    let (interrupter, _hook) = Interrupter::hooked(cancel);
    let source = TableWatch { client, scope, cancel, interrupter: &interrupter };
    let watched = source.watch(from, on_event);
    match interrupter.is_interrupted() {
        true => Err(interrupted().into()),
        false => watched,
    }
}

struct TableWatch<'a> {
    client: &'a PostgresClient,
    scope: WatchScope<'a>,
    cancel: &'a CancelToken,
    interrupter: &'a Interrupter,
}

impl TableWatch<'_> {
    fn watch(&self, from: Option<&Cursor>, on_event: &mut dyn FnMut(WatchEvent)) -> Result<(), Error> {
        let mut diff = WatchDiff::new(from);
        let mut listener = self.listen()?;
        self.client.set_has_sessions(listener.is_some());
        // The watch reads after notifications have started, so no change is missed.
        self.warm_up();
        let mut current = self.read(listener.as_mut())?;
        loop {
            // Delivery fails only after a cancellation.
            diff.deliver(&current, self.cancel, on_event).map_err(|_| interrupted())?;
            self.wait_for_change(listener.as_mut(), &mut current)?;
        }
    }

    /// Opens a connection, and prepares its server process for the first write to the table.
    ///
    /// A server process must load data before its first write. The loading takes a fifth of the time of the first
    /// takeover. The statements of this function write nothing, and their errors are ignored.
    fn warm_up(&self) {
        let load = Statement { sql: LOAD, parameters: &[] };
        let _ = self.run(None, load, |_| Ok(()));
        let onto_nothing = Statement { sql: table::UPDATE, parameters: &[None; table::UPDATE_PARAMETERS] };
        let _ = self.run(None, onto_nothing, |_| Ok(()));
    }

    /// Returns a connection that receives notifications, or `None` if no notifications arrive.
    ///
    /// A pooler may run each transaction on another connection to the server. Notifications then do not arrive.
    fn listen(&self) -> Result<Option<PostgresConnection>, Error> {
        let until = Instant::now() + READ_TIMEOUT;
        let demand = Demand { idle: None, deadline: until, interrupter: self.interrupter };
        let (mut slot, _) = self.client.idle.take(&demand)?;
        let mut listener = self.client.connect(until, self.cancel, self.interrupter)?;
        slot.end_request(true);
        drop(slot);
        listener.listen(Statement { sql: LISTEN, parameters: &[] }, until)?;
        // Another connection sends the probe. A connection receives its own notifications even behind a pooler, so a
        // probe from the listener would prove nothing.
        let probe = format!("probe {:016x}", fastrand::u64(..));
        self.run(None, Statement { sql: NOTIFY, parameters: &[Some(&probe)] }, |_| Ok(()))?;
        let until = Instant::now() + PROBE_TIMEOUT;
        loop {
            if listener.notified(until)?.contains(&*probe) {
                return Ok(Some(listener));
            }
            if Instant::now() >= until {
                // The watch no longer needs notifications. Behind a pooler, another client may now use the server
                // connection, and needs no notifications either.
                let unlisten = Statement { sql: UNLISTEN, parameters: &[] };
                let _ = listener.run(&[unlisten], false, None, Instant::now() + PROBE_TIMEOUT);
                log_line!(debug, target: STORE, "postgres: {} sends no notifications, polling", self.client.location());
                return Ok(None);
            }
        }
    }

    /// Waits until records may have changed, and reads these records.
    fn wait_for_change(&self, listener: Option<&mut PostgresConnection>, current: &mut Records) -> Result<(), Error> {
        let Some(listener) = listener else {
            let interval = self.client.config.poll_interval;
            watch_diff::wait(&CallContext::new(interval, self.cancel.clone()), interval);
            self.interrupter.check()?;
            *current = self.read(None)?;
            return Ok(());
        };
        let silence = SILENCE.mul_f64(1.0 + fastrand::f64());
        let payloads = listener.notified(Instant::now() + silence)?;
        // Any record may have changed after a silence (no payload), or after a truncation or too many notifications (an
        // empty payload).
        let is_any = payloads.is_empty() || payloads.contains("");
        let changed: Vec<_> = payloads.into_iter().filter(|key| self.scope.includes(key)).collect();
        if is_any || changed.len() > ONE_BY_ONE {
            *current = self.read(Some(listener))?;
            return Ok(());
        }
        for key in changed {
            match self.select(Some(&mut *listener), table::SELECT_ONE, &key)?.remove(&key) {
                Some(observed) => current.insert(key, observed),
                None => current.remove(&key),
            };
        }
        Ok(())
    }

    /// Reads all records in scope.
    fn read(&self, listener: Option<&mut PostgresConnection>) -> Result<Records, Error> {
        let sql = if self.scope.is_one() { table::SELECT_ONE } else { table::SELECT_PREFIX };
        self.select(listener, sql, self.scope.text())
    }

    fn select(&self, listener: Option<&mut PostgresConnection>, sql: &str, text: &str) -> Result<Records, Error> {
        self.run(listener, Statement { sql, parameters: &[Some(text)] }, |rows| table::read(&rows, self.scope))
    }

    /// Runs a statement on `listener`, or on another connection if there is no listener.
    ///
    /// If the watch reads on its listener, the other connections remain free for writes.
    fn run<T>(
        &self,
        listener: Option<&mut PostgresConnection>,
        statement: Statement<'_>,
        read: impl FnOnce(Rows) -> Result<T, Error>,
    ) -> Result<T, Error> {
        match listener {
            Some(listener) => self.client.run_on(listener, &[statement], Instant::now() + READ_TIMEOUT, read),
            None => {
                self.client.run(&[statement], true, None, &CallContext::new(READ_TIMEOUT, self.cancel.clone()), read)
            }
        }
    }
}
