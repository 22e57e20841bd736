//! The pace of requests, rounds, and events.

use super::*;

#[test]
fn a_campaign_polls_every_retry_period_with_jitter() {
    let mut scenario = Scenario::campaigning_on(held_by(OTHER, 3600), 10);
    let mut waits = Vec::new();
    for _ in 0..200 {
        let wait = scenario.wait();
        assert!((secs(2)..=millis(2400)).contains(&wait), "{wait:?}");
        waits.push(wait);
        scenario.advance(wait);
        scenario.found(held_by(OTHER, 3600), 10);
    }
    waits.dedup();
    assert!(waits.len() > 150, "jitter");
}

#[test]
fn write_is_not_repeated_in_a_tight_loop_at_a_fixed_version() {
    let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
    let began = scenario.now;
    let mut writes = 0;
    while let Some(request) = scenario.request_before(began + secs(60)) {
        if let Some(write) = scenario.answers_read(request, Some((&held_by("", 1), 10))) {
            writes += 1;
            scenario.fails(write.id, StoreErrorKind::Conflict);
        }
    }
    assert!(writes <= 30, "{writes} writes in a minute");
}

fn busy(asks: Duration) -> StoreResponse {
    StoreResponse::Failed(StoreError::new(StoreErrorKind::Unavailable, "made up").with_retry_after(Some(asks)))
}

#[test]
fn requested_pause_of_a_candidate_is_limited() {
    for (asked, pause) in
        [(secs(10), secs(10)), (secs(15), secs(15)), (secs(3_600), secs(15)), (Duration::MAX, secs(15))]
    {
        let jittered = pause..=pause.mul_f64(1.2);
        let mut scenario = Scenario::campaigning();
        let read = scenario.read();
        scenario.responds(read.id, busy(asked));
        let paused = scenario.quiet_for();
        assert!(jittered.contains(&paused), "{asked:?}: {paused:?}");

        let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
        let write = scenario.write();
        scenario.responds(write.id, busy(asked));
        // Events about other candidates do not shorten the pause.
        scenario.advance(secs(5));
        scenario.hears(held_by("", 2), 11);
        let paused = secs(5) + scenario.quiet_for();
        assert!(jittered.contains(&paused), "{asked:?}: {paused:?}");
    }
}

/// A leader without a guard releases. After its release timeout, the pause is the pause of a candidate.
#[test]
fn requested_pause_after_the_release_timeout_is_limited() {
    let (mut scenario, ..) = Scenario::leading();
    scenario.guard_dropped();
    scenario.write_fails(StoreErrorKind::Unavailable);
    scenario.advance(secs(3));
    let id = scenario.request().id;
    scenario.responds(id, busy(secs(3_600)));
    let paused = scenario.quiet_for();
    assert!((secs(15)..=secs(18)).contains(&paused), "{paused:?}");
}

/// The watch reports the release, so the rest of the pause is the pause of an observer.
#[test]
fn requested_pause_of_a_long_release_timeout_is_limited() {
    let (mut scenario, ..) = Scenario::leading_with(|config| {
        config.lease_duration = Some(secs(3));
        config.renew_deadline = Some(secs(2));
        config.retry_period = Some(millis(500));
        config.release_timeout = Some(secs(30));
    });
    scenario.guard_dropped();
    let release = scenario.write();
    scenario.responds(release.id, busy(secs(3_600)));
    scenario.watches(standing(&release), 11);
    scenario.watch_ends();
    let paused = scenario.quiet_for();
    assert!((secs(3)..=millis(3_600)).contains(&paused), "{paused:?}");
}

#[test]
fn distant_release_keeps_a_pause_that_leaves_time_for_another() {
    for (far, kept) in [(millis(1), millis(1_500)), (millis(400), secs(1))] {
        let (mut scenario, _) = Scenario::leading_from_afar(far);
        scenario.guard_dropped();
        let release = scenario.write();
        scenario.responds(release.id, busy(millis(1_500)));
        assert_eq!(scenario.wait(), kept, "{far:?}");
    }
}

#[test]
fn a_pause_from_before_does_not_hold_up_a_release() {
    let (mut scenario, ..) = Scenario::leading();
    let renewal = scenario.due_write();
    scenario.responds(renewal.id, busy(secs(6)));
    scenario.guard_dropped();
    assert_eq!(scenario.wait(), secs(1));
}

