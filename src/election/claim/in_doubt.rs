//! The writes whose outcome is not certain yet: the rule 'In-doubt writes'.

use std::fmt;
use std::time::Duration;

use crate::election::messages::Operation;
use crate::election::settings::Settings;
use crate::election::timer::Timer;
use crate::store::StoreErrorKind;
use crate::store::record::{LeaderElectionRecord, VersionedRecord};
use crate::util::clock::Moment;
use crate::util::sync::Arc;

/// The largest number of remembered writes.
///
/// The limit is reached only if many writes in a row get no answer.
pub(crate) const MAX_WRITES: usize = 64;

/// The writes of this candidate that the store may have applied or may apply later.
pub(super) struct InDoubt {
    /// The writes in the order in which they were sent.
    writes: Vec<InDoubtWrite>,
    settings: Arc<Settings>,
}

/// A write that the candidate remembers.
#[derive(Debug)]
struct InDoubtWrite {
    id: u64,
    base: Base,
    record: LeaderElectionRecord,
    sent_at: Moment,
    /// The number of the acquisition whose term the write starts or extends. `None` for a release.
    acquisition: Option<u64>,
    outcome: Outcome,
}

/// The state of the record that a write replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    /// The write is a create.
    Absent,
    Version(u64),
}

/// The known outcome of a write.
///
/// A settled update is forgotten, but a settled create is remembered. A create has no base version, so the store may
/// apply a delayed copy of the create whenever the record does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    InDoubt,
    /// A read that was sent a renew deadline after the create found no record.
    Overdue,
    /// A later answer showed another object.
    Overtaken,
    /// The created record was observed.
    Landed,
}

/// The writes that may start or extend a term when their record is observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Adopts {
    Nothing,
    /// The writes of the current attempt of a campaign, if there is one.
    Attempt(Option<u64>),
    /// The writes of the term, or no write if the term is lost.
    Term(Option<u64>),
}

/// The first row of the table 'In-doubt writes' that a new record matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Row a: a write of the current attempt or term, which was sent at `sent_at`.
    Own { acquisition: u64, sent_at: Moment },
    /// Row b: only metadata has changed.
    Unchanged,
    /// Row c: another write of this candidate.
    ///
    /// `is_recreated` is `true` if the write has re-created a deleted object. `too_late` is the duration of an
    /// acquisition that took longer than the progress timeout.
    LateOwn { is_recreated: bool, too_late: Option<Duration> },
    /// Row d: a write of another process with the identity of this candidate.
    SharedIdentity,
    /// Row e: a record of another holder, or without a holder.
    Other,
}

/// A failed write that was in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FailedWrite {
    pub(super) is_create: bool,
    pub(super) is_release: bool,
}

impl InDoubt {
    pub(super) fn new(settings: Arc<Settings>) -> Self {
        Self { writes: Vec::new(), settings }
    }

    /// Remembers a write that is sent at `now`, of this acquisition or a release.
    pub(super) fn send(&mut self, now: Moment, id: u64, operation: &Operation, acquisition: Option<u64>) {
        let (base, record) = match operation {
            Operation::Get(_) => return,
            Operation::Create(record) => (Base::Absent, record.clone()),
            Operation::Update(base, record) => (Base::Version(base.version), record.clone()),
        };
        self.writes.push(InDoubtWrite { id, base, record, sent_at: now, acquisition, outcome: Outcome::InDoubt });
    }

    /// Returns `true` if there is room for another write. May forget the oldest write.
    ///
    /// If the store applies the forgotten write later, the candidate attributes the write to another process. A write
    /// that may start or extend a term is therefore not forgotten.
    pub(super) fn makes_room(&mut self, timer: &mut Timer, adopts: Adopts) -> bool {
        if self.writes.len() < MAX_WRITES {
            return true;
        }
        let oldest = &self.writes[0];
        let is_kept =
            self.may_adopt(oldest, timer.now(), adopts) && !timer.is_due(oldest.sent_at + self.settings.renew_deadline);
        if !is_kept {
            self.writes.remove(0);
        }
        !is_kept
    }

