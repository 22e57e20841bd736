//! Servers that ask for long pauses or answer late, and networks that drop idle connections in silence.

use std::time::Duration;

use leasehold::election::{Operation, StoreRequest};
use leasehold::util::clock::Moment;

use crate::clock::{Nanos, SECOND};
use crate::node::Node;
use crate::plan::{Odds, Plan, Suite, Violation};

/// The longest pause that an overloaded server asks for.
const LONGEST: Nanos = 2 * 3_600 * SECOND;

impl Odds {
    /// Lets servers ask for pauses of hours. Returns the longest time that a candidate keeps such a pause.
    pub fn with_long_pauses(&mut self, longest_lease: Nanos) -> Nanos {
        self.longest_pause = LONGEST;
        longest_lease * 6 / 5
    }
}

impl Plan {
    /// Lets servers ask for pauses of hours in a quarter of the plans.
    pub fn with_pauses(mut self, random: &mut fastrand::Rng) -> Self {
        if random.u8(..4) == 0 && self.odds.error > 0 {
            let kept = self.odds.with_long_pauses(self.longest);
            self.pauses_end = self.heal_at + kept + SECOND;
            self.lead_by += kept;
        }
        self
    }

    /// Makes all answers late in an eighth of the plans, also after the faults.
    ///
    /// Two answers in a row take less than a renew deadline.
    pub fn with_slow_servers(mut self, random: &mut fastrand::Rng) -> Self {
        if random.u8(..8) == 0 && self.suite == Suite::Promise {
            let deadline = self.settings.iter().map(|settings| settings.1.as_nanos() as Nanos).min().unwrap_or(0);
            self.lateness = deadline * random.u64(20..42) / 100 * SECOND / self.fastest;
            self.label_every = 100 * self.longest;
            let longest_deadline = self.settings.iter().map(|settings| settings.1.as_nanos() as Nanos).max();
            self.settled_at += longest_deadline.unwrap_or(0);
            self.lead_by += 6 * self.lateness;
        }
        self
    }

    /// Lets the network drop idle connections in a quarter of the plans, also after the faults.
    pub fn with_dropped_connections(mut self, random: &mut fastrand::Rng) -> Self {
        if random.u8(..4) == 0 && self.lateness == 0 {
            self.drops_after = Some(random.u64(11..60) * SECOND);
            self.lead_by += 2 * SECOND;
        }
        self
    }
}

/// The connection of one record's requests.
#[derive(Debug, Default)]
pub struct Connection {
    /// The true time and the local time of the last answer, until a request breaks the connection.
    used_at: Option<(Nanos, Moment)>,
    /// The local time at which the last request was sent.
    sent_at: Moment,
    /// The longest time of an answer, by the local clock.
    slowest: Duration,
    /// The base of the last renewal, until a connection is closed under a renewal.
    renewed: Option<u64>,
}

impl Connection {
    /// Notes a request. Returns `true` if the network has dropped the connection.
    pub fn sends(&mut self, truth: Nanos, local: Moment, drops_after: Option<Nanos>) -> bool {
        self.sent_at = local;
        let idle = self.used_at.map_or(0, |(at, _)| truth - at);
        drops_after.is_some_and(|after| idle > after)
    }

    /// Notes an answer of the store.
    pub fn answered(&mut self, truth: Nanos, local: Moment) {
        (self.used_at, self.renewed) = (Some((truth, local)), None);
        self.slowest = self.slowest.max(local.since(self.sent_at));
    }

    /// Notes that the connection broke, or that the client gave up waiting. The next request opens a connection.
    pub fn broke(&mut self) {
        (self.used_at, self.renewed) = (None, None);
    }

    /// Returns the longest first attempt of an acquisition on an idle connection.
    pub fn longest_first_attempt(&self) -> Duration {
        (self.slowest * 3).max(Duration::from_secs(1))
    }

    /// Returns `true` for the first attempt of a renewal.
    fn is_first_renewal(&mut self, base: u64) -> bool {
        self.renewed.replace(base) != Some(base)
    }
}

/// Returns an error if a request of a leader leaves too little time, or an acquisition trusts an idle connection.
pub fn may_take(node: &mut Node, request: &StoreRequest, now: Moment, left: Duration) -> Result<(), Violation> {
    let (holds_guard, settings, name) = (node.holds_guard(), node.settings.clone(), node.identity.clone());
    let connection = &mut node.record.connection;
    let is_idle = connection.used_at.is_some_and(|(_, at)| now.since(at) > Duration::from_secs(10));
    let base = match &request.operation {
        Operation::Update(base, record) if record.holder().is_some() => Some(base.version),
        Operation::Create(_) => Some(0),
        _ => None,
    };
    let acquires = base.is_some() && !holds_guard;
    let moment = Duration::from_millis(1);
    if acquires && is_idle && request.timeout > connection.longest_first_attempt() + moment {
        return Err(format!("{name} waits {:?} on an idle connection", request.timeout).into());
    }
    let mut most = (left / 2).max(settings.renew_deadline / 20);
    if base.filter(|_| holds_guard).is_some_and(|base| connection.is_first_renewal(base)) {
        most = most.max(left.saturating_sub(settings.retry_period)).max(connection.slowest * 5);
    }
    match !left.is_zero() && request.timeout > most + moment {
        true => Err(format!("{name}: {:?} of {left:?} in one request", request.timeout).into()),
        false => Ok(()),
    }
}
