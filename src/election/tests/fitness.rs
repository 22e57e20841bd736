//! The rules 'Progress', 'Fitness' and 'Draining'.
//!
//! The lease duration is 15 s, the renew deadline is 10 s, and the retry period is 2 s.

use super::*;

/// Answers every renewal at once, for this duration. Returns the moment of the last renewal.
fn renews(scenario: &mut Scenario, record: &LeaderElectionRecord, lasting: Duration) -> Option<Moment> {
    let until = scenario.now + lasting;
    let (mut last, mut known, mut version) = (None, record.clone(), 10);
    while let Some(request) = scenario.request_before(until) {
        let Some(write) = scenario.answers_read(request, Some((&known, version))) else { continue };
        assert_eq!(write.record.holder(), Some(ME), "nothing is released while the guard exists");
        version = write.base.expect("an update") + 1;
        known = scenario.applied(&write, version);
        last = Some(scenario.now);
    }
    last
}

impl Scenario {
    fn standing(&self) -> LeaderElectionRecord {
        self.newest.clone().expect("there is a record").0
    }

    /// Returns the reasons of the events that end a term or its renewals.
    fn endings(&mut self) -> Vec<Option<StopReason>> {
        let endings = self.events().into_iter().filter_map(|event| match event {
            Effect::TermEnded(reason, _) => Some(Some(reason)),
            Effect::DrainEnded(reason) => Some(reason),
            _ => None,
        });
        endings.collect()
    }
}

#[test]
fn winding_down_ends_to_the_moment_or_with_the_last_renewal() {
    let (mut scenario, ..) = Scenario::leading();
    scenario.step_down(Some(millis(500)));
    // A candidate that becomes unfit while draining keeps the limit of the drain. The drop of the guard reports no
    // second end.
    scenario.set_fit(false);
    scenario.set_fit(true);
    assert_eq!(scenario.wait(), millis(500));
    assert_eq!(scenario.endings(), [Some(StopReason::SteppedDown)]);
    scenario.guard_dropped();
    assert_eq!(scenario.endings(), []);
    // Without a renewal for a renew deadline, the drain ends as expired.
    let (mut scenario, ..) = Scenario::leading();
    scenario.step_down(None);
    scenario.advance(secs(10));
    scenario.next();
    assert_eq!(scenario.endings(), [Some(StopReason::SteppedDown), Some(StopReason::Expired)]);
    // The step-down arrives after the term has expired.
    let (mut scenario, ..) = Scenario::leading();
    scenario.advance(secs(10));
    scenario.step_down(None);
    assert!(matches!(scenario.next(), Step::Send(StoreRequest { operation: Operation::Get(_), .. })), "no renewal");
    assert_eq!(scenario.endings(), [Some(StopReason::Expired)]);
    // Another report that the leader is fit does not end the term.
    let (mut scenario, ..) = Scenario::leading();
    scenario.set_fit(true);
    assert_eq!(scenario.endings(), []);
}

#[test]
fn progress_missing_ends_a_term_despite_renewals() {
    let (mut scenario, deadline, record) = Scenario::leading_with(|it| it.progress_timeout = Some(secs(5)));
    let began = scenario.now;
    assert_eq!(deadline.remaining(began), secs(5));
    let last = renews(&mut scenario, &record, secs(60)).expect("renewals");
    assert!(last < began + secs(5) && last >= began + secs(3), "{:?}", last.since(began));
    assert_eq!(scenario.lost(), Some(StopReason::NoProgress));
    assert!(!deadline.is_valid(began), "for good");
    scenario.guard_dropped();
    assert_eq!(scenario.write().record.holder(), None, "released at once");
}

#[test]
fn progress_is_noticed_to_the_moment() {
    let (mut scenario, _, record) = Scenario::leading_with(|it| it.progress_timeout = Some(millis(4_999)));
    scenario.watch_opens(false);
    let limit = scenario.now + millis(4_999);
    renews(&mut scenario, &record, millis(4_998));
    assert!(matches!(scenario.next(), Step::Wait(until) if until == limit));
    assert_eq!(scenario.lost(), None);
    scenario.now = limit;
    assert!(!matches!(scenario.next(), Step::Send(StoreRequest { operation: Operation::Update(..), .. })));
    assert_eq!(scenario.lost(), Some(StopReason::NoProgress));
}

