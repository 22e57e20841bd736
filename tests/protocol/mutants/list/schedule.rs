//! The election: what is sent when, what is told, and what the watch is believed.

use super::*;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a candidate asks twenty times in a retry period",
        why: "thousands of them ask a server that is down as often",
        edits: &[Edit {
            file: REQUESTS,
            old: "self.settings.retry_period.mul_f64(1.0 + ",
            new: "self.settings.retry_period.mul_f64(0.05 + 0.0 * ",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "the leader of a lease that is gone stays the leader",
        why: "who asks for the current leader is sent to one that is no more",
        edits: &[Edit {
            file: RESPONSES,
            old: "        self.end_term(now, StopReason::Deleted);\n        self.report_leader();\n",
            new: "        self.end_term(now, StopReason::Deleted);\n",
        }],
        caught_by: Unit("election::tests::pace::a_lease_that_is_gone_has_no_leader"),
    },
    Mutant {
        name: "a deletion that is told closes an open create",
        why: "the create lands in an object of its own, and is taken for a stranger's",
        edits: &[Edit {
            file: RESPONSES,
            old: "self.open.retain(|write| write.base == 0 || write.base >= version);",
            new: "self.open.retain(|write| write.base >= version);",
        }],
        caught_by: Unit(
            "election::tests::open_writes::open_writes_a_create_is_not_closed_by_an_event_of_an_object_that_nobody_knew",
        ),
    },
    Mutant {
        name: "renewals are paced from the answer",
        why: "a slow server takes of each term what it needs for its answers",
        edits: &[Edit {
            file: RESPONSES,
            old: "let renew_at = sent_at + self.settings.renew_interval;",
            new: "let renew_at = now + self.settings.renew_interval;",
        }],
        caught_by: Unit("election::tests::pace::renewals_are_paced_from_their_sending"),
    },
    Mutant {
        name: "renewTime never follows the wall clock",
        why: "people read it, and after a clock was set right it is wrong for ever",
        edits: &[Edit {
            file: REQUESTS,
            old: "wall.max(last.saturating_add(counted.max(1)))",
            new: "last.saturating_add(counted.max(1))",
        }],
        caught_by: Unit("election::tests::safety_rules::renew_time_follows_a_wall_clock_that_is_set_forward"),
    },
    Mutant {
        name: "a release is hurried for ever",
        why: "a server that is down is hammered by all who let go",
        edits: &[Edit {
            file: REQUESTS,
            old: "Some(until) if now < until => Urgency::Release",
            new: "Some(until) => Urgency::Release",
        }],
        caught_by: Unit("election::tests::pace::a_release_is_urgent_only_until_its_timeout"),
    },
    Mutant {
        name: "a pause that was asked for is ignored by a release",
        why: "a server that is overloaded is asked again before its time",
        edits: &[Edit {
            file: REQUESTS,
            old: "        let pause = if asked <= left",
            new: "        let asked = if matches!(self.urgency(now), Urgency::Release { .. }) { Duration::ZERO } else { asked };\n        let pause = if asked <= left",
        }],
        caught_by: Unit("election::tests::pace::a_release_keeps_a_pause_that_leaves_time_for_another_attempt"),
    },
    Mutant {
        name: "silence does not reckon with our own renew interval",
        why: "a leader that renews seldom reads before each renewal",
        edits: &[Edit {
            file: WATCHING,
            old: "tolerance = tolerance.max(self.settings.renew_interval * 2);",
            new: "tolerance = tolerance.max(Duration::ZERO);",
        }],
        caught_by: Unit("election::tests::watching::a_leader_that_renews_seldom_is_not_found_silent"),
    },
    Mutant {
        name: "a conflict of identities is told at each write",
        why: "the log is full of one error",
        edits: &[Edit {
            file: RESPONSES,
            old: "if !matches!(&self.observed, ObservedState::Record(known) if known.holder == Holder::DuplicateIdentity) {",
            new: "if !matches!(&self.observed, ObservedState::Absent { .. }) {",
        }],
        caught_by: Unit("election::tests::open_writes::open_writes_d_a_predecessor_that_renews_is_another_process"),
    },
    Mutant {
        name: "a predecessor is told as a conflict",
        why: "each restart under a fixed identity logs an error",
        edits: &[Edit {
            file: RESPONSES,
            old: "self.events.push_back(Event::Predecessor);",
            new: "self.events.push_back(Event::IdentityConflict);",
        }],
        caught_by: Test(
            "behaviour",
            "elector::shared_identity::a_predecessor_of_the_same_name_is_waited_for_without_an_error",
        ),
    },
    Mutant {
        name: "a twin's record is reclaimed at once",
        why: "two of them take it from each other as fast as the network lets them",
        edits: &[Edit {
            file: ELECTION,
            old: "Holder::DuplicateIdentity if self.settings.reclaim_own_identity => self.schedule.reclaim_at,",
            new: "Holder::DuplicateIdentity if self.settings.reclaim_own_identity => now.local,",
        }],
        caught_by: Test("behaviour", "elector::shared_identity::twins_that_reclaim_do_so_at_the_retry_period"),
    },
    Mutant {
        name: "a second step-down loses the term",
        why: "work that is winding down is covered no longer",
        edits: &[Edit {
            file: ENDING,
            old: "TermPhase::WindingDown(before) => *before = before.iter().copied().chain(until).min(),",
            new: "TermPhase::WindingDown(_) => term.phase = TermPhase::Lost,",
        }],
        caught_by: Unit("election::tests::safety_rules::loss_is_final_a_second_step_down_changes_nothing"),
    },
    Mutant {
        name: "a term that had run out ends by what came later",
        why: "who reads why it ended looks in the wrong place",
        edits: &[Edit {
            file: ENDING,
            old: "ended by that.\n                let final_reason = term.deadline.end(now, reason);",
            new: "ended by that.\n                term.deadline.end(now, reason.clone());\n            let final_reason = reason;",
        }],
        caught_by: Unit("election::tests::safety_rules::loss_is_final_and_has_the_reason_that_was_there_first"),
    },
    Mutant {
        name: "a create that was beaten waits for news that it has had",
        why: "nothing more is told, so the campaign stands still for a retry period",
        edits: &[Edit {
            file: ELECTION,
            old: "if write.is_some_and(|write| !given_up(write) && !explained(write)) {",
            new: "if write.is_some_and(|write| !given_up(write) || moved && explained(write)) {",
        }],
        caught_by: Unit(
            "election::tests::watching::a_create_whose_beater_was_told_of_before_its_refusal_waits_for_no_other_event",
        ),
    },
    Mutant {
        name: "a closed election does not wait for its open writes",
        why: "what lands later is held by nobody until it runs out",
        edits: &[Edit {
            file: ELECTION,
            old: "if self.open.iter().all(|write| write.progress != Progress::Open) || self.close_deadline_passed(now) {",
            new: "if self.closing || self.close_deadline_passed(now) {",
        }],
        caught_by: Unit(
            "election::tests::numbered_rules::rule_6_a_write_that_lands_after_the_close_is_released_before_the_end",
        ),
    },
    Mutant {
        name: "a closed election waits for ever for its open writes",
        why: "its thread and its connections stay behind",
        edits: &[Edit {
            file: ELECTION,
            old: "if self.open.iter().all(|write| write.progress != Progress::Open) || self.close_deadline_passed(now) {",
            new: "if self.open.iter().all(|write| write.progress != Progress::Open) {",
        }],
        caught_by: Unit(
            "election::tests::numbered_rules::rule_6_a_closed_election_waits_for_its_open_writes_at_most_for_the_renew_deadline",
        ),
    },
    Mutant {
        name: "a closed connection is waited out",
        why: "each costs a retry period of the term, or of a hand-over",
        edits: &[Edit {
            file: ELECTION,
            old: "error.kind() == StoreErrorKind::ConnectionClosed && !self.schedule.repeated =>",
            new: "error.kind() == StoreErrorKind::ConnectionClosed && self.schedule.repeated =>",
        }],
        caught_by: Unit("election::tests::pace::what_a_closed_connection_brought_down_is_sent_again_at_once_and_once"),
    },
    Mutant {
        name: "closed connections are answered without end",
        why: "whatever closes every connection is asked in a tight loop",
        edits: &[Edit {
            file: ELECTION,
            old: "error.kind() == StoreErrorKind::ConnectionClosed && !self.schedule.repeated =>",
            new: "error.kind() == StoreErrorKind::ConnectionClosed =>",
        }],
        caught_by: Unit("election::tests::pace::what_a_closed_connection_brought_down_is_sent_again_at_once_and_once"),
    },
    Mutant {
        name: "a write whose connection was closed is forgotten",
        why: "it may have been carried out, and is then taken for a stranger's",
        edits: &[Edit {
            file: ELECTION,
            old: "        self.schedule.repeated = true;\n",
            new: "        self.schedule.repeated = true;\n        self.open.clear();\n",
        }],
        caught_by: Unit("election::tests::pace::what_a_closed_connection_brought_down_is_sent_again_at_once_and_once"),
    },
    Mutant {
        name: "a request in flight has a quarter of the release timeout",
        why: "a hanging renewal holds up the hand-over, although the server was near",
        edits: &[Edit {
            file: ROUND_TRIP,
            old: "answered_by.max(RELEASE_WAITS.min(release_timeout / 4))",
            new: "answered_by.max(release_timeout / 4)",
        }],
        caught_by: Test(
            "behaviour",
            "elector::releases::a_hanging_request_is_given_up_soon_however_long_the_release_timeout",
        ),
    },
];
