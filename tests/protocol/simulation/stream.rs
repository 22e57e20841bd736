//! Watches: the thread that keeps a watch open, the server, and the network between them.

use std::time::Duration;

use leasehold::election::Change;
use leasehold::election::candidate::watch_plan::WatchPlan;
use leasehold::store::{Cursor, StoreError, StoreErrorKind};

use crate::clock::{MILLI, Nanos, SECOND};
use crate::network::Cut;
use crate::node::{Command, Record};
use crate::plan::{Odds, Violation};
use crate::queue::What;
use crate::server::Server;
use crate::trace::trace;
use crate::world::World;

/// The time limit for opening a watch, which equals that of a store of Leases.
const OPENING: Nanos = 10 * SECOND;

/// The longest pause between watches that fail.
const LONGEST_PAUSE: Nanos = 60 * SECOND;

/// The errors of a refused watch. A restarting server also returns errors that look permanent.
const REFUSALS: [StoreErrorKind; 5] = [
    StoreErrorKind::Unavailable,
    StoreErrorKind::Unavailable,
    StoreErrorKind::Forbidden,
    StoreErrorKind::Unauthorized,
    StoreErrorKind::NotFound,
];

/// An event of a watch, as its thread receives it.
pub enum Turn {
    Begin,
    Opened {
        from_scratch: bool,
    },
    Tell(Change),
    /// No other change will arrive up to this version.
    Bookmark(u64),
    Ended(Option<StoreErrorKind>),
}

/// The thread that keeps a watch open, with one stream after another.
pub struct Watcher {
    /// The number of the current stream, which differs from all earlier streams.
    serial: u64,
    /// The number of an abandoned stream whose thread has not noticed the end yet.
    ///
    /// Until then, the node still receives the events of this stream.
    ending: Option<u64>,
    state: State,
    /// `true` if the server permits the node to watch.
    right: bool,
    /// The plan for opening watches, which is the runtime's real code.
    plan: WatchPlan,
    /// `true` if a stream has opened.
    has_opened: bool,
    /// `true` if the stream was given up, so that its remaining events are lost.
    ///
    /// The next stream must therefore begin from scratch.
    is_given_up: bool,
    /// The version at which the current stream began or which it has reached, if it is known.
    after: Option<u64>,
    openings: Openings,
}

/// The number of useless watches in a row, which delivered nothing or ended too soon.
#[derive(Default)]
struct Openings {
    count: u32,
    /// The time at which the first of these watches was requested.
    since: Nanos,
    last: Nanos,
    told: bool,
}

impl Openings {
    /// Returns `true` if the node may request another watch now.
    ///
    /// The second watch may follow the first at once. The pauses after the second watch double each time.
    fn allow(&mut self, truth: Nanos, retry: Nanos) -> bool {
        if self.count == 0 {
            self.since = truth;
        }
        let pauses =
            (1..self.count).map(|failures| (retry << (failures - 1).min(10)).clamp(retry, LONGEST_PAUSE.max(retry)));
        let allowed = truth - self.since >= pauses.sum();
        *self = Self { count: self.count + 1, since: self.since, last: truth, told: false };
        allowed
    }

    /// Resets the count if the last watch was useful and lasted for half a retry period.
    ///
    /// The limit is only half a period, because the node's clock may be fast.
    fn ended(&mut self, truth: Nanos, in_good_order: bool, retry: Nanos) {
        if (self.told || in_good_order) && truth - self.last > retry / 2 {
            self.count = 0;
        }
    }
}

enum State {
    Pausing,
    /// The thread has requested a watch, which is not open yet.
    Asking,
    Streaming(Stream),
}

