//! The plan of a world with two objects, which a seed determines.

use std::time::Duration;

use leasehold::store::{StoreError, StoreErrorKind};

use crate::clock::{MILLI, Nanos, SECOND};
use crate::network::Fate;
use crate::plan::{Kind, Odds, Plan, Suite};

impl Plan {
    pub fn on_two(suite: Suite, random: &mut fastrand::Rng) -> Self {
        let beside = match suite {
            Suite::WithPrimary => Kind::Primary,
            Suite::WithMultiLock => Kind::MultiLock,
            _ => Kind::Secondary,
        };
        let nodes = random.usize(2..6);
        let kinds = (0..nodes).map(|index| match (suite, index) {
            (Suite::Apart, 0) => Kind::Primary,
            (Suite::Apart, _) => Kind::Secondary,
            // Every world of these suites has at least one candidate of each kind.
            (_, 0) => Kind::Both,
            (_, 1) => beside,
            _ if random.bool() => Kind::Both,
            _ => beside,
        });
        let kinds: Vec<_> = kinds.collect();
        let last_is_both = nodes > 2 && kinds.last() == Some(&Kind::Both);
        let read_only = (last_is_both && random.bool()).then(|| (nodes - 1, random.usize(..2)));
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
        let forbidden = (0..random.usize(..3)).map(|_| (random.usize(..nodes), random.usize(..2))).collect();
        // Several nodes may take over one after the other, and each waits for a lease duration. A node that does not
        // lead releases what it holds.
        let lead_by = heal_at + if asked { 8 } else { 4 } * longest + 20 * SECOND;
        let release_timeout = random.bool().then(|| Duration::from_millis([100, 1_000, 30_000][random.usize(..3)]));
        // client-go leads for a retry period longer than its renew deadline, so its clocks may differ only a little.
        let is_steady = suite == Suite::WithMultiLock || random.bool();
        let odds = if random.u8(..4) == 0 { Odds::default() } else { Odds::new(random) };
        let progress = random.bool().then(|| Duration::from_millis(retry * random.u64(2..8)));
        Self {
            suite,
            nodes,
            kinds,
            settings: vec![(lease, Duration::from_millis(deadline), Duration::from_millis(retry)); nodes],
            others: vec![(None, release_timeout); nodes],
            fastest: if is_steady { SECOND + SECOND / 1_000 } else { ratio - ratio / 1_000_000 },
            odds: Odds { watch_stalled: 125, ..odds },
            heal_at,
            settled_at: lead_by,
            lead_by,
            calm: longest,
            chaos_every: [2, 5, 15][random.usize(..3)] * SECOND,
            user_every: [3, 10, 40][random.usize(..3)] * SECOND,
            watches: random.u8(..4) > 0,
            label_every: 1_000 * longest,
            longest,
            servers: 1,
            asked,
            progress: vec![progress; nodes],
            outages,
            forbidden,
            read_only,
            // A node that may write only one object delays each handover by a lease duration.
            turns_by: lead_by + nodes as u64 * (4 * longest + 20 * SECOND),
            ..Self::default()
        }
    }

    /// Returns the end of the object's outage at `now`, and `true` if its requests hang.
    pub fn outage(&self, object: usize, now: Nanos) -> Option<(Nanos, bool)> {
        let outage = self.outages.iter().find(|(of, time, _)| *of == object && time.contains(&now));
        outage.map(|(_, time, hangs)| (time.end, *hangs))
    }

    /// Returns the fate of a request during an outage, or of a forbidden request.
    pub fn fate_of(&self, node: usize, object: usize, is_read: bool, now: Nanos) -> Option<Fate> {
        let refused = |kind| Fate { error: Some((StoreError::new(kind, "made up"), 10 * MILLI)), ..Fate::default() };
        let is_forbidden = match is_read {
            true => now < self.heal_at && self.forbidden.contains(&(node, object)),
            false => self.read_only == Some((node, object)),
        };
        match self.outage(object, now) {
            Some((_, true)) => Some(Fate::default()),
            Some((_, false)) => Some(refused(StoreErrorKind::Unavailable)),
            None => is_forbidden.then(|| refused(StoreErrorKind::Forbidden)),
        }
    }
}
