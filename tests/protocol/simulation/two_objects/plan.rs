//! What a seed makes of a world before it begins.

use std::ops::Range;
use std::time::Duration;

use leasehold::{Fitness, LeaderElector, Settings};

use crate::clock::{Nanos, SECOND};
use crate::plan::Odds;

/// Who campaigns beside candidates on both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fleet {
    /// Others of ours on the primary alone.
    WithPrimary,
    /// Others of ours on the secondary alone.
    WithSecondary,
    /// Others on client-go's MultiLock, while no request and no process of theirs takes longer than what a lease leaves.
    WithMultiLock,
    /// Nobody on both, and others on either: they exclude nobody.
    Apart,
}

/// Who a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Both,
    Primary,
    Secondary,
    MultiLock,
}

#[derive(Debug, Clone)]
pub struct Plan {
    pub kinds: Vec<Kind>,
    pub lease: Duration,
    pub deadline: Duration,
    pub retry: Duration,
    pub release_timeout: Option<Duration>,
    /// The fastest clock's local nanoseconds in a true second.
    pub fastest: u64,
    pub odds: Odds,
    /// Faults end here.
    pub heal_at: Nanos,
    /// From here on there must be a leader.
    pub lead_by: Nanos,
    pub user_every: Nanos,
    pub chaos_every: Nanos,
    pub watches: bool,
    /// Whether candidates of ours may be unfit.
    pub asked: bool,
    /// How long their work may go without progress.
    pub progress: Option<Duration>,
    /// When the store of an object does not answer, and whether its requests hang.
    pub outages: Vec<(usize, Range<Nanos>, bool)>,
    /// Nodes that may not read an object until the faults end.
    pub forbidden: Vec<(usize, usize)>,
    /// By then each node must have led in turn.
    pub turns_by: Nanos,
}

impl Plan {
    pub fn new(fleet: Fleet, random: &mut fastrand::Rng) -> Self {
        let beside = match fleet {
            Fleet::WithPrimary => Kind::Primary,
            Fleet::WithSecondary => Kind::Secondary,
            Fleet::WithMultiLock => Kind::MultiLock,
            Fleet::Apart => Kind::Secondary,
        };
        let many = random.usize(2..6);
        let kinds = (0..many).map(|index| match (fleet, index) {
            (Fleet::Apart, 0) => Kind::Primary,
            (Fleet::Apart, _) => Kind::Secondary,
            // Both kinds there are, mostly.
            (_, 0) => Kind::Both,
            (_, 1) => beside,
            _ if random.bool() => Kind::Both,
            _ => beside,
        });
        let kinds = kinds.collect();
        let (lease, deadline, retry) = [(15, 10_000, 2_000), (4, 2_900, 400), (10, 7_000, 1_000)][random.usize(..3)];
        let lease = Duration::from_secs(lease);
        let longest = lease.as_nanos() as Nanos;
        let heal_at = longest * random.u64(1..5);
        let ratio = lease.as_nanos() as u64 * 1_000 / deadline * SECOND / 1_000_000_000;
        let asked = random.bool();
        let outages = (0..random.usize(..4)).map(|_| {
            let (object, from, hangs) = (random.usize(..2), random.u64(..heal_at), random.bool());
            let longest = [SECOND, 4 * SECOND, 3 * longest][random.usize(..3)];
            (object, from..heal_at.min(from + random.u64(..longest)), hangs)
        });
        let outages = outages.collect();
        let forbidden = (0..random.usize(..3)).map(|_| (random.usize(..many), random.usize(..2))).collect();
        let lead_by = heal_at + if asked { 8 } else { 4 } * longest + 20 * SECOND;
        let with_client_go = fleet == Fleet::WithMultiLock;
        Self {
            kinds,
            lease,
            deadline: Duration::from_millis(deadline),
            retry: Duration::from_millis(retry),
            release_timeout: random.bool().then(|| Duration::from_millis([100, 1_000, 30_000][random.usize(..3)])),
            // client-go goes on for a retry period after its renew deadline.
            fastest: if with_client_go || random.bool() { SECOND + SECOND / 1_000 } else { ratio - ratio / 1_000_000 },
            odds: if random.u8(..4) == 0 { Odds::default() } else { Odds::new(random) },
            heal_at,
            // A lease for each of those who take one after the other, and who does not lead gives up what it holds.
            lead_by,
            turns_by: lead_by + many as u64 * (3 * longest + 20 * SECOND),
            outages,
            forbidden,
            user_every: [3, 10, 40][random.usize(..3)] * SECOND,
            chaos_every: [2, 5, 15][random.usize(..3)] * SECOND,
            watches: random.u8(..4) > 0,
            asked,
            progress: random.bool().then(|| Duration::from_millis(retry * random.u64(2..8))),
        }
    }

    /// The end of the outage that an object has at `now`, and whether its requests hang.
    pub fn outage(&self, object: usize, now: Nanos) -> Option<(Nanos, bool)> {
        let outage = self.outages.iter().find(|(of, time, _)| *of == object && time.contains(&now));
        outage.map(|(_, time, hangs)| (time.end, *hangs))
    }

    pub fn settings(&self, identity: &str) -> Settings {
        let builder = LeaderElector::builder("simulated").identity(identity).only_leasehold(true);
        let builder = builder.lease_duration(self.lease).renew_deadline(self.deadline).retry_period(self.retry);
        let builder = match self.release_timeout {
            Some(timeout) => builder.release_timeout(timeout),
            None => builder,
        };
        let builder = if self.asked { builder.fitness(&Fitness::new()) } else { builder };
        let builder = match self.progress {
            Some(within) => builder.progress_within(within),
            None => builder,
        };
        builder.settings().expect("valid settings")
    }
}
