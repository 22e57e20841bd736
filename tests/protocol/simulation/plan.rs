//! What a seed makes of a world before it begins.

use std::ops::Range;
use std::time::Duration;

use leasehold::{Fitness, LeaderElector, LeaderElectorBuilder, Settings};

use crate::clock::{Nanos, SECOND};

/// What kind of world it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Suite {
    /// All that the protocol promises to bear.
    #[default]
    Promise,
    /// Processes that have or had the same identity.
    SharedIdentity,
    /// A third party changes and deletes records in force.
    Operator,
    /// The store goes back to older states, and uses its versions again.
    Restored,
    /// Candidates that are fit now and then, and whose work hangs.
    Fitness,
    /// Clock rates that differ by more than is promised.
    RunawayClocks,
    /// Candidates on two objects at once, beside others of ours on the primary alone.
    WithPrimary,
    /// Beside others of ours on the secondary alone.
    WithSecondary,
    /// Beside others on client-go's MultiLock, while no request and no process of theirs takes longer than what a lease leaves.
    WithMultiLock,
    /// Candidates on either of two objects and none on both: they exclude nobody.
    Apart,
}

/// Which records a candidate is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Both,
    Primary,
    Secondary,
    MultiLock,
}

impl Suite {
    /// Whether something happens to records in force that the promise excludes.
    pub fn meddles(self) -> bool {
        matches!(self, Suite::Operator | Suite::Restored)
    }

    /// Returns `true` if there are two objects.
    pub fn is_on_two(self) -> bool {
        matches!(self, Suite::WithPrimary | Suite::WithSecondary | Suite::WithMultiLock | Suite::Apart)
    }
}

/// What was promised and does not hold.
#[derive(Debug)]
pub struct Violation {
    pub what: String,
    /// Whether it is two leaders at a time.
    pub overlap: bool,
}

impl From<String> for Violation {
    fn from(what: String) -> Self {
        Self { what, overlap: false }
    }
}

/// How often what goes wrong, as a chance in a thousand.
#[derive(Debug, Clone, Default)]
pub struct Odds {
    pub request_lost: u32,
    pub request_late: u32,
    pub request_doubled: u32,
    pub answer_lost: u32,
    pub answer_late: u32,
    pub answer_doubled: u32,
    /// An error is answered; the request may have been applied, be applied later, or never.
    pub error: u32,
    pub slow: u32,
    pub watch_refused: u32,
    pub watch_stalled: u32,
    pub watch_late: u32,
    /// The server answers from an older state, and tells again what came since.
    pub watch_stale: u32,
}

#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub suite: Suite,
    pub nodes: usize,
    pub kinds: Vec<Kind>,
    pub settings: Vec<(Duration, Duration, Duration)>,
    /// Where they are not those that follow from the settings: the renew interval, and the release timeout.
    pub others: Vec<(Option<Duration>, Option<Duration>)>,
    /// The fastest clock's local nanoseconds in a true second; the slowest has as many as there are.
    pub fastest: u64,
    pub odds: Odds,
    /// Faults end here, and calm begins.
    pub heal_at: Nanos,
    /// What was under way when the faults ended has landed and was given up: no term that stands from here on may end.
    pub settled_at: Nanos,
    /// From here on there must be a leader.
    pub lead_by: Nanos,
    /// How long the first leader after that must go on leading, until it hands over.
    pub calm: Nanos,
    /// The mean time between two acts of chaos, of a user, and of an operator.
    pub chaos_every: Nanos,
    pub user_every: Nanos,
    pub operator_every: Option<Nanos>,
    pub restore_every: Option<Nanos>,
    /// Most nodes watch, and most of those may.
    pub watches: bool,
    /// How often a label is edited in the calm at the end.
    pub label_every: Nanos,
    /// Answers to requests that were given up still reach the election.
    pub late_answers: bool,
    /// Views are asked after every step, and so latch what they see.
    pub asking: bool,
    pub uid_blind: bool,
    /// The store is certain of what it has not applied, and no request reaches it twice.
    pub certain: bool,
    pub reclaim: bool,
    /// Some nodes share an identity while all of them live.
    pub duplicates: bool,
    pub steady_network: bool,
    /// Threads are held up between reading their clock and acting by that.
    pub held_up: bool,
    /// How far a local clock may jump without breaking the promise.
    pub longest_jump: Nanos,
    /// The longest lease.
    pub longest: Nanos,
    /// How many API servers there are.
    pub servers: usize,
    /// Servers that were not restarted with their store are never restarted.
    pub forgotten_servers: bool,
    /// Whether candidates of ours may be unfit.
    pub asked: bool,
    /// How long their work may go without progress, of each candidate.
    pub progress: Vec<Option<Duration>>,
    /// When the store of an object does not answer, and whether its requests hang.
    pub outages: Vec<(usize, Range<Nanos>, bool)>,
    /// Nodes that may not read an object until the faults end.
    pub forbidden: Vec<(usize, usize)>,
    /// On two objects, each node must have led in turn by then.
    pub turns_by: Nanos,
}