#[test]
fn progress_too_late_acquisition_is_released_and_retried_later() {
    let (mut scenario, late) = Scenario::creating_with(|it| it.progress_timeout = Some(secs(3)));
    scenario.advance(secs(3));
    let release = scenario.lands_in_vain(&late, 10, true);
    scenario.applied(&release, 11);
    let released_at = scenario.now;
    let again = scenario.next_write(&standing(&release), 11);
    let pause = scenario.now.since(released_at);
    assert!(pause >= secs(2) && pause <= millis(2_400), "others have their turn: {pause:?}");
    let (deadline, token) = scenario.wins_by(&again, 12);
    assert_eq!((deadline.remaining(scenario.now), token), (secs(3), 12));
}

#[test]
fn progress_a_late_acquisition_that_is_deleted_waits_too() {
    for (late_by, is_given_back) in [(3, true), (10, false)] {
        let (mut scenario, late) = Scenario::creating_with(|it| it.progress_timeout = Some(secs(3)));
        scenario.advance(secs(late_by));
        let record = scenario.applied(&late, 10);
        if !is_given_back {
            assert_eq!(scenario.next_write(&record, 10).record.holder(), Some(ME), "an attempt that won nothing");
            continue;
        }
        scenario.hears_deletion(11);
        let deleted_at = scenario.now;
        let mut request = scenario.request();
        while scenario.answers_read(request, None).is_none() {
            request = scenario.request();
        }
        let pause = scenario.now.since(deleted_at);
        assert!(pause >= secs(2) && pause <= millis(2_400), "{pause:?}");
    }
}

#[test]
fn progress_a_term_goes_on_with_it() {
    let (mut scenario, deadline, record) = Scenario::leading_with(|it| it.progress_timeout = Some(secs(5)));
    let mut known = record;
    for round in 0..10 {
        assert!(deadline.report_progress(scenario.now, scenario.now), "round {round}");
        renews(&mut scenario, &known, secs(4));
        known = scenario.standing();
    }
    assert_eq!(scenario.lost(), None);
}

#[test]
fn progress_counts_after_a_step_down_too() {
    for is_stamped in [false, true] {
        let (mut scenario, deadline, record) = Scenario::leading_with(|it| it.progress_timeout = Some(secs(5)));
        let began = scenario.now;
        scenario.step_down(None);
        scenario.advance(secs(4));
        if is_stamped {
            assert!(!deadline.report_progress(scenario.now, scenario.now), "the term is over");
        }
        let last = renews(&mut scenario, &record, secs(60)).expect("renewals");
        let limit = began + if is_stamped { secs(9) } else { secs(5) };
        assert!(last < limit && last + secs(3) > limit, "{:?}", last.since(began));
        assert_eq!(scenario.lost(), Some(StopReason::SteppedDown), "the first reason");
    }
}

#[test]
fn drain_is_renewed_for_the_given_time() {
    // The shortest of several limits applies.
    for limits in [&[Some(secs(20))][..], &[None, Some(secs(20))], &[Some(secs(20)), None, Some(secs(50))]] {
        let (mut scenario, _, record) = Scenario::leading();
        let began = scenario.now;
        limits.iter().for_each(|limit| scenario.step_down(*limit));
        let last = renews(&mut scenario, &record, secs(100)).expect("renewals");
        assert!(last < began + secs(20) && last > began + secs(17), "{limits:?}: {:?}", last.since(began));
        assert_eq!(scenario.endings(), [Some(StopReason::SteppedDown), None]);
        scenario.guard_dropped();
        assert_eq!(scenario.endings(), []);
        assert_eq!(scenario.write().record.holder(), None);
    }
    let (mut scenario, _, record) = Scenario::leading();
    scenario.step_down(Some(Duration::ZERO));
    assert_eq!(renews(&mut scenario, &record, secs(100)), None, "not at all");
}

#[test]
fn drain_ends_by_a_forbidding_reason_and_reports_the_first() {
    let (mut scenario, _, record) = Scenario::leading();
    scenario.step_down(None);
    let of_twin = LeaderElectionRecord { renew_time: Some(MicroTime::from_unix_micros(7)), ..record.clone() };
    let change = Change::Written(VersionedRecord::new(of_twin, 99, StoreData::none()));
    scenario.handle(Input::Watched { received_at: scenario.now, change });
    scenario.set_fit(false);
    scenario.step_down(None);
    assert_eq!(renews(&mut scenario, &record, secs(100)), None);
    assert_eq!(scenario.lost(), Some(StopReason::SteppedDown));
}

