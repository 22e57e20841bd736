//! Two elections with one term.

use super::*;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a term on both is as long as the secondary's",
        why: "another takes the primary, and both lead",
        edits: &[
            Edit {
                file: PAIR,
                old: "let until = now + primary.remaining(now).min(deadline.remaining(now));",
                new: "let until = now + deadline.remaining(now);",
            },
            Edit {
                file: PAIR,
                old: "let left = primary.remaining(now).min(secondary.remaining(now));",
                new: "let left = primary.remaining(now).max(secondary.remaining(now));",
            },
        ],
        caught_by: Unit("election::candidate::pair::tests::a_term_is_valid_for_as_long_as_both_are"),
    },
    Mutant {
        name: "the secondary is campaigned for without the primary",
        why: "two candidates each hold one, and neither leads",
        edits: &[Edit {
            file: PAIR,
            old: "        self.tell(now, Side::Primary, Input::Campaign { id, once });\n",
            new: "        self.tell(now, Side::Secondary, Input::Campaign { id, once });\n        self.tell(now, Side::Primary, Input::Campaign { id, once });\n",
        }],
        caught_by: Unit(
            "election::candidate::pair::tests::the_secondary_is_left_alone_while_another_holds_the_primary",
        ),
    },
    Mutant {
        name: "the loss of one leaves the other",
        why: "a leader that holds on to its guard keeps everybody else from leading",
        edits: &[Edit {
            file: PAIR,
            old: "|reason: &StopReason| !reason.was_asked_for() && !reason.winds_down();",
            new: "|reason: &StopReason| reason.was_asked_for() && *reason == StopReason::Expired;",
        }],
        caught_by: Unit("election::candidate::pair::tests::the_loss_of_either_ends_both_and_neither_is_renewed"),
    },
    Mutant {
        name: "the primary is released first",
        why: "whoever takes both waits for the secondary yet",
        edits: &[Edit {
            file: PAIR,
            old: "        self.tell(now, Side::Secondary, Input::GuardGone { at: gone_at });\n",
            new: "        self.release_primary(now);\n        self.tell(now, Side::Secondary, Input::GuardGone { at: gone_at });\n",
        }],
        caught_by: Unit(
            "election::candidate::pair::tests::the_primary_is_released_also_when_the_secondary_does_not_answer",
        ),
    },
    Mutant {
        name: "the primary waits for the secondary's release for ever",
        why: "nobody leads while the secondary's store is away",
        edits: &[Edit {
            file: PAIR,
            old: "        if release_at(self).is_some_and(|at| now.local >= at) {\n",
            new: "        if release_at(self).is_some_and(|at| now.local < at && at < now.local) {\n",
        }],
        caught_by: Unit(
            "election::candidate::pair::tests::the_primary_is_released_also_when_the_secondary_does_not_answer",
        ),
    },
    Mutant {
        name: "the primary is released with a duration of a second",
        why: "client-go's MultiLock waits for no more than that, whoever holds the secondary",
        edits: &[Edit { file: PAIR, old: "release_keeps_duration: true", new: "release_keeps_duration: false" }],
        caught_by: Unit(
            "election::candidate::pair::tests::the_secondary_is_released_first_and_the_primary_keeps_the_published_duration",
        ),
    },
    Mutant {
        name: "who loses the primary goes on campaigning for the secondary",
        why: "it takes the secondary from a fleet whose leader holds the primary",
        edits: &[Edit {
            file: PAIR,
            old: "                let wanted = *wanted;\n                self.give_up_campaign(now);\n                self.stage = Stage::Waiting(wanted, now);\n            }\n            _ => {}",
            new: "                let _ = wanted;\n            }\n            _ => {}",
        }],
        caught_by: Unit("election::candidate::pair::tests::who_loses_the_primary_while_waiting_begins_anew"),
    },
    Mutant {
        name: "a term begins although the primary has run out",
        why: "it is over before it begins, or, should it be renewed from there, beside another's",
        edits: &[Edit {
            file: PAIR,
            old: "if !primary.is_valid(now) => {",
            new: "if wanted.id == 0 && !primary.is_valid(now) => {",
        }],
        caught_by: Unit("election::candidate::pair::tests::what_is_won_after_the_primary_ran_out_is_no_term"),
    },
    Mutant {
        name: "the leader is who the secondary names",
        why: "it may hold the secondary alone",
        edits: &[Edit {
            file: PAIR,
            old: "if primary == secondary { primary.clone() } else { None }",
            new: "if primary == secondary { primary.clone() } else { secondary.clone() }",
        }],
        caught_by: Unit("election::candidate::pair::tests::somebody_leads_when_both_records_name_the_same"),
    },
    Mutant {
        name: "what is won on the secondary is not looked for by its thread",
        why: "its term begins when the thread would have looked again by itself",
        edits: &[Edit {
            file: STATE,
            old: "        self.deferred.wake.extend(std::iter::from_fn(|| self.candidacy.touched()));\n",
            new: "",
        }],
        caught_by: Unit("runtime::dedicated::tests::whoever_gives_the_other_thread_something_to_do_wakes_it"),
    },
    Mutant {
        name: "a request of the primary that hangs is not given up for its release",
        why: "a standby waits with it",
        edits: &[Edit {
            file: STATE,
            old: "Some(ack) => drop(ack.try_send(ReleaseAck::Behind(cancellation))),",
            new: "Some(_) => drop(cancellation),",
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
    Mutant {
        name: "nobody notices that the term on both has run out",
        why: "who waits for its end waits for ever, and both records are renewed for nobody",
        edits: &[Edit {
            file: PAIR,
            old: "let has_run_out = !both.is_valid(now) && !both.was_ended();",
            new: "let has_run_out = !both.is_valid(now) && both.was_ended() && !both.was_ended();",
        }],
        caught_by: Unit(
            "election::candidate::pair::tests::a_term_that_its_holder_has_found_run_out_is_told_to_be_over",
        ),
    },
    Mutant {
        name: "the news of a watch is for whoever took it",
        why: "the thread that is to act by it sleeps on",
        edits: &[Edit {
            file: PAIR,
            old: "                self.tell(now, side, input);\n            }\n        }\n        self.hear(now);",
            new: "                self.session_mut(side).handle(now, input);\n            }\n        }\n        self.hear(now);",
        }],
        caught_by: Unit("election::candidate::pair::tests::the_news_of_a_watch_is_a_reason_for_its_side_to_look_again"),
    },
    Mutant {
        name: "the primary is taken for a secondary that cannot be read",
        why: "a candidate without rights keeps everybody from leading by the primary",
        edits: &[Edit {
            file: PAIR,
            old: "None if now >= *at && self.secondary.has_observed() && self.fitness.may_acquire() => {",
            new: "_ if now >= *at => {",
        }],
        caught_by: Unit(
            "election::candidate::pair::tests::the_primary_is_left_to_others_until_the_secondary_can_be_read",
        ),
    },
    Mutant {
        name: "the primary is kept for a secondary that cannot be written",
        why: "a candidate that lost its rights keeps everybody from leading by the primary",
        edits: &[Edit {
            file: PAIR,
            old: "Stage::Second(wanted, _) if failures.is_failing_for_long() => {",
            new: "Stage::Second(wanted, _) if wanted.id == 0 && failures.is_failing_for_long() => {",
        }],
        caught_by: Unit(
            "election::candidate::pair::tests::the_primary_is_given_back_when_the_secondary_cannot_be_written_for_a_renew_deadline",
        ),
    },
    Mutant {
        name: "a release waits behind the news of itself",
        why: "whoever drops a guard waits for an answer that says what is known",
        edits: &[Edit {
            file: STATE,
            old: "self.cancellation(side).filter(|_| behind == Behind::Release)",
            new: "self.cancellation(side).filter(|_| behind == Behind::Release || behind == Behind::News)",
        }],
        caught_by: Test(
            "behaviour",
            "elector::releases::a_release_that_the_watch_tells_of_is_not_waited_for_any_longer",
        ),
    },
    Mutant {
        name: "who has heard of one record has heard of both",
        why: "an alert stays silent while the other cannot be reached",
        edits: &[Edit {
            file: HEALTH,
            old: "self.contact.iter().copied().min().flatten()",
            new: "self.contact.iter().copied().max().flatten()",
        }],
        caught_by: Test("behaviour", "elector::both::who_cannot_reach_the_secondary_leaves_the_primary_to_others"),
    },
    Mutant {
        name: "an elector on both that is dropped waits for what is held alone",
        why: "what is just being acquired stays held when the process ends",
        edits: &[Edit {
            file: PAIR,
            old: "self.is_giving_back() || self.primary.may_hold() || self.secondary.may_hold()",
            new: "self.is_giving_back()",
        }],
        caught_by: Test(
            "behaviour",
            "elector::both::an_elector_that_is_dropped_gives_back_what_it_is_about_to_win_on_either",
        ),
    },
    Mutant {
        name: "a failed read is not repeated while a watch works",
        why: "a standby whose one read of the secondary failed never leads again",
        edits: &[Edit {
            file: SESSION,
            old: "        self.election.set_read_failed(self.failures.of(StoreOperation::Get).is_some());\n",
            new: "",
        }],
        caught_by: Simulation("candidates_on_both_exclude_those_on_the_primary"),
    },
    Mutant {
        name: "the refusal of an earlier campaign refuses the next",
        why: "a right that is granted later is never used",
        edits: &[Edit {
            file: FAILURES,
            old: "self.refusal.as_ref().filter(|(at, _)| *at >= since)",
            new: "self.refusal.as_ref().filter(|(at, _)| *at >= since || since >= *at)",
        }],
        caught_by: Unit(
            "election::candidate::pair::tests::failures::a_refusal_refuses_the_campaign_and_leaves_the_primary_to_others",
        ),
    },
    Mutant {
        name: "a campaign that is dropped after its elector waits for nothing",
        why: "the process ends before the release, and the lease stays held",
        edits: &[Edit {
            file: HANDLE,
            old: "        if self.closed.load(Ordering::SeqCst) {\n            self.close();\n        }\n",
            new: "",
        }],
        caught_by: Threads("ending::an_elector_is_dropped_while_its_campaign_waits"),
    },
    Mutant {
        name: "an elector that is dropped leaves the primary behind",
        why: "whoever comes next waits a lease duration for a process that has ended",
        edits: &[Edit {
            file: HANDLE,
            old: "false => drop(self.wait_for(|ack| Command::Close { ack: Some(ack) })),",
            new: "false => self.tell(Command::Close { ack: None }),",
        }],
        caught_by: Test(
            "behaviour",
            "elector::both::an_elector_that_is_dropped_gives_back_what_it_holds_before_the_process_ends",
        ),
    },
];