/// The record is deleted while a leader keeps a requested pause, so neither a term nor a release is urgent any longer.
#[test]
fn shortened_pause_of_an_ended_term_keeps_its_end() {
    let (mut scenario, ..) = Scenario::leading();
    let renewal = scenario.due_write();
    scenario.responds(renewal.id, busy(secs(6)));
    scenario.hears_deletion(11);
    scenario.guard_dropped();
    assert_eq!(scenario.quiet_for(), secs(6));
}

#[test]
fn requested_pause_does_not_end_the_term_just_won() {
    let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
    let write = scenario.write();
    scenario.responds(write.id, busy(secs(60)));
    // The store applied the write, although the answer was a failure.
    scenario.hears(standing(&write), 11);
    scenario.elected();
    assert_eq!(scenario.wait(), secs(5));
}

#[test]
fn from_far_away_a_release_may_take_all_that_is_left() {
    let (mut scenario, ..) = Scenario::leading_from_afar(millis(500));
    scenario.guard_dropped();
    assert_eq!(scenario.write().timeout, secs(2), "a second attempt would take 1.5 s");
    let (mut scenario, ..) = Scenario::leading_from_afar(millis(50));
    scenario.guard_dropped();
    assert_eq!(scenario.write().timeout, millis(1_750));
}

/// Simulates the elector's thread when the guard is dropped while a renewal is in flight.
#[test]
fn release_up_to_500_ms_away_lets_a_renewal_finish_in_time() {
    for far in [1, 20, 50, 100, 200, 300, 400, 500] {
        for renewals in [0, 1, 5] {
            let (mut scenario, mut version) = Scenario::leading_from_afar(millis(far));
            for _ in 0..renewals {
                let renewal = scenario.due_write();
                scenario.advance(millis(far));
                version += 1;
                scenario.applied(&renewal, version);
            }
            let renewal = scenario.due_write();
            let dropped_at = scenario.now;
            scenario.advance(millis(far));
            // The elector handles the drop of the guard before the answer to the renewal.
            scenario.handle(Input::GuardDropped { at: dropped_at });
            let cancelled_after = scenario.cancelled_after();
            assert!(cancelled_after > millis(far), "{far} ms, {renewals} renewals");
            scenario.applied(&renewal, version + 1);
            let release = scenario.write();
            assert_eq!(release.base, Some(version + 1), "{far} ms");
            assert!(release.timeout > millis(far), "{far} ms: {:?}", release.timeout);
            scenario.advance(millis(far));
            scenario.applied(&release, version + 2);
            assert!(scenario.released(), "{far} ms");
            assert!(scenario.now.since(dropped_at) <= millis(far) * 2);
        }
    }
}

#[test]
fn release_up_to_400_ms_away_outlasts_a_hanging_renewal() {
    for far in [1, 20, 50, 100, 200, 300, 400] {
        let (mut scenario, _) = Scenario::leading_from_afar(millis(far));
        let renewal = scenario.due_write();
        let dropped_at = scenario.now;
        scenario.guard_dropped();
        let cancelled_after = scenario.cancelled_after();
        scenario.advance(cancelled_after);
        scenario.fails(renewal.id, StoreErrorKind::Interrupted);
        let release = scenario.write();
        assert!(release.timeout >= millis(far) * 3, "{far} ms: {:?}", release.timeout);
        let settled_after = scenario.now.since(dropped_at) + millis(far) * 3;
        assert!(settled_after < secs(2), "{far} ms: {settled_after:?}");
    }
}

#[test]
fn a_release_counts_from_when_the_guard_went() {
    let (mut scenario, ..) = Scenario::leading();
    let dropped_at = scenario.now;
    // The elector's thread was busy, and handles the drop of the guard one second later.
    scenario.advance(secs(1));
    scenario.handle(Input::GuardDropped { at: dropped_at });
    assert_eq!(scenario.write().timeout, millis(750));
}

#[test]
fn a_release_is_urgent_only_until_its_timeout() {
    let (mut scenario, ..) = Scenario::leading();
    scenario.guard_dropped();
    let began = scenario.now;
    let mut requests = Vec::new();
    while let Some(request) = scenario.request_before(began + secs(60)) {
        requests.push(scenario.now.since(began));
        scenario.fails(request.id, StoreErrorKind::Unavailable);
    }
    let after = requests.iter().filter(|at| **at > secs(2)).count();
    assert!(after <= 60, "{after} requests in the 58 s after the release timeout: {requests:?}");
}

