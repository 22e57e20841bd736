//! The plan of a world, which a seed determines before the world starts.

use std::ops::Range;
use std::time::Duration;

use leasehold::{Fitness, LeaderElector, LeaderElectorBuilder, Settings};

use crate::clock::{Nanos, SECOND};
use crate::notes::hold_backs;

/// The kind of a world.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Suite {
    /// Everything that the protocol promises to withstand.
    #[default]
    Promise,
    /// Processes that share an identity, at the same time or one after the other.
    SharedIdentity,
    /// A third party changes and deletes records in force.
    Operator,
    /// The store is restored to older states, and uses its versions again.
    Restored,
    /// Candidates are only sometimes fit, and their work hangs.
    Fitness,
    /// Clock rates differ by more than promised.
    RunawayClocks,
    /// Candidates on both of two objects, beside candidates on the primary only.
    WithPrimary,
    /// Candidates on both of two objects, beside candidates on the secondary only.
    WithSecondary,
    /// Candidates on both of two objects, beside candidates on client-go's MultiLock.
    ///
    /// No request and no process of a client-go candidate takes longer than a lease permits.
    WithMultiLock,
    /// Candidates on only one of two objects, which therefore do not exclude each other.
    Apart,
    /// Processes that divide the shards of a group.
    Groups,
}

/// The records for which a candidate competes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Both,
    Primary,
    Secondary,
    MultiLock,
}

impl Suite {
    /// Returns `true` if the suite changes records in force in a way that the promise excludes.
    pub fn meddles(self) -> bool {
        matches!(self, Suite::Operator | Suite::Restored)
    }

    /// Returns `true` if the candidates of the suite use two objects.
    pub fn is_on_two(self) -> bool {
        matches!(self, Suite::WithPrimary | Suite::WithSecondary | Suite::WithMultiLock | Suite::Apart)
    }
}

/// A broken rule.
#[derive(Debug)]
pub struct Violation {
    pub what: String,
    /// `true` if there were two leaders at the same time.
    pub overlap: bool,
}

impl From<String> for Violation {
    fn from(what: String) -> Self {
        Self { what, overlap: false }
    }
}

/// The probability of each fault, in thousandths.
#[derive(Debug, Clone, Default)]
pub struct Odds {
    pub request_lost: u32,
    pub request_late: u32,
    pub request_doubled: u32,
    pub answer_lost: u32,
    pub answer_late: u32,
    pub answer_doubled: u32,
    /// An error replaces the answer.
    ///
    /// The request may have been applied, may be applied later, or may never be applied.
    pub error: u32,
    /// The longest pause that an error asks for, which is no probability.
    pub longest_pause: Nanos,
    pub slow: u32,
    pub watch_refused: u32,
    pub watch_stalled: u32,
    pub watch_late: u32,
    /// The server starts from an older state, and delivers again the changes made since.
    pub watch_stale: u32,
}

