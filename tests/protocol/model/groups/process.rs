//! The processes: real groups, by number. The effect of each input on each group is computed once.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use foldhash::quality::FixedState;
use leasehold::StopReason;
use leasehold::election::Step;
use leasehold::election::deadline::Deadline;
use leasehold::election::group::{Group, GroupEffect, GroupKey, GroupResponse, GroupSettings, MAX_MEMBERS};
use leasehold::store::{StoreError, StoreErrorKind};
use leasehold::util::clock::Moment;

use super::records::{Call, Holder, Reply, Stored};
use super::scope::GroupScope;
use crate::clock::Clock;
use crate::normal;

pub const SHARDS: usize = 2;
const LEASE: Duration = Duration::from_secs(3);
const RENEW_DEADLINE: Duration = Duration::from_secs(2);
const RETRY: Duration = Duration::from_millis(800);
const DRAIN: Duration = Duration::from_millis(1_600);
const HOUR: Duration = Duration::from_secs(3_600);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProcessId(u32);

/// The worker of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Work {
    #[default]
    None,
    Runs,
    Recalled,
    /// The ownership has ended, but the worker still runs.
    Ended,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Input {
    /// Only time has passed, and the process has not run.
    Tick,
    Wake,
    Opened(u8),
    Changed(GroupKey, Stored),
    Listed,
    Cut,
    Answer(Call, Reply),
    /// The request has failed. The server of a read may ask for a long pause.
    Failed(bool),
    Returned(usize),
    Leave,
    /// The elector's campaign at this tick won the slot.
    Joined(usize, Stored, u8),
    NotJoined(usize),
    /// The elector's renewal at this tick succeeded.
    Renewed(usize, Stored, u8),
    /// The elector has read its own record.
    Observed(usize, Stored),
    /// The elector has noticed that its slot is lost.
    Lost,
}

/// The result of an input.
#[derive(Debug, Clone, Copy)]
pub struct Outcome {
    pub after: ProcessId,
    pub call: Option<Call>,
    pub campaign: Option<usize>,
    /// The fencing tokens of the ownerships that started, or zero.
    pub started: [u8; SHARDS],
    pub left: bool,
    pub reopen: bool,
}

/// The facts that the checks need.
#[derive(Debug, Clone, Copy)]
pub struct Facts {
    pub work: [Work; SHARDS],
    /// The first tick at which the process owns nothing without further inputs.
    pub valid_until: u64,
    /// The first tick at which the term of the slot is no longer valid without a renewal.
    pub term_until: u64,
}

#[derive(Clone)]
struct Process {
    group: Group,
    clock: Clock,
    lease_duration: Duration,
    request: u64,
    /// The tick of the last failed request.
    failed_at: u8,
    /// The slot of the last failed campaign, and its tick.
    not_joined: (usize, u8),
    /// The end of the slot's term, or `None` without a valid term.
    until: Option<Moment>,
    work: [Work; SHARDS],
    /// The times at which the ownership ended, although the workers still run.
    ended_at: [Option<Moment>; SHARDS],
}

pub struct Processes {
    list: Vec<(Process, Facts)>,
    numbers: HashMap<u128, ProcessId, FixedState>,
    outcomes: HashMap<(ProcessId, u8, Input), Result<Outcome, &'static str>, FixedState>,
    /// The events that have happened.
    pub seen: BTreeSet<String>,
}

impl Processes {
    pub fn new() -> Self {
        let (numbers, outcomes) = (HashMap::default(), HashMap::default());
        Self { list: Vec::new(), numbers, outcomes, seen: Default::default() }
    }

    pub fn start(&mut self, name: u8, clock: Clock, scope: &GroupScope, lease: Duration, tick: u8) -> ProcessId {
        let mut group = Group::new(GroupSettings {
            shards: scope.shards,
            max_shards: None,
            max_members: scope.slots,
            identity: format!("p{name}"),
            lease_duration: lease,
            retry_period: RETRY,
            drain_timeout: DRAIN,
        });
        group.join();
        let process = Process {
            group,
            clock,
            lease_duration: lease,
            request: 0,
            failed_at: 0,
            not_joined: (0, 0),
            until: None,
            work: Default::default(),
            ended_at: [None; SHARDS],
        };
        self.number(process, name, tick)
    }

    pub fn facts(&self, id: ProcessId) -> Facts {
        self.list[id.0 as usize].1
    }

    pub fn count(&self) -> usize {
        self.list.len()
    }