/// The state of a stream on the server.
struct Stream {
    /// The index of the server that delivers the stream.
    server: usize,
    /// The number of the store's changes that the stream has delivered or skipped.
    changes: usize,
    /// The version after which the stream delivers changes.
    ///
    /// The store may not have reached this version yet.
    from: u64,
    mood: Mood,
    /// `true` if the stream delivers the history from before a restore.
    of_former: bool,
    /// `true` if the stream has delivered a record that the current history also contains.
    ///
    /// A duplicated write or a second restore can put the same record at the same version in both histories. The node
    /// then cannot distinguish the two histories. The record by which the node found out about the restore does not
    /// count.
    agrees: bool,
    opened: bool,
    /// The time at which the latest event arrives.
    ///
    /// Later events do not arrive sooner.
    last: Nanos,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Prompt,
    Late,
    /// The connection is dead, but neither end has noticed.
    Stalled,
}

impl Watcher {
    pub fn new(right: bool, [retry_period, lease_duration]: [Duration; 2], seed: u64) -> Self {
        let plan = WatchPlan::new(retry_period, lease_duration, seed);
        Self {
            serial: 0,
            ending: None,
            state: State::Pausing,
            right,
            plan,
            has_opened: false,
            is_given_up: false,
            after: None,
            openings: Openings::default(),
        }
    }

    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Returns `true` if the node still receives this event of the stream with this number.
    pub fn hears(&self, serial: u64, turn: &Turn) -> bool {
        serial == self.serial || (self.ending == Some(serial) && !matches!(turn, Turn::Begin | Turn::Ended(_)))
    }

    /// Notes how far the stream has come, as a store does that adds a cursor to each event.
    fn tells(&mut self, version: u64) {
        self.after = self.after.max(Some(version));
        self.plan.delivered();
        self.plan.bookmark(Cursor::new(self.after.unwrap_or_default()));
        self.openings.told = true;
    }
}

impl Record {
    /// Returns `true` if the stream delivers each change promptly.
    pub fn hears_promptly(&self, truth: Nanos, version: u64) -> bool {
        match self.watcher.as_ref().map(|watcher| &watcher.state) {
            Some(State::Streaming(stream)) => {
                let is_good = stream.mood == Mood::Prompt && stream.opened && !stream.of_former;
                is_good && stream.from <= version && stream.last <= truth
            }
            _ => false,
        }
    }
}

impl World {
    pub fn watch(&mut self, index: usize, serial: u64, turn: Turn) -> Result<(), Violation> {
        let truth = self.truth;
        let node = &mut self.nodes[index];
        let record = &mut node.record;
        let Some(watcher) = record.watcher.as_mut().filter(|watcher| watcher.hears(serial, &turn)) else {
            return Ok(());
        };
        match turn {
            Turn::Begin => self.begin_watch(index),
            Turn::Opened { from_scratch } => {
                watcher.plan.opened();
                watcher.has_opened = true;
                if let State::Streaming(stream) = &mut watcher.state {
                    stream.opened = true;
                }
                self.tell(index, Command::WatchOpened { from_scratch })
            }
            Turn::Bookmark(version) => {
                watcher.tells(version);
                Ok(())
            }
            Turn::Tell(change) => {
                let version = match &change {
                    Change::Written(observed) => observed.version,
                    Change::Deleted { version } => *version,
                };
                watcher.tells(version);
                self.count.events += 1;
                let received_at = node.clock.local(truth);
                let Record { watcher, restored, object, .. } = record;
                let former_since = match watcher {
                    Some(Watcher { state: State::Streaming(stream), .. }) if stream.of_former => {
                        let since = self.servers[stream.server].former.as_ref().map(|former| former.since);
                        stream.agrees |= match &change {
                            Change::Written(observed) if restored.as_ref() != Some(&observed.record) => {
                                since.is_some_and(|since| self.stores[*object].has_had(observed, since))
                            }
                            _ => false,
                        };
                        since.filter(|_| !stream.agrees)
                    }
                    _ => None,
                };
                self.tell(index, Command::Heard { received_at, change, former_since })
            }
            Turn::Ended(kind) => {
                watcher.serial += 1;
                watcher.ending = None;
                watcher.state = State::Pausing;
                let ended = kind.map_or(Ok(()), |kind| Err(StoreError::new(kind, "made up")));
                let ended = watcher.plan.ended(node.clock.local(truth), ended.as_ref().copied());
                let pause = ended.pause.expect("the store can watch");
                let longest = Duration::from_nanos(LONGEST_PAUSE).max(node.settings.retry_period).mul_f64(1.2);
                if watcher.has_opened && pause > longest {
                    return Err(format!("{} pauses its watch for {pause:?} after {kind:?}", node.identity).into());
                }
                if watcher.is_given_up {
                    watcher.plan.restart();
                }
                watcher.openings.ended(truth, kind.is_none(), node.settings.retry_period.as_nanos() as Nanos);
                let serial = watcher.serial;
                let to = (index, node.incarnation);
                trace!(self, "{}'s watch ends: {kind:?}, pause {pause:?}", node.identity);
                self.queue.push(truth + pause.as_nanos() as Nanos, Some(to), What::Watch(serial, Turn::Begin));
                self.tell(index, Command::WatchLost)
            }
        }
    }

