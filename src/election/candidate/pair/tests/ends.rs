//! Terms and candidacies on two records that end because their holder ends them.

use super::*;

#[test]
fn a_step_down_is_renewed_on_both_until_the_guard_goes() {
    let mut scenario = Scenario::leading();
    scenario.step_down();
    assert_eq!(scenario.ended_by(), [&StopReason::SteppedDown]);
    let before = scenario.writes();
    scenario.pass(60 * SECOND);
    for side in Side::BOTH {
        assert_eq!(scenario.holder(side), Some("me"));
        assert!(scenario.tables[side as usize].writes > before[side as usize] + 20);
    }
    scenario.releases_both();
}

#[test]
fn primary_held_for_a_campaign_is_released_on_close() {
    let mut scenario = Scenario::waiting();
    assert!(!scenario.pair.is_giving_back());
    scenario.user(Input::Close);
    assert!(scenario.pair.is_giving_back());
    scenario.pass(SECOND);
    assert!(!scenario.pair.is_giving_back());
    assert_eq!(scenario.count(|effect| matches!(effect, Effect::Released)), 1);
}

#[test]
fn unclaimed_term_is_released_on_both() {
    let mut scenario = Scenario::leading();
    scenario.user(Input::NotTaken);
    scenario.pass(SECOND);
    assert_eq!(scenario.written, [(Secondary, None), (Primary, None)]);
}

#[test]
fn it_finishes_when_it_is_closed_and_both_are_released() {
    let mut scenario = Scenario::leading();
    scenario.user(Input::Close);
    scenario.pass(60 * SECOND);
    assert!(scenario.is_valid(), "a guard lives on");
    scenario.releases_both();
    assert_eq!(Side::BOTH.map(|side| scenario.drive(side)), [None, None]);

    let mut scenario = Scenario::waiting();
    scenario.user(Input::Close);
    scenario.pass(SECOND);
    assert_eq!(scenario.holder(Primary), None);
    assert_eq!(Side::BOTH.map(|side| scenario.drive(side)), [None, None]);
}
