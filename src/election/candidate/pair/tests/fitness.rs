//! The rules 'Progress' and 'Fitness', on two records.

use super::*;
use crate::election::candidate::fitness::FitnessSource;

fn says(is_fit: bool) -> Input {
    Input::Fitness(FitnessSource::Program, is_fit)
}

fn asked() -> Scenario {
    Scenario::campaigning_with(Config { has_fitness: true, ..Config::default() })
}

fn leading_while_fit() -> Scenario {
    let mut scenario = asked();
    scenario.user(says(true));
    scenario.leads()
}

#[test]
fn unfit_candidate_holds_neither_record() {
    let mut scenario = asked();
    scenario.pass(60 * SECOND);
    assert_eq!(scenario.written, []);
    scenario.user(says(true));
    scenario.pass(SECOND);
    assert!(scenario.is_valid());
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::Fitness { is_fit: true, .. })), 1, "reported once");
}

#[test]
fn unfit_term_is_renewed_on_both_for_a_renew_deadline() {
    let mut scenario = leading_while_fit();
    scenario.user(says(false));
    assert_eq!(scenario.ended_by(), [&StopReason::Unfit]);
    let before = scenario.writes();
    scenario.pass(10 * SECOND);
    let renewed = scenario.writes();
    for side in Side::BOTH {
        assert!(renewed[side as usize] >= before[side as usize] + 3, "{side:?}");
    }
    scenario.pass(60 * SECOND);
    assert_eq!(scenario.writes(), renewed, "no longer");
    scenario.releases_both();
}

#[test]
fn unfit_while_waiting_for_the_secondary_releases_the_primary() {
    let mut scenario = Scenario::with(Config { has_fitness: true, ..Config::default() });
    scenario.give_to(Secondary, "other");
    scenario.user(says(true));
    scenario.user(Input::Campaign { id: 1, once: false });
    scenario.pass(SECOND);
    assert_eq!(scenario.holder(Primary), Some("me"));
    scenario.user(says(false));
    scenario.pass(60 * SECOND);
    assert_eq!(scenario.holder(Primary), None);
    scenario.user(says(true));
    // After a recovery, the candidate waits for a retry period before it acquires.
    scenario.pass(5 * SECOND);
    assert_eq!(scenario.holder(Primary), Some("me"));
}

#[test]
fn term_without_progress_ends_on_both_counted_from_its_start() {
    let mut scenario = Scenario::waiting_with(Config { progress_timeout: Some(5 * SECOND), ..Config::default() });
    scenario.pass(60 * SECOND);
    assert_eq!(scenario.holder(Primary), Some("me"), "it has no work yet");
    scenario.give_to(Secondary, "");
    scenario.pass(SECOND);
    assert!(scenario.is_valid());
    let (deadline, _) = scenario.term.clone().unwrap();
    for _ in 0..5 {
        scenario.pass(3 * SECOND);
        assert!(deadline.progress(scenario.now, scenario.now));
    }
    scenario.pass(6 * SECOND);
    assert!(!scenario.is_valid());
    assert_eq!(scenario.ended_by(), [&StopReason::NoProgress]);
    scenario.renews_neither();
}

#[test]
fn progress_counts_after_a_step_down_as_well() {
    let mut scenario =
        Scenario::campaigning_with(Config { progress_timeout: Some(5 * SECOND), ..Config::default() }).leads();
    scenario.step_down();
    scenario.pass(6 * SECOND);
    scenario.renews_neither();
    assert_eq!(scenario.ended_by(), [&StopReason::SteppedDown]);
}

#[test]
fn unfit_round_ends_and_releases_held_records() {
    let mut scenario = Scenario::with(Config { has_fitness: true, ..Config::default() });
    scenario.give_to(Secondary, "other");
    scenario.user(says(true));
    scenario.user(Input::Campaign { id: 1, once: true });
    scenario.user(says(false));
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::NotFit { campaign: 1 })), 1);
    scenario.pass(60 * SECOND);
    assert_ne!(scenario.holder(Primary), Some("me"));
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::RoundOver { .. })), 0, "reported once");
}

#[test]
fn acquisition_too_late_for_progress_is_released_for_a_while() {
    let mut scenario = Scenario::campaigning_with(Config { progress_timeout: Some(3 * SECOND), ..Config::default() });
    scenario.tables[Secondary as usize].write_takes = 4 * SECOND;
    scenario.pass(60 * SECOND);
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::Offer { .. })), 0);
    let writes = scenario.written.len();
    assert!(writes > 8 && writes < 60, "{writes}");
    // Later, a campaign for one round ends without a term, and both records are released.
    scenario.user(Input::Withdraw(1));
    scenario.user(Input::Campaign { id: 2, once: true });
    scenario.pass(60 * SECOND);
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::RoundOver { campaign: 2, error: None })), 1);
    scenario.user(Input::Campaign { id: 3, once: false });
    scenario.tables[Secondary as usize].write_takes = Duration::ZERO;
    scenario.pass(10 * SECOND);
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::Offer { .. })), 1);
}

#[test]
fn drain_held_by_one_record_alone_is_not_renewed() {
    let mut scenario = Scenario::leading();
    scenario.step_down();
    scenario.give_to(Primary, "other");
    scenario.pass(3 * SECOND);
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::CoverLost(Some(_)))), 1, "reported once");
    scenario.renews_neither();
}

/// The holder's step-down is still queued when the candidate loses the secondary.
#[test]
fn loss_before_a_step_down_notice_leaves_no_drain() {
    let mut scenario = Scenario::leading();
    let (deadline, _) = scenario.term.clone().unwrap();
    deadline.end(scenario.now, StopReason::SteppedDown);
    scenario.give_to(Secondary, "other");
    scenario.user(Input::StepDown(DrainLimit::AsSet));
    assert_eq!(scenario.ended_by(), [&StopReason::SteppedDown]);
    scenario.renews_neither();
}

/// The pair reports `is_giving_back` until both records are released.
#[test]
fn late_win_is_released_on_both() {
    let mut scenario = Scenario::with(Config { progress_timeout: Some(3 * SECOND), ..Config::default() });
    scenario.tables[Secondary as usize].write_takes = 4 * SECOND;
    scenario.drive_until(Secondary, scenario.now);
    scenario.user(Input::Campaign { id: 1, once: true });
    scenario.drive_until(Primary, scenario.now);
    scenario.drive_until(Secondary, scenario.now);
    assert_eq!(Side::BOTH.map(|side| scenario.holder(side)), [Some("me"); 2]);
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::RoundOver { .. })), 1);
    scenario.drive_until(Primary, scenario.now);
    assert_eq!(Side::BOTH.map(|side| scenario.holder(side)), [None, Some("me")]);
    assert!(scenario.pair.is_giving_back());
    scenario.pass(10 * SECOND);
    assert_eq!(scenario.holder(Secondary), None);
    assert!(!scenario.pair.is_giving_back());
}
