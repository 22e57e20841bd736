//! Cancels a statement on the server after its caller has given up.
//!
//! A server that waits for a lock, or for its standby at a commit, does not notice that the client has closed the
//! connection. Without a cancel request, each call that times out would occupy a connection of the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::BytesMut;

use super::login;
use crate::net::database_url::Address;
use crate::net::dial::Dialer;
use crate::net::error::Error;
use crate::net::interrupt::Interrupter;
use crate::net::socket::explain;
use crate::net::tls::TlsParts;
use crate::util::log_fields::CLIENT;
use crate::util::panics::log_line;

/// Timeout of a cancel request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of concurrent cancel requests.
///
/// More requests do not help if the server answers none of them.
const MOST: usize = 8;

/// The server that receives the cancel requests of a connection.
#[derive(Clone)]
pub(super) struct CancelTarget {
    pub(super) address: Address,
    pub(super) tls: Option<TlsParts>,
    pub(super) dialer: Dialer,
    pub(super) under_way: Arc<AtomicUsize>,
}

impl CancelTarget {
    /// Sends the cancel request of a session, on another connection and another thread.
    ///
    /// The caller does not wait for the result. The connection of the session is never reused, so the request cannot
    /// cancel a later statement.
    pub(super) fn end(&self, request: BytesMut) {
        let more = |count| (count < MOST).then_some(count + 1);
        if self.under_way.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_err() {
            return;
        }
        let place = self.clone();
        let begun = thread::Builder::new().name("leasehold-cancel".to_owned()).spawn(move || {
            if let Err(error) = place.send(&request) {
                log_line!(debug, target: CLIENT, "postgres: {}: cancel request failed: {error}", place.address);
            }
            place.under_way.fetch_sub(1, Ordering::AcqRel);
        });
        if begun.is_err() {
            self.under_way.fetch_sub(1, Ordering::AcqRel);
        }
    }

    fn send(&self, request: &[u8]) -> Result<(), Error> {
        let deadline = Instant::now() + TIMEOUT;
        let (mut socket, _route) = self.address.open(&self.dialer, deadline, &Interrupter::default())?;
        if let Some(parts) = &self.tls {
            login::encrypt(&mut socket, parts, deadline)?;
        }
        socket.write_all(request, deadline).map_err(explain)?;
        // The server closes the connection after it has processed the request.
        socket.read(&mut [0], deadline).map_err(explain).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::net::dial::System;
    use crate::net::tests::wait_until;

    #[test]
    fn requests_are_limited_and_failed_ones_make_room() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (host, port) = ("127.0.0.1".to_owned(), listener.local_addr().unwrap().port());
        let (address, dialer, under_way) = (Address::Tcp { host, port }, Dialer::new(System), Arc::default());
        let target = CancelTarget { address, tls: None, dialer, under_way };
        (0..20).for_each(|_| target.end(BytesMut::from(&[0; 16][..])));
        assert_eq!(target.under_way.load(Ordering::Acquire), MOST);
        // The requests fail, because the server resets the connections.
        drop(listener);
        wait_until("failed requests no longer count", || target.under_way.load(Ordering::Acquire) == 0);
    }
}