impl Scenario {
    /// Returns how long the request under way may last after news of another candidate, and after the drop of the guard.
    fn interrupted_after(&mut self) -> [Duration; 2] {
        // An event with a known version changes nothing else.
        self.hears(held_by(OTHER, 15), 1);
        let news = self.cancelled_after();
        self.guard_dropped();
        [news, self.cancelled_after()]
    }
}

#[test]
fn request_timeout_follows_response_times() {
    let (mut scenario, ..) = Scenario::leading();
    scenario.due_write();
    assert_eq!(scenario.interrupted_after(), [millis(250), millis(50)]);
    let (mut scenario, ..) = Scenario::leading();
    for version in 11..40 {
        let renewal = scenario.due_write();
        scenario.advance(millis(400));
        scenario.applied(&renewal, version);
    }
    // An answer to an earlier request does not change the measured times.
    let read = ReadContext { newest: 0, absent: false, sent_at: scenario.now };
    scenario.wait_out();
    scenario.write();
    scenario.advance(secs(5));
    scenario.responds(1, StoreResponse::Read(read, None));
    assert_eq!(scenario.interrupted_after(), [millis(600); 2]);
}

#[test]
fn request_lost_with_its_connection_is_resent_once_at_once() {
    // A renewal is resent.
    let (mut scenario, deadline, _) = Scenario::leading();
    let first = scenario.due_write_fails(StoreErrorKind::ConnectionClosed);
    let second = scenario.write();
    assert_eq!(second.base, Some(10));
    assert_ne!(second.record.renew_time, first.record.renew_time, "a new attempt, not the same bytes again");
    scenario.fails(second.id, StoreErrorKind::ConnectionClosed);
    assert!(scenario.wait() >= secs(2), "and no tight loop");
    // The store has applied the first attempt, although its connection was closed.
    let sent_at = scenario.now;
    scenario.due_write_fails(StoreErrorKind::Conflict);
    scenario.found(standing(&first), 11);
    assert_eq!(scenario.now + deadline.remaining(scenario.now), sent_at + secs(10), "it had stayed open");

    // A takeover is resent.
    let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
    let first = scenario.write_fails(StoreErrorKind::ConnectionClosed);
    let second = scenario.write();
    assert_eq!((second.base, &second.record.acquire_time), (Some(10), &first.record.acquire_time));
    scenario.wins_by(&second, 11);

    // A release is resent.
    let (mut scenario, ..) = Scenario::leading();
    scenario.guard_dropped();
    scenario.write_fails(StoreErrorKind::ConnectionClosed);
    let second = scenario.write();
    assert_eq!((second.base, second.record.holder()), (Some(10), None));
    scenario.applied(&second, 11);
    assert!(scenario.released());

    // The read and the only write of a round are resent once each.
    let mut scenario = Scenario::trying_once();
    let context = scenario.read();
    scenario.fails(context.id, StoreErrorKind::ConnectionClosed);
    scenario.found(held_by("", 1), 10);
    scenario.write_fails(StoreErrorKind::ConnectionClosed);
    scenario.write_fails(StoreErrorKind::ConnectionClosed);
    scenario.next();
    assert!(scenario.round_over(), "still one round");
}

#[test]
fn try_once_reads_writes_at_most_once_and_ends() {
    let mut scenario = Scenario::trying_once();
    scenario.found(held_by(OTHER, 15), 10);
    assert!(scenario.wait() > Duration::ZERO);
    assert!(scenario.round_over());

    let mut scenario = Scenario::trying_once();
    scenario.found(held_by("", 1), 10);
    scenario.write_fails(StoreErrorKind::Conflict);
    scenario.read();
    assert!(scenario.round_over());

    let mut scenario = Scenario::trying_once();
    scenario.found_nothing();
    scenario.wins(10);
}

#[test]
fn try_once_reads_from_scratch_even_when_a_read_is_not_due() {
    let mut scenario = Scenario::observing(held_by(OTHER, 15), 10);
    assert!(scenario.wait() > Duration::ZERO);
    scenario.campaign(true);
    scenario.found(held_by("", 1), 11);
    assert_eq!(scenario.write().base, Some(11));
}