    /// Requests a stream.
    ///
    /// The outcome is decided here. The node's thread learns of it by the events that this function queues.
    fn begin_watch(&mut self, index: usize) -> Result<(), Violation> {
        let truth = self.truth;
        let object = self.nodes[index].record.object;
        let odds = self.plan.odds.clone();
        let random = &mut self.random;
        let mut happens = |odds: u32| odds > 0 && random.u32(..1000) < odds;
        let (refused, stalled, late, stale) = (
            happens(odds.watch_refused),
            happens(odds.watch_stalled),
            happens(odds.watch_late),
            happens(odds.watch_stale),
        );
        let delay = random.u64(MILLI..30 * MILLI);
        let back = if stale { random.usize(1..8) } else { 0 };
        let of = random.usize(..self.servers.len());
        let server = &self.servers[of];
        let seen = self.stores[object].changes_seen(server.lag);
        let node = &mut self.nodes[index];
        let (to, cut) = ((index, node.incarnation), node.cut(truth));
        let Some(watcher) = &mut node.record.watcher else { return Ok(()) };
        watcher.after = watcher.plan.begin(node.clock.local(truth)).and_then(|cursor| cursor.get::<u64>().copied());
        if !watcher.openings.allow(truth, node.settings.retry_period.as_nanos() as Nanos) {
            return Err(format!("{} asks for its watch {} too soon", node.identity, watcher.openings.count).into());
        }
        if std::mem::take(&mut watcher.is_given_up) && watcher.after.is_some() {
            return Err(format!("{} goes on with a watch that it gave up", node.identity).into());
        }
        watcher.state = State::Asking;
        let serial = watcher.serial;
        // A stream cannot begin with changes that the server has not seen yet.
        let begins = match (watcher.after, &server.former) {
            (Some(after), Some(former)) => former.changes_until(after),
            (Some(after), None) => self.stores[object].changes_until(after).map(|changes| changes.min(seen)),
            (None, Some(former)) => Some(former.changes.len()),
            (None, None) => Some(seen),
        };
        let failure = match (cut, begins) {
            (Some(Cut::Refused), _) => Some((0, StoreErrorKind::Unavailable)),
            (Some(_), _) => Some((OPENING, StoreErrorKind::Timeout)),
            _ if self.plan.outage(object, truth).is_some() => Some((delay, StoreErrorKind::Unavailable)),
            _ if !watcher.right => Some((delay, StoreErrorKind::Forbidden)),
            _ if refused => Some((delay, REFUSALS[truth as usize % REFUSALS.len()])),
            (_, None) => Some((delay, StoreErrorKind::Expired)),
            _ => None,
        };
        if let Some((delay, kind)) = failure {
            self.count.fault("watches refused");
            self.queue.push(truth + delay, Some(to), What::Watch(serial, Turn::Ended(Some(kind))));
            return Ok(());
        }
        let from_scratch = watcher.after.is_none();
        let changes = begins.unwrap_or_default().saturating_sub(back);
        let from = if stale { 0 } else { watcher.after.unwrap_or_default() };
        let mood = match (stalled, late) {
            (true, _) => Mood::Stalled,
            (_, true) => Mood::Late,
            _ => Mood::Prompt,
        };
        for (happened, kind) in [(stalled, "watches stalled"), (late, "watches late"), (stale, "watches stale")] {
            if happened {
                self.count.fault(kind);
            }
        }
        trace!(self, "{}'s watch begins after {:?}: {mood:?}, {back} changes back", node.identity, watcher.after);
        let of_former = server.former.is_some();
        let last = truth + delay;
        watcher.state =
            State::Streaming(Stream { server: of, changes, from, mood, of_former, agrees: false, opened: false, last });
        self.queue.push(truth + delay, Some(to), What::Watch(serial, Turn::Opened { from_scratch }));
        let standing = match &self.servers[of].former {
            Some(former) => former.object(),
            None => self.stores[object].object_after(changes),
        };
        if from_scratch && let Some(standing) = standing {
            // The server delivers the current object as a separate event.
            let event = Change::Written(standing.clone());
            self.stream(index, truth, Turn::Tell(event));
        }
        match &self.servers[of].former {
            // A server that was not restarted delivers its remaining changes now, and never any other changes.
            Some(former) if !from_scratch => {
                let events: Vec<_> = former.changes[changes..]
                    .iter()
                    .filter(|change| change.version > from)
                    .map(|change| change.event())
                    .collect();
                events.into_iter().for_each(|event| self.stream(index, truth, Turn::Tell(event)));
            }
            Some(_) => {}
            None => self.pump(index),
        }
        Ok(())
    }

