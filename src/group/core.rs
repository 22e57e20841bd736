//! The state that the threads of a group share.

use std::convert::Infallible;
use std::time::Duration;

use log::Level;

use crate::election::Step;
use crate::election::candidate::failures::Failures;
use crate::election::candidate::notice::{LogRecord, Notice};
use crate::election::group::{Group, GroupEffect, GroupKey, GroupRequest, GroupSettings, MAX_MEMBERS, OwnershipEnd};
use crate::group::number;
use crate::group::shard::{Ownership, Shard};
use crate::group::status::{GroupMember, GroupStatus, GroupTransition, ShardStatus};
use crate::leadership::error::Error;
use crate::leadership::term::Term;
use crate::observe::observer::{Event, RequestOutcome};
use crate::observe::transition::{Subscribers, Transitions};
use crate::runtime::lines::{Item, Lines};
use crate::runtime::observing::Observing;
use crate::store::record::{LeaderElectionRecord, VersionedRecord};
use crate::store::{Store, StoreError, StoreOperation};
use crate::util::cancel::CancelToken;
use crate::util::clock;
use crate::util::clock::{Moment, Now};
use crate::util::config_error::ConfigError;
use crate::util::log_fields::LogFields;
use crate::util::panics::caught;
use crate::util::sync::channel;
use crate::util::sync::channel::{Receiver, Sender};
use crate::util::sync::{Arc, AtomicU64, Mutex, Ordering};

/// The maximum number of queued log lines of a group while a logger hangs.
const MAX_LINES: usize = 4 * 1024;

/// The state that the threads of a group share.
pub(super) struct GroupCore {
    pub(super) name: String,
    pub(super) settings: Arc<GroupSettings>,
    /// The time after which a refusal counts as permanent.
    pub(super) renew_deadline: Duration,
    pub(super) store: Arc<dyn Store>,
    /// Wakes the request thread.
    pub(super) woken: Receiver<()>,
    /// Disconnects at the end of the group.
    pub(super) ended: Receiver<Infallible>,
    state: Mutex<GroupState>,
    /// The moment until which ownership may rely on the watch, in nanoseconds.
    valid_until: Arc<AtomicU64>,
    lines: Arc<Lines>,
}

struct GroupState {
    group: Group,
    wake: Sender<()>,
    /// `None` after the end of the group.
    end: Option<Sender<Infallible>>,
    /// The error of the store that ended the group.
    failure: Option<StoreError>,
    /// The error of this process's settings that ended the group.
    misfit: Option<ConfigError>,
    /// The failures of requests for shards and slots, and of campaigns.
    requests: Failures,
    campaigns: Failures,
    /// `true` after the report of a slot with another lease duration.
    has_reported_duration: bool,
    participation: Option<Participation>,
    ownerships: Vec<Option<Arc<Ownership>>>,
    watch: CancelToken,
    request: CancelToken,
    subscribers: Subscribers<GroupTransition>,
    observers: Vec<Observing>,
    /// Work that must not run under the lock, because it may call code of a store or of the user.
    cancelled: Vec<CancelToken>,
    delivered: Vec<(Sender<Shard>, Shard)>,
}

/// Ends the group when the last value is dropped.
pub(super) struct GroupHandle {
    pub(super) core: Arc<GroupCore>,
}

/// A command to the member thread.
pub(super) enum MemberCommand {
    /// Campaign once for this slot.
    Campaign(usize),
    /// Release the slot.
    Release,
}

/// The part of a process that is a member, or wants to be.
struct Participation {
    shards: Sender<Shard>,
    commands: Sender<MemberCommand>,
}

impl GroupCore {
    pub(super) fn new(
        name: String,
        settings: GroupSettings,
        renew_deadline: Duration,
        store: Arc<dyn Store>,
        observers: Vec<Observing>,
    ) -> Arc<Self> {
        let settings = Arc::new(settings);
        let ((wake, woken), (end, ended)) = (channel::bounded(1), channel::bounded(0));
        let fields = LogFields::new(format!("group {name}"), &settings.identity);
        let state = GroupState {
            group: Group::new(Arc::clone(&settings)),
            wake,
            end: Some(end),
            failure: None,
            misfit: None,
            requests: Failures::new(renew_deadline),
            campaigns: Failures::new(renew_deadline),
            has_reported_duration: false,
            participation: None,
            ownerships: vec![None; settings.shards],
            watch: CancelToken::new(),
            request: CancelToken::new(),
            subscribers: Subscribers::default(),
            observers,
            cancelled: Vec::new(),
            delivered: Vec::new(),
        };
        Arc::new(Self {
            name,
            settings,
            renew_deadline,
            store,
            woken,
            ended,
            state: Mutex::new(state),
            valid_until: Arc::default(),
            lines: Arc::new(Lines::new(MAX_LINES, fields, false)),
        })
    }