#[test]
fn leaders_are_reported_once_each() {
    let mut scenario = Scenario::new();
    let mut reported = Vec::new();
    for (holder, version) in [(OTHER, 10), (OTHER, 11), ("", 12), ("third", 13), ("third", 13)] {
        scenario.advance(secs(3));
        scenario.found(held_by(holder, version as i32), version);
        reported.extend(scenario.events().into_iter().map(|event| match event {
            Effect::NewLeader { leader, .. } => Some(leader.identity),
            Effect::NoLeader { .. } => None,
            other => panic!("{other:?}"),
        }));
    }
    assert_eq!(reported, [Some(OTHER.to_owned()), None, Some("third".to_owned())]);
}

#[test]
fn a_lease_that_is_gone_has_no_leader() {
    for reported in [false, true] {
        let mut scenario = Scenario::observing(held_by(OTHER, 15), 10);
        assert!(matches!(&scenario.events()[..], [Effect::NewLeader { leader, .. }] if leader.identity == OTHER));
        if reported {
            scenario.hears_deletion(11);
        } else {
            scenario.wait_out();
            scenario.found_nothing();
        }
        assert!(matches!(scenario.events()[..], [Effect::NoLeader { is_expiry: false, .. }]), "reported: {reported}");
    }
}

/// Every answer takes `late`, also that of the acquisition.
#[test]
fn slow_answers_end_no_term() {
    for late in [millis(3_000), millis(3_700), millis(4_000), millis(4_800)] {
        let (mut scenario, mut version) = Scenario::leading_from_afar(late);
        for _ in 0..20 {
            let renewal = Write::of(scenario.request());
            assert!(renewal.timeout > late, "{late:?}: {:?} at version {version}", renewal.timeout);
            scenario.advance(late);
            version += 1;
            scenario.applied(&renewal, version);
            assert_eq!(scenario.lost(), None, "{late:?}");
        }
    }
}

/// The answers of a fast server become slow from one renewal to the next.
#[test]
fn answers_that_become_slow_end_no_term() {
    for late in [millis(4_010), millis(4_800)] {
        let (mut scenario, mut version) = Scenario::leading_from_afar(millis(5));
        for answered_after in [[millis(5); 20], [late; 20]].concat() {
            let renewal = Write::of(scenario.request());
            assert!(renewal.timeout > answered_after, "{late:?}: {:?} at version {version}", renewal.timeout);
            scenario.advance(answered_after);
            version += 1;
            scenario.applied(&renewal, version);
            assert_eq!(scenario.lost(), None, "{late:?}");
        }
    }
}

#[test]
fn first_attempt_of_a_renewal_leaves_time_for_another() {
    let (mut scenario, ..) = Scenario::leading();
    let first = scenario.due_write();
    assert_eq!(first.timeout, secs(6));
    scenario.advance(secs(6));
    scenario.fails(first.id, StoreErrorKind::Timeout);
    let second = scenario.write();
    assert_eq!(second.timeout, secs(1));
    scenario.applied(&second, 11);
    assert_eq!(scenario.lost(), None);
}

/// The two answers so far took about 3 s, so the estimate of the deviation is still large.
#[test]
fn first_attempt_after_few_slow_answers_leaves_time() {
    let mut scenario = Scenario::campaigning();
    let read = scenario.read();
    scenario.advance(secs(3));
    scenario.responds(read.id, StoreResponse::Read(read.context, None));
    let create = scenario.write();
    scenario.advance(millis(3_200));
    scenario.wins_by(&create, 10);
    assert_eq!(scenario.write().timeout, millis(4_800));
}

/// The connections of a hang may be dead, and the server answers fast again.
#[test]
fn first_attempt_after_a_hang_leaves_time_for_another() {
    let (mut scenario, ..) = Scenario::leading();
    let renewal = scenario.due_write();
    scenario.advance(millis(5_500));
    scenario.applied(&renewal, 11);
    assert_eq!(scenario.write().timeout, millis(2_500));
}

/// An open watch delivers no events, so the leader reads if there is time before the next renewal.
#[test]
fn read_beside_a_silent_watch_delays_no_renewal() {
    for (late, has_read) in [(millis(100), true), (secs(9), false)] {
        let (mut scenario, ..) = Scenario::leading_with(|config| {
            config.lease_duration = Some(secs(25));
            config.renew_deadline = Some(secs(20));
            config.renew_interval = Some(secs(10));
        });
        scenario.watch_opens(true);
        let (mut version, mut reads) = (10, 0);
        let mut renewed_at = scenario.now;
        while version < 20 {
            let request = scenario.request();
            let sent_at = scenario.now;
            scenario.advance(late);
            if let Operation::Get(_) = request.operation {
                // Before the first slow answer, the leader cannot know that the read is slow.
                reads += u32::from(version > 10);
                scenario.fails(request.id, StoreErrorKind::Timeout);
                continue;
            }
            assert!(version == 10 || sent_at.since(renewed_at) <= secs(10), "{late:?} at version {version}");
            renewed_at = sent_at;
            version += 1;
            scenario.applied(&Write::of(request), version);
        }
        assert_eq!(reads > 0, has_read, "{late:?}: {reads} reads");
    }
}

