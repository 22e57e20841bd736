//! Tests of the checker: made-up lines with two leaders and with decreasing tokens.

use crate::support::exclusion::{History, Term};
use crate::support::late_write;
use crate::support::late_write::Suspension;
use crate::support::process::Line;

fn leading(identity: &str, token: u64, mono: f64) -> Line {
    let fencing_token = Some(token);
    Line {
        event: "leading".into(),
        identity: identity.into(),
        mono,
        fencing_token,
        leader: None,
        address: None,
        reason: None,
        shard: None,
    }
}

fn term(identity: &str, token: u64, first: f64, last: f64) -> Term {
    Term { identity: identity.into(), token: Some(token), first, last }
}

#[test]
fn one_after_the_other_is_no_overlap() {
    let lines = [leading("a", 5, 1.0), leading("a", 5, 2.0), leading("b", 7, 2.1), leading("a", 9, 3.0)];
    let history = History::of(&lines);
    assert_eq!(history.terms, [term("a", 5, 1.0, 2.0), term("b", 7, 2.1, 2.1), term("a", 9, 3.0, 3.0)]);
    assert_eq!((history.heartbeats, history.handovers()), (4, 2));
    assert!(history.overlaps.is_empty() && history.disorder.is_empty(), "{history:?}");
}

#[test]
fn simultaneous_terms_overlap_in_any_order_of_lines() {
    let long = term("a", 5, 1.0, 4.0);
    for (lines, overlaps) in [
        (
            vec![leading("b", 7, 1.5), leading("a", 5, 2.0), leading("a", 5, 1.0)],
            vec![(term("a", 5, 1.0, 2.0), term("b", 7, 1.5, 1.5))],
        ),
        // One candidate has two terms at once. Then one term overlaps two later terms.
        (
            vec![leading("a", 5, 1.0), leading("a", 7, 2.0), leading("a", 5, 4.0)],
            vec![(long.clone(), term("a", 7, 2.0, 2.0))],
        ),
        (
            vec![leading("a", 5, 1.0), leading("b", 7, 2.0), leading("c", 9, 3.0), leading("a", 5, 4.0)],
            vec![(long.clone(), term("b", 7, 2.0, 2.0)), (long, term("c", 9, 3.0, 3.0))],
        ),
    ] {
        assert_eq!(History::of(&lines).overlaps, overlaps);
    }
    let lines = [leading("a", 5, 1.0), leading("b", 7, 1.0)];
    assert_eq!(History::of(&lines).overlaps.len(), 1, "the same moment is one");
}

#[test]
fn tokens_that_go_back_or_are_given_twice_are_found() {
    let lines = [leading("a", 5, 1.0), leading("b", 9, 2.0), leading("c", 7, 3.0), leading("d", 8, 4.0)];
    let nine = term("b", 9, 2.0, 2.0);
    let expected = [(nine.clone(), term("c", 7, 3.0, 3.0)), (nine, term("d", 8, 4.0, 4.0))];
    assert_eq!(History::of(&lines).disorder, expected);
    let lines = [leading("a", 5, 1.0), leading("b", 5, 2.0)];
    assert_eq!(History::of(&lines).disorder.len(), 1);
}

#[test]
fn line_of_a_stopped_process_is_late_after_a_new_leader() {
    // `a` checked its term at 2.0, was stopped, and printed the line after it continued at 6.0.
    let lines = [leading("a", 5, 1.0), leading("b", 7, 5.0), leading("a", 5, 2.0)];
    let suspension = Suspension { identity: "a".into(), stopped_at: 2.1, continued_at: 6.0, heard: 2 };
    let history = History::of(&lines);
    assert!(history.overlaps.is_empty(), "by its stamp it led alone");
    assert_eq!(late_write::lines(&lines, &history, &suspension), 1);

    let heard_before = Suspension { heard: 3, ..suspension.clone() };
    assert_eq!(late_write::lines(&lines, &history, &heard_before), 0);
    let sooner = Suspension { continued_at: 4.0, ..suspension };
    assert_eq!(late_write::lines(&lines, &history, &sooner), 0, "nobody else led yet");
}

#[test]
fn stopped_process_that_still_leads_on_wake_is_an_overlap() {
    let lines = [leading("a", 5, 1.0), leading("b", 7, 5.0), leading("a", 5, 6.1)];
    let suspension = Suspension { identity: "a".into(), stopped_at: 2.1, continued_at: 6.0, heard: 2 };
    let history = History::of(&lines);
    assert_eq!(history.overlaps.len(), 1);
    assert_eq!(late_write::lines(&lines, &history, &suspension), 0);
}