    pub fn take(&mut self, id: ProcessId, name: u8, tick: u8, input: Input) -> Result<Outcome, &'static str> {
        if let Some(outcome) = self.outcomes.get(&(id, tick, input)) {
            return *outcome;
        }
        let mut process = self.list[id.0 as usize].0.clone();
        let outcome = process.take(tick, input, &mut self.seen);
        let outcome = outcome.map(|outcome| Outcome { after: self.number(process, name, tick), ..outcome });
        self.outcomes.insert((id, tick, input), outcome);
        outcome
    }

    fn number(&mut self, process: Process, name: u8, tick: u8) -> ProcessId {
        let Process { group, clock, until, work, .. } = &process;
        let until = until.filter(|until| *until > clock.local(tick));
        let over = until.map_or(0, |until| clock.tick_of(until.min(group.valid_until()).as_nanos()));
        let text = format!(
            "{name} {until:?} {work:?} {}",
            normalise(&group.fingerprint(), *clock, tick, group.own_slot().is_some())
        );
        let term_until = until.map_or(0, |until| clock.tick_of(until.as_nanos()));
        let facts = Facts { work: *work, valid_until: over, term_until };
        let next = ProcessId(self.list.len() as u32);
        *self.numbers.entry(normal::fingerprint(&text)).or_insert_with(|| {
            self.list.push((process, facts));
            next
        })
    }
}

impl Process {
    fn take(&mut self, tick: u8, input: Input, seen: &mut BTreeSet<String>) -> Result<Outcome, &'static str> {
        let nothing = ProcessId(0);
        let started = [0; SHARDS];
        let mut outcome = Outcome { after: nothing, call: None, campaign: None, started, left: false, reopen: false };
        let now = self.clock.local(tick);
        let sent_at = |tick: u8| self.clock.local(tick);
        // Copies of a group must not share the deadline.
        let deadline = Arc::new(Deadline::new(self.until.unwrap_or_default()));
        self.group.set_deadline(Arc::clone(&deadline));
        match input {
            Input::Tick => return Ok(outcome),
            Input::Wake => {}
            Input::Opened(sent) => self.group.watch_opened(now, sent_at(sent)),
            Input::Changed(key, stored) => {
                self.group.watched(now, key, stored.version.into(), stored.seen(key));
            }
            Input::Listed => self.group.listed(now),
            Input::Cut => self.group.watch_ended(),
            Input::Answer(call, reply) => {
                let seen = reply.stored.seen(call.key);
                let response = match call.write {
                    Some(_) if reply.is_conflict => failure(StoreErrorKind::Conflict),
                    _ => Ok(seen),
                };
                self.group.on_response(now, self.request, response);
            }
            Input::Failed(asks_for_a_pause) => {
                let kind = if asks_for_a_pause { StoreErrorKind::Unavailable } else { StoreErrorKind::Timeout };
                let error = StoreError::new(kind, "a simulated failure");
                let error = error.with_retry_after(asks_for_a_pause.then_some(HOUR));
                self.failed_at = tick;
                self.group.on_response(now, self.request, Err(error));
            }
            Input::Returned(shard) => {
                (self.work[shard], self.ended_at[shard]) = (Work::None, None);
                self.group.returned(now, shard);
            }
            Input::Leave => self.group.leave(now),
            Input::Joined(slot, stored, sent) => {
                let until = sent_at(sent) + self.lease_duration * 2 / 3;
                observe(&mut self.group, now, slot, stored, Some(sent_at(sent)));
                self.until = Some(until);
                if !self.group.joined(now, slot, stored.version.into(), Arc::new(Deadline::new(until))) {
                    return Err("a won term has no name");
                }
            }
            Input::NotJoined(slot) => {
                self.not_joined = (slot, tick);
                self.group.not_joined(now, slot..slot + 1, RETRY);
            }
            Input::Renewed(slot, stored, sent) => {
                let until = sent_at(sent) + self.lease_duration * 2 / 3;
                if deadline.extend(now, until) {
                    self.until = self.until.max(Some(until));
                }
                observe(&mut self.group, now, slot, stored, Some(sent_at(sent)));
            }
            Input::Observed(slot, stored) => observe(&mut self.group, now, slot, stored, None),
            Input::Lost => {
                deadline.end(now, StopReason::Expired);
                self.until = None;
            }
        }
        loop {
            let step = self.group.next(self.clock.now(tick));
            let mut acted = false;
            while let Some(effect) = self.group.effect() {
                acted = true;
                self.carry_out(effect, now, &mut outcome, seen)?;
            }
            if let Step::Send(request) = step {
                if self.failed_at == tick {
                    return Err("a request is sent in the pause of a failure");
                }
                self.request = request.id;
                let call = Call::of(request.key, &request.operation);
                if let Call { key: GroupKey::Shard(shard), write: Some((1.., content)) } = call
                    && content.holder == Holder::Nobody
                {
                    self.may_give_up(shard..shard + 1, now)?;
                }
                outcome.call = Some(call);
            } else if !acted {
                return Ok(outcome);
            }
        }
    }

    fn carry_out(
        &mut self,
        effect: GroupEffect,
        now: Moment,
        outcome: &mut Outcome,
        seen: &mut BTreeSet<String>,
    ) -> Result<(), &'static str> {
        let name = match &effect {
            GroupEffect::Ended(_, reason) => format!("{reason:?}"),
            effect => format!("{effect:?}").split('(').next().unwrap_or_default().to_owned(),
        };
        seen.insert(name);
        match effect {
            GroupEffect::Started(shard, token) => {
                if self.work[shard] != Work::None {
                    return Err("an ownership starts before the last worker has returned");
                }
                self.work[shard] = Work::Runs;
                outcome.started[shard] = token as u8;
            }
            GroupEffect::Recalled(shard) => self.work[shard] = Work::Recalled,
            GroupEffect::Ended(shard, _) if self.work[shard] != Work::None => {
                self.work[shard] = Work::Ended;
                self.ended_at[shard].get_or_insert(now);
            }
            GroupEffect::Campaign(slot) => {
                let has_members = (0..MAX_MEMBERS).any(|slot| self.group.member(slot).is_some());
                if has_members && self.work != [Work::None; SHARDS] {
                    return Err("a process campaigns although workers of its last term run");
                }
                if self.not_joined == (slot, self.clock.tick_of(now.as_nanos()) as u8) {
                    return Err("a campaign starts in the pause of a failed one");
                }
                outcome.campaign = Some(slot);
            }
            GroupEffect::MayLeave => {
                self.may_give_up(0..SHARDS, now)?;
                self.until = None;
                self.group.left(now);
                outcome.left = true;
            }
            GroupEffect::Reopen => outcome.reopen = true,
            GroupEffect::Damaged(..) => return Err("a record is damaged"),
            _ => {}
        }
        Ok(())
    }

    /// Returns an error if a worker of the shards runs and has not hung for a lease duration.
    fn may_give_up(&self, mut shards: Range<usize>, now: Moment) -> Result<(), &'static str> {
        let is_over = |at: Option<Moment>| at.is_some_and(|at| now >= at + self.lease_duration);
        match shards.any(|shard| self.work[shard] != Work::None && !is_over(self.ended_at[shard])) {
            true => Err("a shard is given up while its worker runs"),
            false => Ok(()),
        }
    }
}