    /// Gives up the current stream, so that the next stream begins from scratch.
    pub fn restart_watch(&mut self, index: usize) {
        let after = self.random.u64(..5 * MILLI);
        let node = &mut self.nodes[index];
        let to = (index, node.incarnation);
        let Some(watcher) = &mut node.record.watcher else { return };
        watcher.is_given_up = true;
        if let State::Pausing = watcher.state {
            return watcher.plan.restart();
        }
        watcher.ending = Some(watcher.serial);
        watcher.serial += 1;
        watcher.state = State::Asking;
        let turn = Turn::Ended(Some(StoreErrorKind::Interrupted));
        self.queue.push(self.truth + after, Some(to), What::Watch(watcher.serial, turn));
    }

    /// Sends the new changes of each store on all of its streams.
    pub fn pump_all(&mut self) {
        for object in 0..self.stores.len() {
            let state = (self.stores[object].version(), self.stores[object].changes.len());
            if std::mem::replace(&mut self.pumped[object], state) != state {
                self.streams_of(object).into_iter().for_each(|index| self.pump(index));
            }
        }
    }

    /// Returns each node whose record is in this object.
    fn streams_of(&self, object: usize) -> Vec<usize> {
        (0..self.nodes.len()).filter(|index| self.nodes[*index].record.object == object).collect()
    }

    fn pump(&mut self, index: usize) {
        let Record { watcher, object, .. } = &mut self.nodes[index].record;
        let Some(Watcher { state: State::Streaming(stream), .. }) = watcher else { return };
        let Server { lag, former: None } = self.servers[stream.server] else { return };
        let (object, from) = (*object, stream.from);
        let changes = self.stores[object].changes.len();
        let told = std::mem::replace(&mut stream.changes, changes).min(changes);
        for change in told..changes {
            let change = &self.stores[object].changes[change];
            if change.version > from {
                let (seen_at, event) = (change.at + lag, change.event());
                self.stream(index, seen_at, Turn::Tell(event));
            }
        }
    }

