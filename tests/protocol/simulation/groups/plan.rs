//! The size, the times and the faults of a world with a group.

use std::time::Duration;

use leasehold::election::group::GroupSettings;
use leasehold::{LeaderElector, Settings};

use crate::clock::{MILLI, Nanos, SECOND};
use crate::plan::Odds;

/// The longest time of a request without faults.
const SLOWEST_REQUEST: Nanos = 60 * MILLI;

/// The faults in the records themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meddling {
    /// Clients edit metadata, and put foreign texts into shard records.
    Edits,
    /// Clients also delete records of slots and shards.
    Deletions,
    /// The store is restored to older states.
    Restores,
}

#[derive(Debug)]
pub struct GroupPlan {
    pub nodes: usize,
    pub shards: usize,
    pub max_members: usize,
    pub lease: Nanos,
    /// The lease duration, the renew deadline and the retry period.
    pub times: (Duration, Duration, Duration),
    /// The shorter times of every second process, as in a rolling update.
    pub short: Option<(Duration, Duration, Duration)>,
    pub drain_timeout: Duration,
    /// Local nanoseconds of the fastest clock per true second.
    pub fastest: u64,
    pub odds: Odds,
    /// The probability of a late event of a watch, in thousandths.
    pub event_late: u32,
    /// `true` if a watch delivers the events of all records in their order.
    pub is_ordered: bool,
    pub meddling: Meddling,
    /// `true` if some workers return late or by themselves.
    pub has_bad_workers: bool,
    pub heal_at: Nanos,
    pub chaos_every: Nanos,
    /// The time by which every shard must have had an owner after the faults.
    pub owned_by: Nanos,
    /// The time by which the shares must be equal.
    pub shared_by: Nanos,
    /// The time after that in which no shard may move.
    pub calm: Nanos,
}

impl GroupPlan {
    pub fn new(random: &mut fastrand::Rng) -> Self {
        let nodes = if random.bool() { random.usize(1..=3) } else { random.usize(1..=9) };
        let most = [4, 16, 64][random.usize(..3)];
        let shards = random.usize(1..=most);
        let (lease, deadline, retry) = [(15, 10_000, 2_000), (3, 2_000, 500), (6, 4_000, 500)][random.usize(..3)];
        let times = (Duration::from_secs(lease), Duration::from_millis(deadline), Duration::from_millis(retry));
        let lease = lease * SECOND;
        let drain_timeout = times.0 * random.u32(1..8) / 4;
        let has_bad_workers = random.u8(..3) == 0;
        let meddling = match random.u8(..8) {
            0 | 1 => Meddling::Deletions,
            2 | 3 => Meddling::Restores,
            _ => Meddling::Edits,
        };
        let heal_at = lease * random.u64(2..9);
        // A worker that does not return keeps its shard for a lease duration after the drain timeout.
        let returned_at = heal_at + if has_bad_workers { drain_timeout.as_nanos() as Nanos + lease } else { 0 };
        // Within two retry periods, a process has opened its watch. Within a lease duration, a slot expires. Then a member
        // creates the missing shards, and takes them one lease duration later. The listing and the
        // slot need six more messages, and the listing after the win needs two.
        let started_at = returned_at + 2 * times.2.as_nanos() as Nanos;
        // The second generator does not change the faults that the first generator draws.
        let mut apart = fastrand::Rng::with_seed(!random.get_seed());
        let mut odds = if random.u8(..4) == 0 { Odds::default() } else { Odds::new(random) };
        let kept = if odds.error > 0 && apart.u8(..4) == 0 { odds.with_long_pauses(lease) } else { 0 };
        let started_at = started_at + kept;
        // After a deletion or a restore, the promise does not cover different durations.
        let is_mixed = meddling == Meddling::Edits && apart.u8(..4) == 0;
        let (secs, millis) = (Duration::from_secs, Duration::from_millis);
        let short = (lease > 3 * SECOND && is_mixed).then_some(match lease > 6 * SECOND {
            true => (secs(6), secs(4), millis(500)),
            false => (secs(3), secs(2), millis(500)),
        });
        let owned_by = started_at + 2 * lease + (2 * shards + 8) as Nanos * SLOWEST_REQUEST;
        let shared_by = returned_at + 14 * lease;
        let mut plan = Self {
            nodes,
            shards,
            max_members: if random.u8(..4) == 0 { random.usize(1..=nodes) } else { 16 },
            lease,
            times,
            short,
            drain_timeout,
            fastest: if random.bool() { SECOND + SECOND / 1_000 } else { SECOND * 3 / 2 - SECOND / 1_000 },
            odds,
            event_late: [0, 0, 5, 20][random.usize(..4)],
            is_ordered: meddling != Meddling::Edits || random.bool(),
            meddling,
            has_bad_workers,
            heal_at,
            chaos_every: lease / [1, 4, 10][random.usize(..3)],
            owned_by,
            shared_by,
            calm: lease * if random.u8(..4) == 0 { 10 } else { 2 },
        };
        // A process does not campaign for four lease durations for a slot that it could not read.
        if plan.max_members <= 2 && plan.odds.error > 0 {
            plan.owned_by += 4 * lease;
        }
        plan
    }

    pub fn group_settings(&self, identity: &str, times: (Duration, Duration, Duration)) -> GroupSettings {
        GroupSettings {
            shards: self.shards,
            max_shards: None,
            max_members: self.max_members,
            identity: identity.to_owned(),
            lease_duration: times.0,
            retry_period: times.2,
            drain_timeout: self.drain_timeout,
        }
    }

    pub fn slot_settings(&self, identity: &str, times: (Duration, Duration, Duration)) -> Settings {
        let (lease, deadline, retry) = times;
        LeaderElector::builder("simulated")
            .identity(identity)
            .lease_duration(lease)
            .renew_deadline(deadline)
            .retry_period(retry)
            .no_client_go_peers(true)
            .validate()
            .expect("valid settings")
    }
}