fn observe(group: &mut Group, now: Moment, slot: usize, stored: Stored, sent_at: Option<Moment>) {
    group.own_slot_observed(now, slot, sent_at, &stored.seen(GroupKey::Slot(slot)).expect("a record"));
}

fn failure(kind: StoreErrorKind) -> GroupResponse {
    Err(StoreError::new(kind, "a simulated failure"))
}

/// The names of moments, and the time after which the group no longer distinguishes earlier moments.
const APPOINTMENTS: [(&str, Duration); 16] = [
    ("retry_at", Duration::ZERO),
    ("idle", Duration::ZERO),
    ("campaign_at", Duration::ZERO),
    ("settled_at", Duration::ZERO),
    ("paused_until", Duration::ZERO),
    ("took_at", RETRY),
    ("offer", RETRY),
    ("leaving_since", RETRY),
    ("wanted_at", DRAIN),
    ("uid_since", LEASE),
    ("deserted_since", LEASE),
    ("ended_at", LEASE),
    ("heard_at", LEASE),
    ("as_of", RENEW_DEADLINE),
    ("joined_at", Duration::from_secs(1)),
    ("opened_at", LEASE),
];

/// Rewrites the text of a group as of `tick`: moments become ticks, and watches become current or earlier.
///
/// A member with a complete listing uses neither `opened_at` nor `heard_at`.
fn normalise(text: &str, clock: Clock, tick: u8, is_member: bool) -> String {
    let now = clock.local(tick);
    let is_listed = text.contains("is_listed: true");
    let watch = text.split_once("View { number: ").map_or("", |(_, rest)| &rest[..rest.find(',').unwrap_or(0)]);
    let watch = format!("watch: {watch}");
    let mut normal = String::with_capacity(text.len() / 2);
    let mut rest = text;
    while let Some(at) = rest.find("Moment(") {
        let (before, after) = rest.split_at(at + 7);
        let end = after.find(')').unwrap_or(after.len());
        let moment = Moment::from_nanos(after[..end].parse().expect("a number"));
        let field = before.rsplit_once(": ").map_or("", |(field, _)| field);
        let field = field.rsplit_once([' ', '{']).map_or(field, |(_, field)| field);
        let horizon = APPOINTMENTS.iter().find(|(name, _)| *name == field).map(|(_, horizon)| *horizon);
        let is_unused = is_listed && (field == "opened_at" || field == "heard_at" && is_member);
        for part in before.split_inclusive(',') {
            let is_watch = part.starts_with(" watch: ");
            normal.push_str(if is_watch && !part.ends_with(&format!("{watch},")) { "watch: older" } else { part });
        }
        match horizon {
            Some(horizon) if is_unused || moment + horizon <= now => normal.push_str("past"),
            _ if moment == Moment::default() => normal.push_str("never"),
            _ => normal.push_str(&clock.tick_of(moment.as_nanos()).to_string()),
        }
        rest = &after[end..];
    }
    normal.push_str(rest);
    normal.replace(&watch, "watch: current").replace(&watch.replace("watch", "number"), "")
}