    /// Puts an event on the node's stream, after all earlier events.
    ///
    /// The server learns of the event at `seen_at`.
    fn stream(&mut self, index: usize, seen_at: Nanos, turn: Turn) {
        let node = &mut self.nodes[index];
        let to = (index, node.incarnation);
        let cut = node.cut(self.truth);
        let lease = node.settings.lease_duration.as_nanos() as Nanos;
        let watcher = &mut node.record.watcher;
        let Some(Watcher { state: State::Streaming(stream), serial, .. }) = watcher else { return };
        match cut {
            Some(Cut::Requests | Cut::Answers) => stream.mood = Mood::Stalled,
            _ if !node.alive => return,
            _ => {}
        }
        let delay = match stream.mood {
            Mood::Stalled => return,
            Mood::Late => self.random.u64(..2 * lease),
            Mood::Prompt => self.random.u64(..30 * MILLI),
        };
        // An event that is under way when the faults end arrives soon after.
        let last = (self.plan.heal_at + SECOND).max(self.truth + 30 * MILLI);
        stream.last = (self.truth.max(seen_at) + delay).min(last).max(stream.last);
        self.queue.push(stream.last, Some(to), What::Watch(*serial, turn));
    }

    // ---- faults of streams ----

    /// Disturbs a node's stream in a random way.
    pub fn disturb_watch(&mut self, index: usize) {
        let roll = self.random.u8(..8);
        let node = &mut self.nodes[index];
        let Some(Watcher { state: State::Streaming(stream), .. }) = &mut node.record.watcher else { return };
        trace!(self, "{}'s watch is disturbed: {roll}", node.identity);
        let (kind, end) = match roll {
            0 | 1 => {
                stream.mood = Mood::Stalled;
                return self.count.fault("watches stalled");
            }
            2 | 3 => {
                stream.mood = Mood::Late;
                return self.count.fault("watches late");
            }
            4 | 5 => ("watches ended", None),
            6 => ("watches broken", Some(StoreErrorKind::Unavailable)),
            _ => ("watches expired", Some(StoreErrorKind::Expired)),
        };
        self.count.fault(kind);
        self.end_watch(index, end);
    }

    /// Ends the stream on the side of the server.
    pub fn end_watch(&mut self, index: usize, kind: Option<StoreErrorKind>) {
        self.stream(index, self.truth, Turn::Ended(kind));
        let watcher = &mut self.nodes[index].record.watcher;
        if let Some(Watcher { state: State::Streaming(stream), .. }) = watcher {
            // No event arrives after the end.
            stream.mood = Mood::Stalled;
        }
    }

    /// Ends each watch of an object.
    pub fn cut_watches(&mut self, object: usize) {
        for index in self.streams_of(object) {
            self.end_watch(index, Some(StoreErrorKind::Unavailable));
        }
    }

    pub fn bookmark(&mut self) {
        self.pump_all();
        let version = self.stores[0].version();
        for index in self.streams_of(0) {
            let watcher = self.nodes[index].record.watcher.as_ref();
            let behind = match watcher.map(|watcher| &watcher.state) {
                Some(State::Streaming(stream)) => stream.from >= version || stream.of_former,
                _ => true,
            };
            if !behind {
                self.stream(index, self.truth, Turn::Bookmark(version));
            }
        }
    }

    /// Makes late streams prompt again.
    ///
    /// A dead stream stays dead until its node notices.
    pub fn heal_watches(&mut self) {
        for record in self.nodes.iter_mut().map(|node| &mut node.record) {
            if let Some(Watcher { state: State::Streaming(stream), .. }) = &mut record.watcher
                && stream.mood == Mood::Late
            {
                stream.mood = Mood::Prompt;
            }
        }
    }
}

impl Odds {
    /// Draws the probabilities of faults at the start of a stream.
    pub fn of_watches(mut self, random: &mut fastrand::Rng) -> Self {
        let mut odds = || [0, 20, 150, 400][random.usize(..4)];
        self.watch_refused = odds();
        self.watch_stalled = odds();
        self.watch_late = odds();
        self.watch_stale = odds();
        self
    }
}