    /// Evaluates a record whose version is above the newest known version, and settles the writes that it settles.
    ///
    /// `known` is the record at the newest known version.
    pub(super) fn evaluate(
        &mut self,
        now: Moment,
        found: &VersionedRecord,
        known: Option<&LeaderElectionRecord>,
        adopts: Adopts,
        identity: &str,
    ) -> Verdict {
        let record = &found.record;
        let own = self.writes.iter().filter(|write| write.produced(record)).min_by_key(|write| write.sent_at);
        // An own write in an object with another uid has re-created a deleted record. In a term, the object of the term
        // decides, because a term does not continue in another object. Otherwise, `produced` has compared the uid.
        let may_be_recreated = match (adopts, known) {
            (Adopts::Term(_), Some(known)) => known.uid != record.uid,
            _ => own.is_none(),
        };
        let is_recreated = may_be_recreated && self.writes.iter().any(|write| write.record.same_fields(record));
        let own = own.filter(|_| !is_recreated);
        let has_own_identity = record.holder() == Some(identity);
        let verdict = match own {
            Some(InDoubtWrite { acquisition: Some(acquisition), sent_at, .. })
                if own.is_some_and(|write| self.may_adopt(write, now, adopts)) =>
            {
                Verdict::Own { acquisition: *acquisition, sent_at: *sent_at }
            }
            _ if known == Some(record) => Verdict::Unchanged,
            _ if has_own_identity && (own.is_some() || is_recreated) => {
                let too_late = own.filter(|write| self.is_too_late_for_progress(write, now, adopts));
                Verdict::LateOwn { is_recreated, too_late: too_late.map(|write| now.since(write.sent_at)) }
            }
            _ if has_own_identity => Verdict::SharedIdentity,
            _ => Verdict::Other,
        };
        // An observed create has landed, and its uid is now known. A delayed copy of the create would make an object
        // with another uid.
        for create in self.creates().filter(|write| write.produced(record)) {
            create.record.uid.clone_from(&record.uid);
            create.outcome = Outcome::Landed;
        }
        self.settle_updates_below(found.version);
        verdict
    }

    /// Forgets the updates of versions below `version`, which the store can no longer apply.
    pub(super) fn settle_updates_below(&mut self, version: u64) {
        self.writes.retain(|write| match write.base {
            Base::Absent => true,
            Base::Version(base) => base >= version,
        });
    }

    /// Notes that the answer to the request `id` showed an object, which no earlier create produced unless it has landed.
    pub(super) fn overtaken_by(&mut self, id: u64) {
        for create in self.creates().filter(|write| write.id < id && write.outcome != Outcome::Landed) {
            create.outcome = Outcome::Overtaken;
        }
    }

    /// Notes that a read that was sent at `read_sent_at` found no record.
    ///
    /// A create that was sent a renew deadline earlier can no longer win a term.
    pub(super) fn absent(&mut self, read_sent_at: Moment) {
        let renew_deadline = self.settings.renew_deadline;
        let old = self.creates().filter(|write| read_sent_at >= write.sent_at + renew_deadline);
        old.filter(|write| write.outcome == Outcome::InDoubt).for_each(|write| write.outcome = Outcome::Overdue);
    }

    /// Notes that the write `id` was answered. Only a create is still remembered.
    pub(super) fn answered(&mut self, id: u64) {
        self.writes.retain(|write| write.id != id || write.base == Base::Absent);
    }

    /// Notes that the write `id` failed. Returns the write if its outcome is still in doubt.
    pub(super) fn failed(&mut self, id: u64, kind: StoreErrorKind) -> Option<FailedWrite> {
        let write = self.writes.iter().find(|write| write.id == id && write.outcome == Outcome::InDoubt);
        let failed = write.map(|write| FailedWrite {
            is_create: write.base == Base::Absent,
            is_release: write.acquisition.is_none(),
        });
        if kind == StoreErrorKind::NotApplied {
            self.writes.retain(|write| write.id != id);
        }
        failed
    }

    /// Returns the outcome of the write `id`, or `None` if the write is forgotten.
    pub(super) fn outcome(&self, id: u64) -> Option<Outcome> {
        self.writes.iter().find(|write| write.id == id).map(|write| write.outcome)
    }

    /// Returns `true` if the outcome of a create is not known.
    pub(super) fn has_in_doubt_create(&self) -> bool {
        self.writes.iter().any(|write| write.base == Base::Absent && write.outcome == Outcome::InDoubt)
    }

    /// Returns `true` if the outcome of every write is known.
    pub(super) fn is_settled(&self) -> bool {
        self.writes.iter().all(|write| write.outcome != Outcome::InDoubt)
    }