#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub suite: Suite,
    pub nodes: usize,
    pub kinds: Vec<Kind>,
    pub settings: Vec<(Duration, Duration, Duration)>,
    /// The renew interval and the release timeout of each node, where they are not the defaults.
    pub others: Vec<(Option<Duration>, Option<Duration>)>,
    /// Local nanoseconds of the fastest clock per true second.
    ///
    /// The slowest clock is a true clock.
    pub fastest: u64,
    pub odds: Odds,
    /// The time at which the faults end.
    pub heal_at: Nanos,
    /// The time by which every request from before the end of the faults has arrived or failed.
    ///
    /// A term that is valid at this time must not end.
    pub settled_at: Nanos,
    /// The time by which a candidate must lead.
    pub lead_by: Nanos,
    /// The time at which the last pause that a server asked for has ended.
    pub pauses_end: Nanos,
    /// The time by which each answer of a slow server is late.
    pub lateness: Nanos,
    /// The idle time after which the network drops a connection in silence.
    pub drops_after: Option<Nanos>,
    /// How long the first leader after the faults must continue to lead before it hands over.
    pub calm: Nanos,
    /// The mean time between two faults.
    pub chaos_every: Nanos,
    /// The mean time between two actions of a user.
    pub user_every: Nanos,
    /// The mean time between two actions of an operator.
    pub operator_every: Option<Nanos>,
    pub restore_every: Option<Nanos>,
    /// `true` if most nodes watch.
    ///
    /// Most of these nodes have the permission to watch.
    pub watches: bool,
    /// The time between two edits of a label after the faults.
    pub label_every: Nanos,
    /// `true` if answers to abandoned requests still reach the election.
    pub late_answers: bool,
    /// `true` if each step asks the views, and so records the end of each term.
    pub asking: bool,
    pub uid_blind: bool,
    /// `true` if the store reports for certain that it has not applied a request.
    ///
    /// No request then reaches the store twice.
    pub certain: bool,
    pub reclaim: bool,
    /// `true` if some running nodes share an identity.
    pub duplicates: bool,
    pub steady_network: bool,
    /// `true` if threads are held up between reading their clock and acting by the reading.
    pub held_up: bool,
    /// The longest jump of a local clock that the promise permits.
    pub longest_jump: Nanos,
    /// The longest lease duration.
    pub longest: Nanos,
    /// The number of API servers.
    pub servers: usize,
    /// `true` if servers that were not restarted with their store are never restarted.
    pub forgotten_servers: bool,
    /// `true` if the candidates of leasehold may be unfit.
    pub asked: bool,
    /// The progress timeout of each candidate's work.
    pub progress: Vec<Option<Duration>>,
    /// The delay before each node takes over a free lease.
    pub hold_backs: Vec<Duration>,
    /// `true` for each node that accepts requests to step down.
    pub accepts: Vec<bool>,
    /// `true` for each node that advertises an address.
    pub advertises: Vec<bool>,
    /// The mean time between two edits of the notes.
    pub notes_every: Option<Nanos>,
    /// The period of the jobs, if some campaigns are for jobs.
    pub job_period: Option<Duration>,
    /// The outages of the stores.
    ///
    /// Each entry is the object, the time range, and `true` if requests hang instead of failing.
    pub outages: Vec<(usize, Range<Nanos>, bool)>,
    /// Nodes and the object that each of them may not read until the faults end.
    pub forbidden: Vec<(usize, usize)>,
    /// A node that may never write the object with this index.
    pub read_only: Option<(usize, usize)>,
    /// On two objects, the time by which each node must have led in turn.
    pub turns_by: Nanos,
}

impl Plan {
    pub fn new(suite: Suite, random: &mut fastrand::Rng) -> Self {
        if suite.is_on_two() { Self::on_two(suite, random) } else { Self::on_one(suite, random) }
    }

