//! The state that all threads of a server share.

use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use parking_lot::Mutex;

use crate::fault::rules::Rules;
use crate::server::log::ServerLog;
use crate::server::users::Users;
use crate::store::table::ObjectTable;
use crate::wire::signal::FlagSignal;
use crate::wire::tls::Tls;

/// The form in which a watch reports that its resource version is too old.
///
/// # Examples
///
/// ```
/// use leasehold_testing::{ApiServer, ExpiredWatch};
///
/// let server = ApiServer::builder().expired_watch(ExpiredWatch::Status).start()?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExpiredWatch {
    /// An ERROR event with code 410 in a stream with HTTP status 200, as from the real server's watch cache.
    #[default]
    Event,
    /// HTTP status 410.
    Status,
}

/// The state that all threads of a server share.
pub(crate) struct ServerState {
    pub store: Mutex<ObjectTable>,
    pub users: Users,
    pub rules: Rules,
    pub log: ServerLog,
    pub tls: Option<Tls>,
    pub expired: ExpiredWatch,
    pub paused: AtomicBool,
    /// Notified when a flag changes or a fault hits.
    pub signal: Arc<FlagSignal>,
    /// Second handles to the open sockets, through which the server cuts connections.
    pub sockets: Mutex<HashMap<u64, TcpStream>>,
    pub connections: AtomicU64,
}

impl ServerState {
    pub fn new(store: ObjectTable, users: Users, tls: Option<Tls>, expired: ExpiredWatch) -> ServerState {
        ServerState {
            store: Mutex::new(store),
            users,
            rules: Rules::default(),
            log: ServerLog::default(),
            tls,
            expired,
            paused: AtomicBool::new(false),
            signal: Arc::default(),
            sockets: Mutex::default(),
            connections: AtomicU64::new(0),
        }
    }

    /// Makes every thread check the flags and its connection.
    pub fn wake(&self) {
        self.signal.notify();
        self.store.lock().history.wake();
    }

    /// Cuts every open connection.
    pub fn disconnect_all(&self) {
        self.cut_sockets();
        self.wake();
    }

    pub fn cut_sockets(&self) {
        for socket in self.sockets.lock().values() {
            // The shutdown fails if the client has disconnected first.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}