    /// Returns `true` if the store may hold an acquisition or a renewal of this candidate without its knowledge.
    ///
    /// Such a write counts while the request `under_way` carries it, or until a read follows the write. Later, the write
    /// does not count, because it may stay in doubt forever.
    pub(super) fn may_hold(&self, under_way: Option<u64>, is_unread: bool) -> bool {
        self.writes.iter().any(|write| {
            let counts = is_unread || Some(write.id) == under_way;
            counts && write.acquisition.is_some() && write.outcome == Outcome::InDoubt
        })
    }

    /// Forgets all writes, because the store was restored to an earlier state.
    pub(super) fn forget(&mut self) {
        self.writes.clear();
    }

    fn creates(&mut self) -> impl Iterator<Item = &mut InDoubtWrite> {
        self.writes.iter_mut().filter(|write| write.base == Base::Absent)
    }

    /// Returns `true` if the write can still start or extend a term.
    fn may_adopt(&self, write: &InDoubtWrite, now: Moment, adopts: Adopts) -> bool {
        let (Adopts::Attempt(current) | Adopts::Term(current)) = adopts else { return false };
        current.is_some()
            && current == write.acquisition
            && write.outcome != Outcome::Landed
            && now < write.sent_at + self.settings.renew_deadline
            && !self.is_too_late_for_progress(write, now, adopts)
    }

    /// Returns `true` if an acquisition took longer than the progress timeout.
    ///
    /// The term of such an acquisition would end at once.
    fn is_too_late_for_progress(&self, write: &InDoubtWrite, now: Moment, adopts: Adopts) -> bool {
        let would_win = matches!(adopts, Adopts::Attempt(Some(attempt)) if write.acquisition == Some(attempt))
            && write.outcome != Outcome::Landed
            && now < write.sent_at + self.settings.renew_deadline;
        would_win && self.settings.progress_timeout.is_some_and(|within| now >= write.sent_at + within)
    }
}

/// Leaves out the settings, because the model compares candidates by this text.
impl fmt::Debug for InDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InDoubt").field(&self.writes).finish()
    }
}

