//! The connections of a client to one server: idle, in use, or being opened.
//!
//! A TLS handshake costs both sides computing time. If every elector of a process opened a connection after a hang of
//! the server, no handshake would complete before its caller gives up. A pool therefore decides who opens a connection:
//!
//! - At most [`MAX_DIALS`] connections are being opened at a time. A connection is being opened until its first answer.
//!   After a request without an answer, only one at a time is opened, until the server answers.
//! - Other callers wait for a connection that becomes idle. The caller with the earliest deadline is first. The caller
//!   with the latest deadline is the first that opens a connection, because it has the most time.
//! - A caller that has waited for a quarter of its time opens one more connection, unless another caller has begun to
//!   open one in that time. Dead connections thus stop no caller, and a hang makes few callers open connections.
//! - New connections for watches are at most half of those that may be opened.
//! - If [`MAX_DIALS`] connections are in use, a caller first waits [`PATIENCE`], because one may soon become idle. At most
//!   [`MAX_CROWDED_DIALS`] are then being opened at a time.
//! - An idle connection stays open, so that each burst of requests finds the connections of the last burst.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use crossbeam_channel::{Receiver, Sender, bounded, select};
use parking_lot::Mutex;

use crate::net::error::{Error, NetErrorKind};
use crate::net::interrupt::{Interrupter, interrupted};

/// The largest number of connections that a client opens to a server at a time.
pub(crate) const MAX_DIALS: usize = 8;

/// The largest number of connections that are opened at a time if [`MAX_DIALS`] are in use.
const MAX_CROWDED_DIALS: usize = 2;

/// The time for which a caller prefers a connection that becomes idle to a new one, if many connections are in use.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// The shortest time after which a caller opens one more connection than allowed.
const DIAL_INTERVAL: Duration = Duration::from_millis(250);

/// The longest time that a connection is kept idle.
///
/// Servers close idle connections after 90 s, and load balancers after 60 s or more. A much shorter time makes it
/// rare that a write is sent on a connection that the peer is closing.
pub(crate) const MAX_IDLE: Duration = Duration::from_secs(30);

/// The longest time that a connection to a directly reached server is kept idle.
///
/// A directly reached server keeps idle connections open. The system's keep-alive probes detect dead connections, and
/// keep a firewall from forgetting an idle connection (see [`crate::net::dial`]).
#[cfg(feature = "_server")]
pub(crate) const MAX_IDLE_DIRECT: Duration =
    if cfg!(any(target_os = "linux", target_os = "android")) { Duration::MAX } else { MAX_IDLE };

/// The rule for idle connections to a distant server.
///
/// Opening a connection would delay a takeover by several round trips. A standby therefore keeps a connection open.
#[derive(Clone, Copy)]
pub(crate) struct FarIdle {
    /// The longest time in which a connection to a server that is not distant opens.
    pub(crate) opened_in: Duration,
    /// The idle time after which a standby uses the connection.
    pub(crate) used_after: Duration,
    /// The longest time that the connection is kept idle.
    pub(crate) max_idle: Duration,
}

/// The rule for all servers.
///
/// kube-apiserver closes a connection that is idle for 90 s. A standby opens a watch every 450 s on average. With the
/// reads, the standby sends at most 1.1 requests per minute.
pub(crate) const FAR_IDLE: FarIdle = FarIdle {
    opened_in: Duration::from_millis(10),
    used_after: Duration::from_secs(65),
    max_idle: Duration::from_secs(75),
};

/// The versions of the client certificate and the certificate files of a connection.
pub(crate) type Versions = [u64; 2];

/// A connection that only one call uses at a time.
pub(crate) trait CallConnection {
    /// `true` if the connection opens during its first request, and not before.
    const OPENS_IN_RUN: bool = false;

    fn versions(&self) -> Versions;

    /// Returns `true` if the connection is open and no byte has arrived since the last answer.
    fn is_quiet(&mut self) -> bool;

    /// Returns the time in which the connection opened, or zero if the time is unknown.
    fn opened_in(&self) -> Duration {
        Duration::ZERO
    }

    /// Returns the time of the server's clock at its last answer, if the connection knows the time.
    fn server_time(&self) -> Option<SystemTime> {
        None
    }

    /// Registers the connection, which an interrupt of `interrupter` shuts down.
    ///
    /// Returns an error if the interrupt has already happened.
    fn use_for(&mut self, interrupter: &Interrupter) -> Result<(), Error>;
}

/// The connections of a client to one server.
pub(crate) struct Pool<C> {
    /// The number of idle connections that stay open for `max_idle`. Further ones are closed after [`MAX_IDLE`].
    kept: usize,
    max_idle: Duration,
    pub(crate) far: FarIdle,
    state: Mutex<PoolState<C>>,
}

