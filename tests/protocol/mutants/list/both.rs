//! Two elections with one term.

use super::*;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a term on both is as long as the secondary's",
        why: "another takes the primary, and both lead",
        edits: &[
            Edit {
                file: PAIR,
                old: "Deadline::new(now + primary.remaining(now).min(deadline.remaining(now)))",
                new: "Deadline::new(now + deadline.remaining(now))",
            },
            Edit {
                file: PAIR,
                old: "let left = primary.remaining(now).min(secondary.remaining(now));",
                new: "let left = primary.remaining(now).max(secondary.remaining(now));",
            },
        ],
        caught_by: Unit("runtime::pair::tests::a_term_is_valid_for_as_long_as_both_are"),
    },
    Mutant {
        name: "the secondary is campaigned for without the primary",
        why: "two candidates each hold one, and neither leads",
        edits: &[Edit {
            file: PAIR,
            old: "        self.tell(now, Side::Primary, Input::Campaign { id, once });\n",
            new: "        self.tell(now, Side::Secondary, Input::Campaign { id, once });\n        self.tell(now, Side::Primary, Input::Campaign { id, once });\n",
        }],
        caught_by: Unit("runtime::pair::tests::the_secondary_is_left_alone_while_another_holds_the_primary"),
    },
    Mutant {
        name: "the loss of one leaves the other",
        why: "a leader that holds on to its guard keeps everybody else from leading",
        edits: &[Edit {
            file: PAIR,
            old: "                if !reason.was_asked_for() {\n",
            new: "                if reason.was_asked_for() && reason == StopReason::Expired {\n",
        }],
        caught_by: Unit("runtime::pair::tests::the_loss_of_either_ends_both_and_neither_is_renewed"),
    },
    Mutant {
        name: "the primary is released first",
        why: "whoever takes both waits for the secondary yet",
        edits: &[Edit {
            file: PAIR,
            old: "        self.tell(now, Side::Secondary, Input::GuardGone { at: gone_at });\n",
            new: "        self.release_primary(now);\n        self.tell(now, Side::Secondary, Input::GuardGone { at: gone_at });\n",
        }],
        caught_by: Unit("runtime::pair::tests::the_primary_is_released_also_when_the_secondary_does_not_answer"),
    },
    Mutant {
        name: "the primary waits for the secondary's release for ever",
        why: "nobody leads while the secondary's store is away",
        edits: &[Edit {
            file: PAIR,
            old: "        if release_at(self).is_some_and(|at| now.local >= at) {\n",
            new: "        if release_at(self).is_some_and(|at| now.local < at && at < now.local) {\n",
        }],
        caught_by: Unit("runtime::pair::tests::the_primary_is_released_also_when_the_secondary_does_not_answer"),
    },
    Mutant {
        name: "the primary is released with a duration of a second",
        why: "client-go's MultiLock waits for no more than that, whoever holds the secondary",
        edits: &[Edit { file: PAIR, old: "release_keeps_duration: true", new: "release_keeps_duration: false" }],
        caught_by: Unit(
            "runtime::pair::tests::the_secondary_is_released_first_and_the_primary_keeps_the_published_duration",
        ),
    },
    Mutant {
        name: "who loses the primary goes on campaigning for the secondary",
        why: "it takes the secondary from a fleet whose leader holds the primary",
        edits: &[Edit {
            file: PAIR,
            old: "                let wanted = *wanted;\n                self.begin_anew(now, wanted);\n            }\n            _ => {}",
            new: "                let _ = wanted;\n            }\n            _ => {}",
        }],
        caught_by: Unit("runtime::pair::tests::who_loses_the_primary_while_waiting_begins_anew"),
    },
    Mutant {
        name: "a term begins although the primary has run out",
        why: "it is over before it begins, or, should it be renewed from there, beside another's",
        edits: &[Edit {
            file: PAIR,
            old: "if !primary.is_valid(now) => {",
            new: "if wanted.id == 0 && !primary.is_valid(now) => {",
        }],
        caught_by: Unit("runtime::pair::tests::what_is_won_after_the_primary_ran_out_is_no_term"),
    },
    Mutant {
        name: "the leader is who the secondary names",
        why: "it may hold the secondary alone",
        edits: &[Edit {
            file: PAIR,
            old: "if primary == secondary { primary.clone() } else { None }",
            new: "if primary == secondary { primary.clone() } else { secondary.clone() }",
        }],
        caught_by: Unit("runtime::pair::tests::somebody_leads_when_both_records_name_the_same"),
    },
    Mutant {
        name: "what is won on the secondary is not looked for by its thread",
        why: "its term begins when the thread would have looked again by itself",
        edits: &[Edit {
            file: STATE,
            old: "        self.deferred.wake.extend(std::iter::from_fn(|| self.candidacy.touched()));\n",
            new: "",
        }],
        caught_by: Test("behaviour", "elector::both::a_term_begins_and_is_released_at_once"),
    },
    Mutant {
        name: "a request of the primary that hangs is not given up for its release",
        why: "a standby waits with it",
        edits: &[Edit {
            file: STATE,
            old: "            let _ = ack.try_send(ReleaseAck::Behind(cancellation));\n",
            new: "            let _ = (ack, cancellation);\n",
        }],
        caught_by: Test("behaviour", "elector::both::a_hanging_request_is_given_up_soon_for_the_release_of_both"),
    },
    Mutant {
        name: "the first thread that has nothing left to do ends the elector",
        why: "the other record is not released",
        edits: &[Edit {
            file: DEDICATED,
            old: "if self.has_finished && state.threads > 0 {",
            new: "if self.has_finished && state.threads > 1 {",
        }],
        caught_by: Test("behaviour", "elector::both::an_elector_that_is_dropped_releases_both_when_its_guard_goes"),
    },
];