impl InDoubtWrite {
    /// Returns `true` if this write produced `record`.
    ///
    /// The uid of a created object is unknown until the record is observed.
    fn produced(&self, record: &LeaderElectionRecord) -> bool {
        let may_be_any_object = self.base == Base::Absent && self.outcome != Outcome::Landed;
        (may_be_any_object || self.record.uid == record.uid) && self.record.same_fields(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::election::settings::Config;
    use crate::store::record::{MicroTime, StoreData};

    const ME: &str = "me";

    const fn at(seconds: u64) -> Moment {
        Moment::from_nanos((1_000 + seconds) * 1_000_000_000)
    }

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Returns a record with this holder and this `renewTime` in the object `uid`.
    fn record(uid: Option<&str>, holder: &str, renew_time: u64) -> LeaderElectionRecord {
        LeaderElectionRecord {
            uid: uid.map(str::to_owned),
            holder_identity: Some(holder.to_owned()),
            renew_time: Some(MicroTime::from_unix_micros(renew_time)),
            ..LeaderElectionRecord::default()
        }
    }

    fn write(id: u64, base: Base, record: LeaderElectionRecord, acquisition: Option<u64>) -> InDoubtWrite {
        InDoubtWrite { id, base, record, sent_at: at(id), acquisition, outcome: Outcome::InDoubt }
    }

    /// Returns writes with these numbers, each sent at the second of its number.
    ///
    /// Write 1 is a create, write 2 an acquisition, write 3 a renewal of the same term, and write 4 a release.
    fn writes(progress_timeout: Option<Duration>) -> InDoubt {
        let settings = Config { progress_timeout, ..Config::default() }.validate().unwrap();
        let mut in_doubt = InDoubt::new(Arc::new(settings));
        let update = Base::Version(7);
        for (id, base, uid, holder, acquisition) in [
            (1, Base::Absent, None, ME, Some(1)),
            (2, update, Some("u"), ME, Some(2)),
            (3, update, Some("u"), ME, Some(2)),
            (4, update, Some("u"), "", None),
        ] {
            in_doubt.writes.push(write(id, base, record(uid, holder, id), acquisition));
        }
        in_doubt
    }

    #[test]
    fn each_row_of_the_table_has_its_verdict() {
        use Adopts::{Attempt, Nothing, Term};
        let own = |acquisition, second| Verdict::Own { acquisition, sent_at: at(second) };
        let late = |is_recreated| Verdict::LateOwn { is_recreated, too_late: None };
        let known = || Some(record(Some("u"), "other", 90));
        let (u, v) = (Some("u"), Some("v"));
        // The row, the time, the found record, the known record, and the writes that may be adopted.
        let cases = [
            ("a: a renewal", 5, record(u, ME, 3), known(), Term(Some(2)), own(2, 3)),
            ("a: the acquisition of a term", 5, record(u, ME, 2), known(), Term(Some(2)), own(2, 2)),
            ("a: of the attempt", 5, record(u, ME, 2), known(), Attempt(Some(2)), own(2, 2)),
            ("a: a create in any object", 5, record(v, ME, 1), None, Attempt(Some(1)), own(1, 1)),
            ("a: until the renew deadline", 11, record(u, ME, 2), known(), Attempt(Some(2)), own(2, 2)),
            ("b: only metadata", 5, record(u, "other", 90), known(), Nothing, Verdict::Unchanged),
            ("b: of the own record", 5, record(u, ME, 90), Some(record(u, ME, 90)), Term(Some(2)), Verdict::Unchanged),
            ("c: from the renew deadline", 12, record(u, ME, 2), known(), Attempt(Some(2)), late(false)),
            ("c: of another attempt", 5, record(u, ME, 2), known(), Attempt(Some(3)), late(false)),
            ("c: of no attempt", 5, record(u, ME, 2), known(), Attempt(None), late(false)),
            ("c: of a lost term", 5, record(u, ME, 3), known(), Term(None), late(false)),
            ("c: without a campaign", 5, record(u, ME, 2), known(), Nothing, late(false)),
            ("c: in another object", 5, record(v, ME, 3), known(), Term(Some(2)), late(true)),
            ("c: a create beside a term", 5, record(v, ME, 1), known(), Term(Some(2)), late(true)),
            ("d: no own write", 5, record(u, ME, 50), known(), Term(Some(2)), Verdict::SharedIdentity),
            ("e: another holder", 5, record(u, "third", 3), known(), Term(Some(2)), Verdict::Other),
            ("e: no holder", 5, record(u, "", 50), known(), Attempt(Some(2)), Verdict::Other),
            ("e: the own release", 5, record(u, "", 4), known(), Attempt(Some(2)), Verdict::Other),
        ];
        for (row, second, found, known, adopts, expected) in cases {
            let found = VersionedRecord::new(found, 8, StoreData::none());
            let verdict = writes(None).evaluate(at(second), &found, known.as_ref(), adopts, ME);
            assert_eq!(verdict, expected, "{row}");
        }
    }

    #[test]
    fn acquisition_later_than_the_progress_timeout_is_late() {
        let found = VersionedRecord::new(record(Some("u"), ME, 2), 8, StoreData::none());
        let late = |too_late| Verdict::LateOwn { is_recreated: false, too_late };
        for (second, adopts, expected) in [
            (4, Adopts::Attempt(Some(2)), Verdict::Own { acquisition: 2, sent_at: at(2) }),
            (5, Adopts::Attempt(Some(2)), late(Some(secs(3)))),
            (5, Adopts::Attempt(Some(3)), late(None)),
            (12, Adopts::Attempt(Some(2)), late(None)),
            (5, Adopts::Term(Some(2)), Verdict::Own { acquisition: 2, sent_at: at(2) }),
        ] {
            let verdict = writes(Some(secs(3))).evaluate(at(second), &found, None, adopts, ME);
            assert_eq!(verdict, expected, "{second} s, {adopts:?}");
        }
    }

    #[test]
    fn landed_create_matches_once_and_in_its_object() {
        let mut in_doubt = writes(None);
        let mut evaluate = |uid, version| {
            let found = VersionedRecord::new(record(Some(uid), ME, 1), version, StoreData::none());
            in_doubt.evaluate(at(5), &found, None, Adopts::Attempt(Some(1)), ME)
        };
        assert_eq!(evaluate("u", 8), Verdict::Own { acquisition: 1, sent_at: at(1) });
        assert_eq!(evaluate("u", 9), Verdict::LateOwn { is_recreated: false, too_late: None });
        // A delayed copy of the create makes another object.
        assert_eq!(evaluate("v", 10), Verdict::LateOwn { is_recreated: true, too_late: None });
    }

    #[test]
    fn each_outcome_of_a_create_settles_it() {
        type Settle = fn(&mut InDoubt);
        let found = |uid| VersionedRecord::new(record(Some(uid), ME, 1), 8, StoreData::none());
        let cases: [(&str, Settle, Option<Outcome>); 8] = [
            ("not applied", |it| _ = it.failed(1, StoreErrorKind::NotApplied), None),
            ("failed", |it| _ = it.failed(1, StoreErrorKind::Timeout), Some(Outcome::InDoubt)),
            ("an answer to a later request", |it| it.overtaken_by(2), Some(Outcome::Overtaken)),
            ("an answer to an earlier request", |it| it.overtaken_by(1), Some(Outcome::InDoubt)),
            ("an absence after the renew deadline", |it| it.absent(at(11)), Some(Outcome::Overdue)),
            ("an earlier absence", |it| it.absent(at(10)), Some(Outcome::InDoubt)),
            ("a newer version", |it| it.settle_updates_below(9), Some(Outcome::InDoubt)),
            ("its own answer", |it| it.answered(1), Some(Outcome::InDoubt)),
        ];
        for (name, settle, expected) in cases {
            let mut in_doubt = writes(None);
            settle(&mut in_doubt);
            assert_eq!(in_doubt.outcome(1), expected, "{name}");
            assert_eq!(in_doubt.has_in_doubt_create(), expected == Some(Outcome::InDoubt), "{name}");
        }
        let mut in_doubt = writes(None);
        in_doubt.evaluate(at(5), &found("u"), None, Adopts::Nothing, ME);
        assert_eq!((in_doubt.outcome(1), in_doubt.is_settled()), (Some(Outcome::Landed), true));
    }

    #[test]
    fn newer_version_or_answer_settles_an_update() {
        let outcomes = |in_doubt: &InDoubt| [2, 3, 4].map(|id| in_doubt.outcome(id).is_some());
        for (version, remains) in [(7, true), (8, false)] {
            let mut in_doubt = writes(None);
            in_doubt.settle_updates_below(version);
            assert_eq!(outcomes(&in_doubt), [remains; 3], "{version}");
        }
        let mut in_doubt = writes(None);
        in_doubt.answered(3);
        assert_eq!(
            in_doubt.failed(2, StoreErrorKind::NotApplied),
            Some(FailedWrite { is_create: false, is_release: false })
        );
        assert_eq!(
            in_doubt.failed(4, StoreErrorKind::Conflict),
            Some(FailedWrite { is_create: false, is_release: true })
        );
        assert_eq!(outcomes(&in_doubt), [false, false, true]);
        in_doubt.forget();
        assert_eq!((in_doubt.failed(1, StoreErrorKind::Timeout), in_doubt.is_settled()), (None, true));
    }

    #[test]
    fn unread_write_or_write_under_way_may_hold_the_record() {
        let mut in_doubt = writes(None);
        for (under_way, is_unread, may_hold) in
            [(None, false, false), (None, true, true), (Some(3), false, true), (Some(4), false, false)]
        {
            assert_eq!(in_doubt.may_hold(under_way, is_unread), may_hold, "{under_way:?} {is_unread}");
        }
        // A release alone holds nothing.
        in_doubt.writes.retain(|write| write.id == 4);
        assert!(!in_doubt.may_hold(None, true));
    }

    #[test]
    fn oldest_write_makes_room_once_it_cannot_win() {
        let settings = Config::default().validate().unwrap();
        let mut in_doubt = InDoubt::new(Arc::new(settings));
        for id in 1..=MAX_WRITES as u64 {
            assert!(in_doubt.makes_room(&mut Timer::new(at(0), at(0)), Adopts::Attempt(Some(1))), "{id}");
            in_doubt.send(at(id), id, &Operation::Create(record(None, ME, id)), Some(1));
        }
        let mut timer = Timer::new(at(10), at(99));
        assert!(!in_doubt.makes_room(&mut timer, Adopts::Attempt(Some(1))));
        assert_eq!((timer.wake(), in_doubt.writes.len()), (at(11), MAX_WRITES));
        for (second, adopts) in [(11, Adopts::Attempt(Some(1))), (11, Adopts::Attempt(Some(2))), (11, Adopts::Nothing)]
        {
            assert!(in_doubt.makes_room(&mut Timer::new(at(second), at(99)), adopts));
            in_doubt.send(at(99), 99, &Operation::Create(record(None, ME, 99)), None);
        }
        assert_eq!(in_doubt.outcome(3), None);
        assert_eq!(in_doubt.outcome(4), Some(Outcome::InDoubt));
    }
}