struct PoolState<C> {
    /// The idle connections. The most recently used connection is the last.
    idle: Vec<Idle<C>>,
    /// The number of connections that calls use or open.
    in_use: usize,
    /// The connections that are being opened, except those that another caller has replaced. The oldest is the first.
    dials: VecDeque<Dial>,
    /// The largest number of `dials`, unless many connections are in use.
    most_dials: usize,
    waiting: BTreeMap<Rank, WaitingCaller>,
    last_number: u64,
}

struct Idle<C> {
    connection: C,
    since: Instant,
    max_idle: Duration,
}

struct Dial {
    number: u64,
    since: Instant,
}

/// The deadline of a caller, and a number. The caller with the lowest rank is the first that gets an idle connection.
type Rank = (Instant, u64);

struct WaitingCaller {
    /// `true` while the caller would take an idle connection.
    wants_idle: bool,
    wake: Sender<()>,
}

/// The connection that a caller needs.
pub(crate) struct Demand<'a> {
    /// The oldest certificate versions that an idle connection may have, or `None` for a new connection.
    pub(crate) idle: Option<Versions>,
    pub(crate) deadline: Instant,
    pub(crate) interrupter: &'a Interrupter,
}

/// The right to use one connection of a pool, or to open one. The right ends when the value is dropped.
pub(crate) struct PoolSlot<'a, C> {
    pool: &'a Pool<C>,
    /// The number of the connection while the connection is being opened.
    dial: Option<u64>,
}

/// A caller in the queue of a pool. Dropping the value removes the caller.
struct Waiter<'a, C> {
    pool: &'a Pool<C>,
    rank: Rank,
    woken: Receiver<()>,
}

/// The decision of a pool about one caller.
#[cfg_attr(test, derive(Debug, PartialEq))]
enum SlotClaim<C> {
    Idle(C),
    /// The caller opens the connection with this number.
    Dial(u64),
    /// The caller waits until it is woken, or until this time.
    WaitUntil(Instant),
}

impl<C: CallConnection> Pool<C> {
    pub(crate) fn new(kept: usize, max_idle: Duration) -> Self {
        let (idle, dials, waiting) = Default::default();
        let state = PoolState { idle, in_use: 0, dials, most_dials: MAX_DIALS, waiting, last_number: 0 };
        Self { kept, max_idle, far: FAR_IDLE, state: Mutex::new(state) }
    }

    /// Waits for an idle connection, or for the right to open one.
    ///
    /// Returns no connection with the right to open one. Chooses the most recently used connection, which the server is
    /// least likely to have closed. Closes idle connections that are too old.
    pub(crate) fn take(&self, demand: &Demand<'_>) -> Result<(PoolSlot<'_, C>, Option<C>), Error> {
        let began = Instant::now();
        let (rank, woken) = self.state.lock().enqueue(demand);
        let waiter = Waiter { pool: self, rank, woken };
        loop {
            let now = Instant::now();
            if now >= demand.deadline {
                let detail = "no connection became idle in time, and too many are being opened";
                return Err(Error::new(NetErrorKind::Timeout, detail));
            }
            // The connections in `_closed` are closed without the lock.
            let (claim, _closed) = {
                let mut state = self.state.lock();
                let closed = state.remove_unusable(self.kept, demand.idle.unwrap_or_default(), now);
                (state.claim(demand, rank, began, now), closed)
            };
            let until = match claim {
                SlotClaim::Idle(mut connection) => {
                    let slot = PoolSlot { pool: self, dial: None };
                    if connection.is_quiet() {
                        return Ok((slot, Some(connection)));
                    }
                    continue;
                }
                SlotClaim::Dial(number) => return Ok((PoolSlot { pool: self, dial: Some(number) }, None)),
                SlotClaim::WaitUntil(until) => until.min(demand.deadline),
            };
            select! {
                recv(waiter.woken) -> _ => {}
                recv(demand.interrupter.signal) -> _ => return Err(interrupted()),
                default(until.saturating_duration_since(now)) => {}
            }
        }
    }

    /// Closes the connections that were already idle when a failed call began.
    ///
    /// The fault that stopped the call may affect these connections too. The next call opens a connection, or uses a
    /// connection that has answered since `began`.
    pub(crate) fn forget_idle_since(&self, began: Instant) {
        let _closed: Vec<_> = self.state.lock().idle.extract_if(.., |it| it.since <= began).collect();
    }
}

impl<C: CallConnection> PoolState<C> {
    fn remove_unusable(&mut self, kept: usize, least: Versions, now: Instant) -> Vec<Idle<C>> {
        let mut excess = self.idle.len().saturating_sub(kept);
        let is_unusable = |it: &mut Idle<C>| {
            let idle_for = now.saturating_duration_since(it.since);
            let limit = if excess > 0 { it.max_idle.min(MAX_IDLE) } else { it.max_idle };
            let is_unusable = idle_for >= limit || !is_new_enough(&it.connection, least);
            excess = excess.saturating_sub(usize::from(is_unusable));
            is_unusable
        };
        self.idle.extract_if(.., is_unusable).collect()
    }