impl Plan {
    pub fn new(suite: Suite, random: &mut fastrand::Rng) -> Self {
        if suite.is_on_two() { Self::on_two(suite, random) } else { Self::on_one(suite, random) }
    }

    fn on_one(suite: Suite, random: &mut fastrand::Rng) -> Self {
        let nodes = if random.bool() { random.usize(2..=3) } else { random.usize(4..=9) };
        // Lease duration, renew deadline, retry period, in milliseconds.
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
        // Whoever waits so much less than the published duration still waits for the renew deadline.
        let slack = |(lease, deadline, _): &(Duration, Duration, Duration)| nanos(published(*lease)) - nanos(*deadline);
        let longest_jump = settings.iter().map(slack).min().unwrap_or(0);
        let fastest = match suite {
            Suite::RunawayClocks => narrowest + narrowest / 2,
            // As far apart as is promised, but for the nanoseconds that rounding costs.
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
        // What is under way is given up; a look; the lease of whoever is gone; users notice; and seconds for the rest.
        let lead_by = heal_at + longest + 2 * longest_deadline + 10 * SECOND;
        // Who was unfit at last has to wait, too, after users have found out that the faults are over.
        let asked = suite == Suite::Fitness;
        let pauses = if asked { 4 * longest + 10 * SECOND } else { 0 };
        let progress = |(_, _, retry): &(_, _, Duration)| asked.then(|| (*retry).max(Duration::from_secs(3)));
        let lead_by = lead_by + pauses;
        Self {
            suite,
            nodes,
            kinds: vec![Kind::Primary; nodes],
            progress: settings.iter().map(progress).collect(),
            settings,
            others,
            fastest,
            odds,
            heal_at,
            // Who knows only versions from before the store was restored may take one of them for one of now.
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
            // Where a store was restored, who knows of two lives of it knows more than a runtime ever tells: it drops them.
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
    }

    pub fn settings(&self, node: usize, identity: &str) -> Settings {
        let (lease, deadline, retry) = self.settings[node];
        let progress = self.progress[node];
        let builder = LeaderElector::builder("simulated");
        let (renew_interval, release_timeout) = self.others[node];
        let builder = renew_interval.into_iter().fold(builder, LeaderElectorBuilder::renew_interval);
        let builder = release_timeout.into_iter().fold(builder, LeaderElectorBuilder::release_timeout);
        let builder = progress.into_iter().fold(builder, LeaderElectorBuilder::progress_timeout);
        let builder = if self.asked { builder.fitness(&Fitness::new()) } else { builder };
        builder
            .identity(identity)
            .lease_duration(lease)
            .renew_deadline(deadline)
            .retry_period(retry)
            .reclaim_own_identity(self.reclaim)
            .no_client_go_peers(true)
            .validate()
            .expect("valid settings")
    }

    /// Rates lie between the slowest and the fastest, mostly at one of the ends.
    pub fn rate(&self, random: &mut fastrand::Rng) -> u64 {
        match random.u8(..5) {
            0 | 1 => SECOND,
            2 | 3 => self.fastest,
            _ => random.u64(SECOND..=self.fastest),
        }
    }
}

/// The same in the large, and odd in the small: what is published is rounded up, and the deadline may be anything below
/// what was asked for.
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
            slow: odds(),
            ..Self::default()
        }
    }
}