/// With a short retry period, the rest after a silent attempt is still enough for an attempt on a slow machine.
#[test]
fn first_attempt_leaves_a_fifth_of_the_renew_deadline() {
    let (mut scenario, ..) = Scenario::leading_with(|config| {
        config.retry_period = Some(millis(10));
        config.renew_deadline = Some(secs(10));
        config.lease_duration = Some(secs(15));
    });
    assert_eq!(scenario.due_write().timeout, millis(7_990));
}

#[test]
fn renewal_on_a_closed_connection_is_repeated_with_all_its_time() {
    let (mut scenario, ..) = Scenario::leading();
    scenario.due_write_fails(StoreErrorKind::ConnectionClosed);
    assert_eq!(scenario.write().timeout, secs(6));
}

#[test]
fn renewals_are_paced_from_their_sending() {
    let (mut scenario, ..) = Scenario::leading();
    for version in 11..20 {
        let renewal = scenario.due_write();
        scenario.advance(millis(1_500));
        scenario.applied(&renewal, version);
        assert_eq!(scenario.wait(), millis(500), "a slow answer does not put the next one off");
    }
}

#[test]
fn campaign_replaces_an_abandoned_one() {
    let mut scenario = Scenario::trying_once();
    let read = scenario.read();
    scenario.campaign(false);
    scenario.reads(read, held_by(OTHER, 15), 10);
    assert!(scenario.wait() > Duration::ZERO);
    assert!(!scenario.round_over(), "the round is no more");
    scenario.advance(secs(15));
    let write = scenario.next_write(&held_by(OTHER, 15), 10);
    scenario.wins_by(&write, 11);
}

#[test]
fn try_once_is_not_ended_by_a_request_from_before_it() {
    let mut scenario = Scenario::new();
    let before = scenario.read();
    scenario.campaign(true);
    scenario.fails(before.id, StoreErrorKind::Timeout);
    assert!(!scenario.round_over(), "it has not even has_read");
    scenario.found_nothing();
    scenario.wins(10);
}

#[test]
fn try_once_looks_again_when_its_look_was_interrupted() {
    let mut scenario = Scenario::trying_once();
    let context = scenario.read();
    scenario.fails(context.id, StoreErrorKind::Interrupted);
    assert!(!scenario.round_over(), "no answer yet");
    scenario.found_nothing();
    scenario.wins(10);
}

#[test]
fn permanent_refusal_of_a_round_is_its_only_end() {
    let mut scenario = Scenario::new();
    for second in 0..=10 {
        scenario.campaign(true);
        let read = scenario.read();
        scenario.fails(read.id, StoreErrorKind::Forbidden);
        scenario.next();
        let events = scenario.events();
        let is_expected = match second {
            10 => matches!(events[..], [Effect::Refuse { .. }]),
            _ => matches!(events[..], [Effect::RoundOver { .. }]),
        };
        assert!(is_expected, "{second} s: {events:?}");
        scenario.advance(secs(1));
    }
}

#[test]
fn try_once_does_not_wait_for_the_pace_of_earlier_writes() {
    let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
    scenario.write_fails(StoreErrorKind::Unavailable);
    scenario.withdraw();
    scenario.campaign(true);
    scenario.found(held_by("", 1), 10);
    scenario.wins(11);
}

#[test]
fn pause_requested_by_a_store_holds_after_a_term_too() {
    let mut scenario = Scenario::campaigning_on(held_by("", 1), 10);
    let write = scenario.write();
    scenario.responds(write.id, busy(secs(14)));
    let asked_at = scenario.now;
    // The store applied the write, and the lease is deleted right after the start of the term.
    scenario.watches(standing(&write), 11);
    scenario.elected();
    scenario.hears_deletion(12);
    scenario.campaigns_again();
    scenario.quiet_for();
    assert!(scenario.now.since(asked_at) >= secs(14), "after {:?}", scenario.now.since(asked_at));
}

