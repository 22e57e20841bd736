//! Ends on the server what nobody waits for any more.
//!
//! A server that waits for a lock, or for its standby at a commit, does not look whether its client is still there: without this
//! each call that is out of time leaves a connection behind, until the server has no more of them for anybody.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use postgres_protocol::message::frontend;

use super::login;
use super::wire::Key;
use crate::net::database_url::Address;
use crate::net::dial::Dialer;
use crate::net::error::Error;
use crate::net::interrupt::Interrupter;
use crate::net::socket::explain;
use crate::net::tls::TlsParts;
use crate::util::log_fields::CLIENT;
use crate::util::panics::log_line;

/// How long it may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// More of them are not under way: a server that does not answer this either is not helped by more.
const MOST: usize = 8;

/// Where a connection leads.
#[derive(Clone)]
pub(super) struct CancelTarget {
    pub(super) address: Address,
    pub(super) tls: Option<TlsParts>,
    pub(super) dialer: Dialer,
    pub(super) under_way: Arc<AtomicUsize>,
}

impl CancelTarget {
    /// Asks the server to end what the session does. It is asked on another connection and on a thread of its own, and nobody
    /// learns what becomes of it: its own connection is not used again, so it is no later statement's.
    pub(super) fn end(&self, key: Key) {
        let more = |count| (count < MOST).then_some(count + 1);
        if self.under_way.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_err() {
            return;
        }
        let place = self.clone();
        let begun = thread::Builder::new().name("leasehold-cancel".to_owned()).spawn(move || {
            if let Err(error) = place.ask(key) {
                log_line!(debug, target: CLIENT, "postgres: {}: what was given up may still be under way: {error}", place.address);
            }
            place.under_way.fetch_sub(1, Ordering::AcqRel);
        });
        if begun.is_err() {
            self.under_way.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn ask(&self, Key { process, secret }: Key) -> Result<(), Error> {
        let deadline = Instant::now() + TIMEOUT;
        let (mut socket, _route) = self.address.open(&self.dialer, deadline, &Interrupter::new())?;
        if let Some(parts) = &self.tls {
            login::encrypt(&mut socket, parts, deadline)?;
        }
        let mut request = BytesMut::new();
        frontend::cancel_request(process, secret, &mut request);
        socket.write_all(&request, deadline).map_err(explain)?;
        // It is carried out by the time that the server closes the connection.
        socket.read(&mut [0], deadline).map_err(explain).map(drop)
    }
}