    fn on_one(suite: Suite, random: &mut fastrand::Rng) -> Self {
        let nodes = if random.bool() { random.usize(2..=3) } else { random.usize(4..=9) };
        // Lease duration, renew deadline and retry period, in milliseconds.
        let choices = [
            (15_000, 10_000, 2_000),
            (3_000, 2_000, 500),
            (10_000, 9_000, 1_000),
            (3_000, 2_900, 400),
            (40_000, 20_000, 3_000),
        ];
        let mixed = random.u8(..3) == 0;
        let one = random.usize(..choices.len());
        let settings: Vec<_> = (0..nodes)
            .map(|_| {
                let (lease, deadline, retry) = choices[if mixed { random.usize(..choices.len()) } else { one }];
                let chosen =
                    (Duration::from_millis(lease), Duration::from_millis(deadline), Duration::from_millis(retry));
                if random.u8(..3) == 0 { to_the_nanosecond(chosen, random) } else { chosen }
            })
            .collect();
        let others = settings.iter().map(|(_, deadline, _)| {
            let renew_interval = *deadline / [20, 4, 2][random.usize(..3)];
            let release_timeout = Duration::from_millis([100, 1_000, 30_000][random.usize(..3)]);
            ((random.u8(..4) == 0).then_some(renew_interval), (random.u8(..4) == 0).then_some(release_timeout))
        });
        let others = others.collect();
        let nanos = |duration: Duration| duration.as_nanos() as u64;
        let longest = settings.iter().map(|settings| nanos(published(settings.0))).max().unwrap_or(0);
        let longest_deadline = settings.iter().map(|settings| nanos(settings.1)).max().unwrap_or(0);
        let ratio = |(lease, deadline, _): &(Duration, Duration, Duration)| {
            (published(*lease).as_nanos() * u128::from(SECOND) / deadline.as_nanos()) as u64
        };
        let narrowest = settings.iter().map(ratio).min().unwrap_or(SECOND);
        // If a standby's clock jumps by this time, the standby still waits for the leader's renew deadline.
        let slack = |(lease, deadline, _): &(Duration, Duration, Duration)| nanos(published(*lease)) - nanos(*deadline);
        let longest_jump = settings.iter().map(slack).min().unwrap_or(0);
        let fastest = match suite {
            Suite::RunawayClocks => narrowest + narrowest / 2,
            // The rates differ as much as promised, except for the nanoseconds that are lost by rounding.
            _ if random.bool() => (narrowest - narrowest / 1_000_000).max(SECOND),
            _ => (SECOND + SECOND / 1_000).min((narrowest - narrowest / 1_000_000).max(SECOND)),
        };
        let steady_network = suite == Suite::Operator && random.bool();
        let watches = random.u8(..4) > 0;
        let odds = if steady_network { Odds::default() } else { Odds::new(random) };
        let odds = if watches { odds.of_watches(random) } else { odds };
        let certain = random.u8(..3) == 0;
        let odds = if certain { Odds { request_doubled: 0, ..odds } } else { odds };
        let reclaim = suite == Suite::SharedIdentity && random.bool();
        let chaos_every = [2, 5, 15][random.usize(..3)] * SECOND;
        let heal_at = longest * if random.u8(..8) == 0 { random.u64(4..10) } else { random.u64(1..4) };
        // Until `lead_by`, pending requests are abandoned, candidates read the record, the lease of a crashed leader
        // expires, and users notice the end of the faults. The ten seconds cover everything else.
        let lead_by = heal_at + longest + 2 * longest_deadline + 10 * SECOND;
        // The second generator does not change the faults that the first generator draws.
        let mut apart = fastrand::Rng::with_seed(!random.get_seed());
        let hold_backs = hold_backs(&settings, &mut apart);
        let lead_by = lead_by + hold_backs.iter().min().map_or(0, |delay| nanos(*delay));
        // A node that was unfit must also wait after its user has found out that the faults are over.
        let asked = suite == Suite::Fitness;
        let pauses = if asked { 4 * longest + 10 * SECOND } else { 0 };
        let progress = |(_, _, retry): &(_, _, Duration)| asked.then(|| (*retry).max(Duration::from_secs(3)));
        let lead_by = lead_by + pauses;
        Self {
            suite,
            nodes,
            kinds: vec![Kind::Primary; nodes],
            progress: settings.iter().map(progress).collect(),
            hold_backs,
            settings,
            others,
            fastest,
            odds,
            heal_at,
            // A node that knows only versions from before a restore may take one of them for a current version.
            settled_at: match suite {
                Suite::Restored | Suite::Fitness => lead_by,
                _ => heal_at + longest_deadline / 2 + 2 * SECOND,
            },
            lead_by,
            calm: longest / 2,
            chaos_every,
            user_every: if suite == Suite::Fitness { SECOND } else { [3, 10, 40][random.usize(..3)] * SECOND },
            operator_every: (suite == Suite::Operator).then_some(longest / 2),
            restore_every: (suite == Suite::Restored).then_some(longest / 2),
            watches,
            label_every: [longest_deadline / 3, longest * 100][random.usize(..2)],
            // After a restore, a late answer would give an election knowledge that it never has in reality, because the
            // runtime drops late answers.
            late_answers: suite != Suite::Restored && random.bool(),
            asking: random.bool(),
            uid_blind: suite == Suite::Operator && random.u8(..3) == 0,
            certain,
            reclaim,
            duplicates: suite == Suite::SharedIdentity && !reclaim && random.bool(),
            steady_network,
            held_up: !steady_network && random.bool(),
            longest_jump,
            longest,
            servers: random.usize(1..=3),
            forgotten_servers: suite == Suite::Restored && random.u8(..4) == 0,
            asked,
            ..Self::default()
        }
        .with_notes(&mut apart)
        .with_pauses(&mut apart)
        .with_slow_servers(&mut apart)
        .with_dropped_connections(&mut apart)
    }