#[test]
fn rounds_leave_a_store_alone_that_asked_for_it() {
    let mut scenario = Scenario::trying_once();
    let read = scenario.read();
    scenario.responds(read.id, busy(secs(3_600)));
    assert!(scenario.round_over());
    for _ in 0..3 {
        scenario.advance(millis(4_900));
        scenario.campaign(true);
        assert!(matches!(scenario.next(), Step::Wait(_)));
        assert!(scenario.round_over(), "without a request");
    }
    scenario.advance(secs(4));
    scenario.campaign(true);
    scenario.read();
}

#[test]
fn a_round_whose_look_is_interrupted_again_and_again_ends() {
    let mut scenario = Scenario::new();
    scenario.watch_opens(true);
    scenario.campaign(true);
    let mut record = held_by(OTHER, 15);
    for version in 10..12 {
        let read = scenario.read();
        record = renewed(&record);
        scenario.hears(record.clone(), version);
        scenario.fails(read.id, StoreErrorKind::Interrupted);
        scenario.advance(secs(2));
    }
    assert!(matches!(scenario.next(), Step::Wait(_)));
    assert!(scenario.round_over(), "two requests and no more");
}

#[test]
fn a_read_whose_connection_was_closed_is_repeated_at_once_too() {
    let mut scenario = Scenario::new();
    let read = scenario.read();
    scenario.fails(read.id, StoreErrorKind::ConnectionClosed);
    let again = scenario.read();
    scenario.fails(again.id, StoreErrorKind::ConnectionClosed);
    assert!(scenario.wait() > Duration::ZERO, "once");
}

/// Returns a candidate with a watch, whose connection to the store `far` away has been idle for `idle` since its read.
fn idle_candidate(far: Duration, idle: Duration) -> Scenario {
    let mut scenario = Scenario::campaigning();
    let read = scenario.read();
    scenario.advance(far);
    scenario.reads(read, held_by(OTHER, 3_600), 10);
    scenario.watches(held_by(OTHER, 3_600), 10);
    scenario.advance(idle);
    scenario.hears(held_by("", 1), 11);
    scenario
}

/// A middlebox has dropped the connection in silence.
#[test]
fn acquisition_on_an_idle_connection_is_soon_repeated() {
    for (far, timeout) in
        [(millis(1), secs(1)), (millis(300), secs(1)), (millis(500), millis(1_500)), (secs(3), secs(5))]
    {
        let mut scenario = idle_candidate(far, millis(10_001));
        let first = scenario.write();
        assert_eq!(first.timeout, timeout, "{far:?}");
        scenario.advance(timeout);
        scenario.fails(first.id, StoreErrorKind::Timeout);
        let second = scenario.write();
        assert_eq!((second.timeout, second.base), (secs(5), first.base), "at once, on a new connection");
        scenario.fails(second.id, StoreErrorKind::Timeout);
        scenario.read();
    }
}

#[test]
fn acquisition_on_a_connection_in_use_has_all_its_time() {
    let mut scenario = idle_candidate(millis(1), secs(10));
    let write = scenario.write();
    assert_eq!(write.timeout, secs(5));
    scenario.fails(write.id, StoreErrorKind::Timeout);
    scenario.read();
}

/// The first attempt was slow and not lost, so it wins although the second attempt conflicts.
#[test]
fn slow_acquisition_on_an_idle_connection_wins() {
    let mut scenario = idle_candidate(millis(1), secs(60));
    let first = scenario.write();
    let sent_at = scenario.now;
    scenario.advance(secs(1));
    scenario.fails(first.id, StoreErrorKind::Timeout);
    let second = scenario.write();
    scenario.hears(standing(&first), 12);
    scenario.fails(second.id, StoreErrorKind::Conflict);
    let (deadline, _) = scenario.elected();
    assert_eq!(scenario.now + deadline.remaining(scenario.now), sent_at + secs(10));
}

#[test]
fn round_on_an_idle_connection_is_soon_repeated() {
    let mut scenario = Scenario::observing(held_by("", 1), 10);
    scenario.advance(secs(60));
    scenario.campaign(true);
    let request = scenario.request();
    assert_eq!(request.timeout, secs(1));
    scenario.fails(request.id, StoreErrorKind::Timeout);
    scenario.found(held_by("", 1), 10);
    scenario.wins(11);
}