    /// Decides about a caller that began to wait at `began`.
    fn claim(&mut self, demand: &Demand<'_>, rank: Rank, began: Instant, now: Instant) -> SlotClaim<C> {
        let more_urgent = self.waiting.range(..rank).filter(|(_, other)| other.wants_idle).count();
        self.set_wants_idle(rank, demand.idle.is_some());
        if demand.idle.is_some()
            && self.idle.len() > more_urgent
            && let Some(idle) = self.idle.pop()
        {
            self.in_use += 1;
            self.set_wants_idle(rank, false);
            return SlotClaim::Idle(idle.connection);
        }
        let quarter = demand.deadline.saturating_duration_since(began) / 4;
        let (most, patience) = match demand.idle {
            Some(_) if self.in_use >= MAX_DIALS => (self.most_dials.min(MAX_CROWDED_DIALS), PATIENCE.min(quarter)),
            Some(_) => (self.most_dials, Duration::ZERO),
            None => (self.most_dials.div_ceil(2), Duration::ZERO),
        };
        let stuck_at = self.dials.back().map_or(began, |newest| newest.since + quarter.max(DIAL_INTERVAL));
        let overdue_at = stuck_at.max(began + quarter);
        let is_free = self.dials.len() < most;
        if (is_free && now >= began + patience) || now >= overdue_at {
            if !is_free {
                self.dials.pop_front();
            }
            self.in_use += 1;
            self.set_wants_idle(rank, false);
            let number = self.next_number();
            self.dials.push_back(Dial { number, since: now });
            return SlotClaim::Dial(number);
        }
        let patient_until = Some(began + patience).filter(|at| *at > now);
        SlotClaim::WaitUntil(patient_until.map_or(overdue_at, |at| at.min(overdue_at)))
    }

    /// A caller that has a connection is in the queue until it leaves the pool, but needs no idle connection.
    fn set_wants_idle(&mut self, rank: Rank, wants_idle: bool) {
        if let Some(caller) = self.waiting.get_mut(&rank) {
            caller.wants_idle = wants_idle;
        }
    }

    fn enqueue(&mut self, demand: &Demand<'_>) -> (Rank, Receiver<()>) {
        let (rank, (wake, woken)) = ((demand.deadline, self.next_number()), bounded(1));
        self.waiting.insert(rank, WaitingCaller { wants_idle: demand.idle.is_some(), wake });
        (rank, woken)
    }
}

impl<C> PoolState<C> {
    /// Wakes the callers that may take an idle connection, or open one.
    fn wake(&self) {
        let free = self.most_dials.saturating_sub(self.dials.len());
        let urgent = self.waiting.values().filter(|caller| caller.wants_idle).take(self.idle.len());
        for caller in urgent.chain(self.waiting.values().rev().take(free)) {
            // If the channel is full, the caller has not yet handled an earlier wakeup.
            let _ = caller.wake.try_send(());
        }
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

impl<C: CallConnection> PoolSlot<'_, C> {
    /// Returns the rule for the connection if the connection would be closed when idle, and opening another one would
    /// take long.
    pub(crate) fn far(&self, connection: &C) -> Option<FarIdle> {
        let Pool { max_idle, far, .. } = self.pool;
        (*max_idle < far.max_idle && connection.opened_in() > far.opened_in).then_some(*far)
    }

    /// Returns the connection to the pool after a clean answer.
    pub(crate) fn put_back(self, connection: C) {
        let max_idle = self.far(&connection).map_or(self.pool.max_idle, |far| far.max_idle);
        let idle = Idle { connection, since: Instant::now(), max_idle };
        self.pool.state.lock().idle.push(idle);
    }
}

impl<C> PoolSlot<'_, C> {
    /// Notes the end of a request, after which other callers may open connections.
    pub(crate) fn end_request(&mut self, is_answered: bool) {
        let mut state = self.pool.state.lock();
        if let Some(number) = self.dial.take() {
            state.dials.retain(|dial| dial.number != number);
        }
        state.most_dials = if is_answered { MAX_DIALS } else { 1 };
        state.wake();
    }
}

impl<C> Drop for PoolSlot<'_, C> {
    fn drop(&mut self) {
        if self.dial.is_some() {
            self.end_request(false);
        }
        let mut state = self.pool.state.lock();
        state.in_use -= 1;
        state.wake();
    }
}

impl<C> Drop for Waiter<'_, C> {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        state.waiting.remove(&self.rank);
        // A wakeup that this caller has not used goes to the next caller.
        state.wake();
    }
}

/// Returns `true` if the certificates of the connection are not older than `least`.
pub(crate) fn is_new_enough(connection: &impl CallConnection, least: Versions) -> bool {
    connection.versions().iter().zip(least).all(|(of, least)| *of >= least)
}

#[cfg(test)]
mod tests;