    /// Returns the key of a record of the group.
    pub(super) fn key(&self, key: GroupKey) -> String {
        match key {
            GroupKey::Slot(slot) => format!("{}-member-{slot:02}", self.name),
            GroupKey::Shard(shard) => format!("{}-shard-{shard:03}", self.name),
        }
    }

    /// Returns the record that `key` names, or `None` for another name. The number may be too large for the group.
    pub(super) fn parse(&self, key: &str) -> Option<GroupKey> {
        let rest = key.strip_prefix(&self.name)?;
        let number = |prefix: &str| rest.strip_prefix(prefix)?.parse().ok();
        let parsed = match number("-member-") {
            Some(slot) => GroupKey::Slot(slot),
            None => GroupKey::Shard(number("-shard-")?),
        };
        (self.key(parsed) == key).then_some(parsed)
    }

    /// Changes the group, carries out the effects, and wakes the request thread.
    pub(super) fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut Group, Moment) -> T) -> T {
        self.with(|state| {
            let done = change(&mut state.group, clock::now());
            self.act(state);
            let _ = state.wake.try_send(());
            if state.end.is_none() {
                // The request thread has ended, and the slot must still be released once all workers have returned.
                let _ = state.group.next(Now::read());
                self.act(state);
            }
            done
        })
    }

    /// Returns the next step and the cancellation of its request.
    pub(super) fn next(self: &Arc<Self>) -> (Step<GroupRequest>, CancelToken) {
        self.with(|state| {
            loop {
                let step = state.group.next(Now::read());
                if !self.act(state) || matches!(step, Step::Send(_)) {
                    state.request = CancelToken::new();
                    let step = if state.end.is_some() { step } else { Step::Finished };
                    return (step, state.request.clone());
                }
            }
        })
    }

    /// Returns the cancellation of the next watch, or `None` after the end of the group.
    pub(super) fn watch(self: &Arc<Self>) -> Option<CancelToken> {
        self.with(|state| {
            let now = clock::now();
            state.group.watch_opened(now, now);
            state.watch = CancelToken::new();
            state.end.is_some().then(|| state.watch.clone())
        })
    }

    fn with<T>(self: &Arc<Self>, work: impl FnOnce(&mut GroupState) -> T) -> T {
        let mut state = self.state.lock();
        let done = work(&mut state);
        self.valid_until.store(state.group.valid_until().as_nanos(), Ordering::SeqCst);
        let (cancelled, delivered) = (std::mem::take(&mut state.cancelled), std::mem::take(&mut state.delivered));
        drop(state);
        // A hook of the store may panic, and the caller may be a drop.
        cancelled.iter().for_each(|cancel| _ = caught(|| cancel.cancel()));
        // If the receiver is gone, the shard is dropped here.
        delivered.into_iter().for_each(|(shards, shard)| drop(shards.send(shard)));
        done
    }

    /// Carries out the effects of the group. Returns `true` if there was an effect.
    fn act(self: &Arc<Self>, state: &mut GroupState) -> bool {
        let mut has_acted = false;
        while let Some(effect) = state.group.effect() {
            has_acted = true;
            match effect {
                GroupEffect::Started(shard, fencing_token) => self.started(state, shard, fencing_token),
                GroupEffect::Recalled(shard) => state.ownerships[shard].iter().for_each(|ownership| ownership.recall()),
                GroupEffect::Ended(shard, reason) => self.ended(state, shard, reason),
                GroupEffect::Owner(shard, Some(identity)) => {
                    state
                        .subscribers
                        .publish(&GroupTransition::NewOwner { shard: number(shard), identity: identity.into() });
                }
                GroupEffect::Owner(shard, None) => {
                    state.subscribers.publish(&GroupTransition::NoOwner { shard: number(shard) })
                }
                GroupEffect::Damaged(key, fault) => {
                    let record = self.store.describe(&self.key(key));
                    self.log(Level::Error, format!("{record} is left alone: {fault}; delete or repair the record"));
                }
                GroupEffect::Campaign(slot) => state.command(MemberCommand::Campaign(slot)),
                GroupEffect::MayLeave => state.command(MemberCommand::Release),
                GroupEffect::Spare => {
                    let slots = self.settings.max_members;
                    self.log(Level::Info, format!("waiting as a spare: all {slots} slots are taken"));
                }
                GroupEffect::Blocked(shards) => {
                    let text = format!(
                        "waiting to join again: workers of the last term still run, shards {shards:?}; restart the process \
                         if the workers hang"
                    );
                    self.log(Level::Warn, text);
                }
                GroupEffect::Reopen => state.cancelled.push(state.watch.clone()),
                GroupEffect::Idle(slot) => {
                    let identity = state.group.member(slot).unwrap_or_default();
                    let cause = "the process may be leaving or stopped";
                    self.log(Level::Warn, format!("member {slot} \"{identity}\" takes no shards: {cause}"));
                }
                GroupEffect::OtherDivision { slot, shards, max_shards } => {
                    let identity = state.group.member(slot).unwrap_or_default();
                    let limit = |limit: Option<u32>| limit.map_or_else(|| "unlimited".to_owned(), |it| it.to_string());
                    let own = number(self.settings.shards);
                    let (field, own, other) = match own == shards {
                        false => ("shards", own.to_string(), shards.to_string()),
                        true => ("max_shards", limit(self.settings.max_shards.map(number)), limit(max_shards)),
                    };
                    let rule = format!(
                        "must be {other}, as for member {slot} \"{identity}\"; stop all members to change the number"
                    );
                    state.misfit = Some(ConfigError::new(field, own, rule));
                    self.close_in(state, None);
                }
            }
        }
        has_acted
    }

    fn started(self: &Arc<Self>, state: &mut GroupState, shard: usize, fencing_token: u64) {
        let (Some(Participation { shards, .. }), Some(deadline)) = (&state.participation, state.group.deadline())
        else {
            return;
        };
        let (number, key) = (number(shard), self.key(GroupKey::Shard(shard)));
        let ownership = Ownership::new(number, key, fencing_token, Arc::clone(deadline), Arc::clone(&self.valid_until));
        let ownership = Arc::new(ownership);
        let core = Arc::clone(self);
        let on_return = move || core.change(|group, now| group.returned(now, shard));
        let delivered = Shard::new(Arc::clone(&ownership), on_return);
        state.delivered.push((shards.clone(), delivered));
        state.ownerships[shard] = Some(ownership);
        state.observe(&Event::ShardStarted { shard: number, fencing_token });
        state.subscribers.publish(&GroupTransition::ShardStarted { shard: number, fencing_token });
        let text = format!("started owning shard {shard}, fencing token {fencing_token}");
        self.line(Notice::new(Level::Info, text), Some(fencing_token));
    }

    fn ended(&self, state: &mut GroupState, shard: usize, reason: OwnershipEnd) {
        state.ownerships[shard].take().iter().for_each(|ownership| ownership.end());
        let number = number(shard);
        state.observe(&Event::ShardEnded { shard: number, reason });
        state.subscribers.publish(&GroupTransition::ShardEnded { shard: number, reason });
        let level = if reason == OwnershipEnd::Returned { Level::Info } else { Level::Warn };
        self.log(level, format!("stopped owning shard {shard}: {reason}"));
    }

    /// Makes the process leave. A hanging request must not delay the release.
    pub(super) fn leave(self: &Arc<Self>) {
        self.with(|state| state.cancelled.push(state.request.clone()));
        self.change(|group, now| group.leave(now));
    }

    /// Starts a participation.
    pub(super) fn participate(
        self: &Arc<Self>,
        shards: Sender<Shard>,
        commands: Sender<MemberCommand>,
    ) -> Result<(), Error> {
        self.end().map_or(Ok(()), Err)?;
        self.with(|state| {
            if state.participation.is_some() {
                return Err(Error::Busy);
            }
            state.participation = Some(Participation { shards, commands });
            Ok(())
        })?;
        self.change(|group, _| group.join());
        Ok(())
    }

    /// Ends the participation after its slot was released.
    pub(super) fn stop_participating(self: &Arc<Self>) {
        self.with(|state| state.participation = None);
    }

    /// Handles a won term. Returns `false` if the term must be released.
    pub(super) fn joined(self: &Arc<Self>, slot: usize, term: &Term) -> bool {
        let deadline = Arc::clone(&term.deadline);
        let has_joined = self.change(|group, now| group.joined(now, slot, term.fencing_token, deadline));
        if has_joined {
            self.log(Level::Info, format!("joined as member {slot}"));
        }
        has_joined
    }

    /// Returns the error if the group has ended.
    pub(super) fn end(&self) -> Option<Error> {
        let state = self.state.lock();
        let failure = || state.failure.clone().map_or(Error::Stopped, Error::Store);
        state.end.is_none().then(|| state.misfit.clone().map_or_else(failure, Error::Config))
    }

    /// Handles the end of the listing.
    pub(super) fn listed(self: &Arc<Self>) {
        self.change(|group, now| group.listed(now));
        self.with(|state| state.observe(&Event::WatchOpened));
    }

    /// Handles the end of the watch.
    pub(super) fn watch_ended(self: &Arc<Self>, was_listed: bool) {
        self.change(|group, _| group.watch_ended());
        if was_listed {
            self.with(|state| state.observe(&Event::WatchLost));
        }
    }

    /// Reports the outcome of a request to the observers.
    pub(super) fn answered(self: &Arc<Self>, operation: StoreOperation, latency: Duration, error: Option<&StoreError>) {
        let outcome = RequestOutcome { operation, latency, failure: error.map(StoreError::kind), is_slow_path: false };
        let failed = self.with(|state| {
            state.observe(&Event::Request(outcome));
            state.requests.answered(clock::now(), operation, error)
        });
        failed.notice.into_iter().for_each(|notice| self.line(notice, None));
        if failed.is_permanent {
            self.close(error.cloned());
        }
    }

    /// Notes the outcome of a campaign. Ends the group if the store refuses campaigns permanently.
    pub(super) fn campaigned(self: &Arc<Self>, slot: usize, error: Option<&Error>) {
        // A campaign has no single operation.
        let answered = |error| self.with(|state| state.campaigns.answered(clock::now(), StoreOperation::Create, error));
        let (level, refused) = match error {
            None => return drop(answered(None)),
            // The elector logs that the process is unfit.
            Some(Error::Unfit) => (Some(Level::Debug), None),
            Some(Error::Store(error)) => {
                let failed = answered(Some(error));
                (failed.notice.map(|notice| notice.level), failed.is_permanent.then(|| error.clone()))
            }
            Some(_) => (Some(Level::Warn), None),
        };
        if let (Some(level), Some(error)) = (level, error) {
            self.log(level, format!("cannot campaign for slot {slot}, retrying: {error}"));
        }
        if refused.is_some() {
            self.close(refused);
        }
    }

    /// Reports the slot of a process with another lease duration, once, if this process is to be a member.
    pub(super) fn compare_durations(&self, key: &str, record: &LeaderElectionRecord) {
        let own = self.settings.lease_duration.as_secs();
        let other = record.lease_duration_or(self.settings.lease_duration).as_secs();
        let mut state = self.state.lock();
        let differs = record.holder().is_some() && other != own && state.participation.is_some();
        if differs && !std::mem::replace(&mut state.has_reported_duration, true) {
            let record = self.store.describe(key);
            let durations = format!("has a lease duration of {other} s, but this process uses {own} s");
            self.log(Level::Warn, format!("{record} {durations}: use one lease duration"));
        }
    }

    /// Ends the group and all ownership.
    pub(super) fn close(self: &Arc<Self>, failure: Option<StoreError>) {
        self.with(|state| self.close_in(state, failure));
    }

    fn close_in(self: &Arc<Self>, state: &mut GroupState, failure: Option<StoreError>) {
        state.end = None;
        let _ = state.wake.try_send(());
        state.failure = state.failure.take().or(failure);
        state.group.close(clock::now());
        self.act(state);
        // The receiver is gone, so the program notices the end.
        state.participation.iter_mut().for_each(|it| it.shards = channel::bounded(0).0);
        state.observers.clear();
        state.subscribers = Subscribers::default();
        state.cancelled.extend([state.watch.clone(), state.request.clone()]);
    }

    pub(super) fn transitions(&self) -> Transitions<GroupTransition> {
        let mut state = self.state.lock();
        let owner = |shard| Some((number(shard), state.group.owner(shard)?.1.to_owned()));
        let owners = (0..self.settings.shards).filter_map(owner);
        let present: Vec<_> = owners.map(|(shard, identity)| GroupTransition::NewOwner { shard, identity }).collect();
        let is_open = state.end.is_some();
        state.subscribers.subscribe(present, is_open)
    }

    pub(super) fn status(&self) -> GroupStatus {
        let group = &self.state.lock().group;
        let member = |slot| {
            let identity = group.member(slot)?.to_owned();
            let shards = group.published_shards(slot).and_then(|shards| shards.try_into().ok());
            Some(GroupMember { slot: number(slot), identity, shards })
        };
        let shard = |index| ShardStatus {
            index: number(index),
            slot: group.owner(index).map(|(slot, _)| number(slot)),
            owner: group.owner(index).map(|(_, identity)| identity.to_owned()),
            fault: group.fault(index).map(str::to_owned),
        };
        GroupStatus {
            name: self.name.clone(),
            identity: self.settings.identity.clone(),
            own_slot: group.own_slot().map(number),
            is_current: group.is_listed(),
            members: (0..MAX_MEMBERS).filter_map(member).collect(),
            shards: (0..self.settings.shards).map(shard).collect(),
        }
    }

    /// Passes an observation of the own slot to the group.
    pub(super) fn own_slot_observed(self: &Arc<Self>, slot: usize, sent_at: Option<Moment>, seen: &VersionedRecord) {
        if seen.record.holder() == Some(&*self.settings.identity) {
            self.change(|group, now| group.own_slot_observed(now, slot, sent_at, seen));
        }
    }

    pub(super) fn log(&self, level: Level, text: String) {
        self.line(Notice::new(level, text), None);
    }

    pub(super) fn line(&self, notice: Notice, fencing_token: Option<u64>) {
        self.lines.push(Item::LogRecord(LogRecord { fencing_token, notice }));
        self.lines.log();
    }
}