    pub fn settings(&self, node: usize, identity: &str) -> Settings {
        let (lease, deadline, retry) = self.settings[node];
        let progress = self.progress[node];
        let builder = LeaderElector::builder("simulated");
        let (renew_interval, release_timeout) = self.others[node];
        let builder = renew_interval.into_iter().fold(builder, LeaderElectorBuilder::renew_interval);
        let builder = release_timeout.into_iter().fold(builder, LeaderElectorBuilder::release_timeout);
        let builder = progress.into_iter().fold(builder, LeaderElectorBuilder::progress_timeout);
        let hold_back = self.hold_backs.get(node).copied().unwrap_or_default();
        let address = self.address(node, identity);
        let builder = address.into_iter().fold(builder, LeaderElectorBuilder::advertise);
        let builder = if self.asked { builder.fitness(&Fitness::new()) } else { builder };
        builder
            .identity(identity)
            .lease_duration(lease)
            .renew_deadline(deadline)
            .retry_period(retry)
            .hold_back(hold_back)
            .accept_requests(self.accepts.get(node).copied().unwrap_or_default())
            .reclaim_own_identity(self.reclaim)
            .no_client_go_peers(true)
            .validate()
            .expect("valid settings")
    }

    /// Draws a rate between the slowest and the fastest, mostly one of these two.
    pub fn rate(&self, random: &mut fastrand::Rng) -> u64 {
        match random.u8(..5) {
            0 | 1 => SECOND,
            2 | 3 => self.fastest,
            _ => random.u64(SECOND..=self.fastest),
        }
    }
}

/// Changes the durations by less than a second, so that they are not round.
///
/// The published lease duration is rounded up. The renew deadline may be any duration below the configured lease
/// duration.
fn to_the_nanosecond(
    (lease, deadline, retry): (Duration, Duration, Duration),
    random: &mut fastrand::Rng,
) -> (Duration, Duration, Duration) {
    let lease = lease - Duration::from_nanos(random.u64(..SECOND));
    let below = match random.u8(..3) {
        0 => 1,
        1 => random.u64(1..1_000_000),
        _ => random.u64(1..SECOND),
    };
    let deadline = deadline.max(lease - Duration::from_nanos(below)).min(lease - Duration::from_nanos(1));
    (lease, deadline, retry + Duration::from_nanos(random.u64(..1_000_000)))
}

fn published(lease: Duration) -> Duration {
    Duration::from_secs(lease.as_nanos().div_ceil(1_000_000_000) as u64)
}

impl Odds {
    pub fn new(random: &mut fastrand::Rng) -> Self {
        let mut odds = || [0, 0, 20, 80, 250][random.usize(..5)];
        Self {
            request_lost: odds(),
            request_late: odds(),
            request_doubled: odds(),
            answer_lost: odds(),
            answer_late: odds(),
            answer_doubled: odds(),
            error: odds(),
            longest_pause: 5 * SECOND,
            slow: odds(),
            ..Self::default()
        }
    }
}