#[test]
fn winding_down_after_a_step_down_of_which_the_word_is_late() {
    let (mut scenario, deadline, record) = Scenario::leading();
    deadline.end(scenario.now, StopReason::SteppedDown);
    scenario.set_fit(false);
    let is_renewed_to_the_end = |scenario: &mut Scenario, record: &LeaderElectionRecord| {
        renews(scenario, record, secs(60)).is_some_and(|last| scenario.now.since(last) < secs(5))
    };
    assert!(is_renewed_to_the_end(&mut scenario, &record), "for its own time");
    assert_eq!(scenario.lost(), Some(StopReason::SteppedDown));
    scenario.step_down(None);
    scenario.set_fit(false);
    let record = scenario.standing();
    assert!(is_renewed_to_the_end(&mut scenario, &record));
}

#[test]
fn fitness_unfit_leader_drains_and_releases_with_its_guard() {
    for (set, limit) in [(None, 10), (Some(secs(30)), 30)] {
        let (mut scenario, deadline, record) = Scenario::leading_with(|it| it.drain_timeout = set);
        let began = scenario.now;
        scenario.set_fit(false);
        assert!(!deadline.is_valid(began));
        assert_eq!(scenario.lost(), Some(StopReason::Unfit));
        let last = renews(&mut scenario, &record, secs(100)).expect("renewals").since(began);
        assert!(last < secs(limit) && last + secs(3) > secs(limit), "{last:?}");
        scenario.guard_dropped();
        assert_eq!(scenario.write().record.holder(), None);
    }
}

#[test]
fn fitness_unfit_candidate_acquires_nothing() {
    let mut scenario = Scenario::with(|it| it.has_fitness = true);
    scenario.campaign(false);
    let until = scenario.now + secs(100);
    let mut reads = 0;
    while let Some(request) = scenario.request_before(until) {
        reads += 1;
        assert!(scenario.answers_read(request, None).is_none(), "a write");
    }
    assert!(reads <= 51, "the normal pace of reads: {reads}");
    scenario.set_fit(true);
    assert_eq!(scenario.write().record.holder(), Some(ME), "the campaign goes on");
}

#[test]
fn fitness_acquisition_that_lands_while_unfit_is_released() {
    for is_answered in [true, false] {
        let mut scenario = Scenario::with(|it| it.has_fitness = true);
        scenario.set_fit(true);
        scenario.campaign(false);
        scenario.found_nothing();
        let write = scenario.write();
        scenario.set_fit(false);
        let release = scenario.lands_in_vain(&write, 10, is_answered);
        let released = scenario.applied(&release, 11);
        assert!(matches!(
            scenario.next(),
            Step::Wait(_) | Step::Send(StoreRequest { operation: Operation::Get(_), .. })
        ));
        scenario.set_fit(true);
        assert_eq!(scenario.next_write(&released, 11).record.holder(), Some(ME), "the campaign goes on");
    }
}

#[test]
fn fitness_pending_release_happens_despite_a_new_campaign() {
    let (mut scenario, ..) = Scenario::leading();
    scenario.set_fit(false);
    scenario.campaigns_again();
    assert!(!scenario.released());
    let release = scenario.write();
    assert_eq!(release.record.holder(), None);
    scenario.applied(&release, 11);
    assert!(scenario.released());
}

#[test]
fn fitness_unfit_and_fit_at_once_starts_another_attempt() {
    for is_answered in [true, false] {
        let mut scenario = Scenario::with(|it| it.has_fitness = true);
        scenario.set_fit(true);
        scenario.campaign(false);
        scenario.found_nothing();
        let write = scenario.write();
        scenario.set_fit(false);
        scenario.set_fit(true);
        let since = scenario.now;
        let release = scenario.lands_in_vain(&write, 10, is_answered);
        let released = scenario.applied(&release, 11);
        let again = scenario.next_write(&released, 11);
        assert_eq!(scenario.now.since(since), secs(2));
        assert_ne!(again.record.acquire_time, write.record.acquire_time);
    }
}

#[test]
fn progress_late_acquisition_of_a_round_ends_the_round() {
    let mut scenario = Scenario::with(|it| it.progress_timeout = Some(secs(3)));
    scenario.campaign(true);
    scenario.found_nothing();
    let late = scenario.write();
    scenario.advance(secs(3));
    scenario.applied(&late, 10);
    let release = scenario.write();
    assert_eq!((release.base, release.record.holder()), (Some(10), None));
    let events = scenario.events();
    assert!(matches!(events[..], [Effect::NewLeader { .. }, Effect::RoundOver { .. }]), "{events:?}");
    let released = scenario.applied(&release, 11);
    // The caller of the next round sets the pace.
    scenario.campaign(true);
    scenario.found(released, 11);
    scenario.wins(12);
}