impl Drop for GroupHandle {
    fn drop(&mut self) {
        self.core.close(None);
    }
}

impl GroupState {
    fn command(&self, command: MemberCommand) {
        if let Some(participation) = &self.participation {
            let _ = participation.commands.send(command);
        }
    }

    fn observe(&self, event: &Event) {
        self.observers.iter().for_each(|observer| observer.send(event));
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::time::Instant;

    use super::*;
    use crate::store::StoreErrorKind;
    use crate::store::memory::MemoryStore;
    use crate::util::sync::thread;

    /// Reports the outcome of a request or a campaign to the group.
    type OutcomeInput = fn(&Arc<GroupCore>, Option<&StoreError>);

    /// Returns a group on a store in memory, without threads.
    pub(in crate::group) fn core(renew_deadline: Duration) -> Arc<GroupCore> {
        let settings = GroupSettings {
            shards: 1_001,
            max_shards: None,
            max_members: 16,
            identity: "a".to_owned(),
            lease_duration: Duration::from_secs(15),
            retry_period: Duration::from_secs(2),
            drain_timeout: Duration::from_secs(20),
        };
        GroupCore::new("ingest".to_owned(), settings, renew_deadline, Arc::new(MemoryStore::new()), Vec::new())
    }

    #[test]
    fn only_names_of_the_group_are_keys() {
        let core = core(Duration::from_secs(10));
        for key in [GroupKey::Slot(0), GroupKey::Slot(63), GroupKey::Shard(7), GroupKey::Shard(1_000)] {
            assert_eq!(core.parse(&core.key(key)), Some(key));
        }
        for key in ["ingest-member-1", "ingest-shard-07", "ingest-shard-+07", "other-shard-007"] {
            assert_eq!(core.parse(key), None, "{key}");
        }
    }

    #[test]
    fn only_a_lasting_refusal_without_success_ends_a_group() {
        let renew_deadline = Duration::from_millis(30);
        let refused = StoreError::new(StoreErrorKind::Forbidden, "made up");
        let answers: [OutcomeInput; 4] = [
            |core, error| core.answered(StoreOperation::Get, Duration::ZERO, error),
            |core, error| core.answered(StoreOperation::Create, Duration::ZERO, error),
            |core, error| core.answered(StoreOperation::Update, Duration::ZERO, error),
            |core, error| core.campaigned(0, error.cloned().map(Error::Store).as_ref()),
        ];
        for (case, answer) in answers.into_iter().enumerate() {
            for has_succeeded in [false, true] {
                let core = core(renew_deadline);
                if has_succeeded {
                    answer(&core, None);
                }
                // The store refuses for a moment, again much later, and then for good.
                for _ in 0..2 {
                    answer(&core, Some(&refused));
                    assert!(core.end().is_none(), "{case}, {has_succeeded}");
                    thread::sleep(renew_deadline * 2);
                }
                let limit = if has_succeeded { renew_deadline * 4 } else { Duration::from_secs(30) };
                let began_at = Instant::now();
                while core.end().is_none() && began_at.elapsed() < limit {
                    answer(&core, Some(&refused));
                    thread::sleep(renew_deadline / 20);
                }
                assert_eq!(core.end().is_some(), !has_succeeded, "{case}");
            }
        }
    }

    #[test]
    fn leaving_cancels_the_request_under_way() {
        let leave: fn(&Arc<GroupCore>) = |core| core.leave();
        for (end, is_closed) in [(leave, false), (|core| core.close(None), true)] {
            let core = core(Duration::from_secs(10));
            let watch = core.watch().unwrap();
            let (_, request) = core.next();
            end(&core);
            assert_eq!((request.is_cancelled(), watch.is_cancelled()), (true, is_closed));
        }
    }
}
