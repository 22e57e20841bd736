//! Leaders whose work hangs, candidates that are not fit, and work that winds down.

use super::*;

pub const MUTANTS: &[Mutant] = &[
    // ---- progress ----
    Mutant {
        name: "late progress revives a term",
        why: "another may lead by then",
        edits: &[Edit {
            file: PROGRESS,
            old: "(until > now.as_nanos()).then_some(until.max(new))",
            new: "Some(until.max(new))",
        }],
        caught_by: Unit("election::deadline::tests::late_progress_revives_nothing_and_does_not_change_the_reason"),
    },
    Mutant {
        name: "progress alone keeps a term valid",
        why: "others wait for renewals, not for work",
        edits: &[Edit {
            file: DEADLINE,
            old: "Some(progress_until) if progress_until <= renewed_until =>",
            new: "Some(progress_until) =>",
        }],
        caught_by: Simulation("the_promise_holds_with_the_unfit"),
    },
    Mutant {
        name: "work that hangs goes on being renewed",
        why: "nobody else ever leads",
        edits: &[Edit {
            file: ENDING,
            old: "            TermPhase::Valid | TermPhase::WindingDown(_) if is_stalled => self.end_term(now, StopReason::NoProgress),\n",
            new: "",
        }],
        caught_by: Simulation("the_promise_holds_with_the_unfit"),
    },
    Mutant {
        name: "the end by want of progress is not noticed in time",
        why: "who waits for the end of the term is not woken",
        edits: &[Edit { file: ENDING, old: "self.progress.as_ref().map(|limit| limit.until())", new: "None" }],
        caught_by: Unit("election::tests::fitness::progress_is_noticed_to_the_moment"),
    },
    Mutant {
        name: "an acquisition is adopted when its first progress is due already",
        why: "its term is over as it begins",
        edits: &[Edit {
            file: RESPONSES,
            old: "            Phase::Campaigning(_) if self.is_too_late_for_progress(write, now) => return false,\n",
            new: "",
        }],
        caught_by: Simulation("the_promise_holds_with_the_unfit"),
    },
    Mutant {
        name: "what came too late for its first progress is taken over at once",
        why: "who is that far from the store never leads, and keeps others from leading",
        edits: &[Edit { file: RESPONSES, old: "            self.gives_back |= too_late.is_some();\n", new: "" }],
        caught_by: Unit(
            "election::tests::fitness::progress_an_acquisition_that_is_answered_too_late_for_it_is_released_and_made_again_later",
        ),
    },
    Mutant {
        name: "the worker that is furthest ahead counts",
        why: "it hides the one that hangs",
        edits: &[Edit {
            file: WORK,
            old: "stamp.at.load(Ordering::SeqCst)).min()",
            new: "stamp.at.load(Ordering::SeqCst)).max()",
        }],
        caught_by: Test("behaviour", "elector::fitness::of_several_workers_the_one_that_is_furthest_behind_counts"),
    },
    Mutant {
        name: "a worker that panicked does not count any more",
        why: "it is the one that makes no progress",
        edits: &[Edit { file: WORK, old: "if std::thread::panicking() {", new: "if false {" }],
        caught_by: Test("behaviour", "elector::fitness::of_several_workers_the_one_that_is_furthest_behind_counts"),
    },
    Mutant {
        name: "on two records the work is not asked for progress",
        why: "both are renewed for ever",
        edits: &[Edit {
            file: PAIR,
            old: "                    self.tell_both(now, || Input::LimitProgress(Arc::clone(&limit)));\n",
            new: "                    drop(limit);\n",
        }],
        caught_by: Unit("election::candidate::pair::tests::fitness::progress_counts_after_a_step_down_as_well"),
    },
    Mutant {
        name: "a hung worker is found by the elector's thread alone",
        why: "that may hang as well, and looks healthy",
        edits: &[Edit {
            file: HEALTH,
            old: ".filter(|deadline| !deadline.is_valid(now))",
            new: ".filter(|deadline| deadline.was_ended())",
        }],
        caught_by: Unit("observe::health::tests::work_without_progress_is_unhealthy_at_once"),
    },
    // ---- fitness ----
    Mutant {
        name: "who is unfit acquires",
        why: "it leads and cannot work",
        edits: &[Edit { file: ENDING, old: "        self.barred = !is_fit;\n", new: "" }],
        caught_by: Simulation("the_promise_holds_with_the_unfit"),
    },
    Mutant {
        name: "who is unfit acquires on two records",
        why: "it leads and cannot work",
        edits: &[Edit {
            file: PAIR,
            old: "            self.tell_both(now, || Input::SetFit(may_acquire));\n            let is_unfit",
            new: "            self.tell_both(now, || Input::SetFit(may_acquire || true));\n            let is_unfit",
        }],
        caught_by: Simulation("candidates_on_both_exclude_those_on_the_primary"),
    },
    Mutant {
        name: "what was acquired just before it became unfit begins a term",
        why: "it leads and cannot work",
        edits: &[Edit { file: ENDING, old: "            self.abandon_attempt();\n", new: "" }],
        caught_by: Unit(
            "election::tests::fitness::fitness_an_acquisition_that_lands_while_unfit_is_released_and_its_campaign_goes_on",
        ),
    },
    Mutant {
        name: "what lands for who is unfit is kept",
        why: "nobody leads until it runs out, and it is kept for as long as it is unfit",
        edits: &[Edit {
            file: ELECTION,
            old: "Phase::Campaigning(_) => !self.stands_aside(),",
            new: "Phase::Campaigning(_) => true,",
        }],
        caught_by: Unit(
            "election::tests::fitness::fitness_an_acquisition_that_lands_while_unfit_is_released_and_its_campaign_goes_on",
        ),
    },
    Mutant {
        name: "the silence of a probe is a yes",
        why: "a probe hangs by what it is to find",
        edits: &[Edit {
            file: FITNESS_POLICY,
            old: "self.silent_at().is_none_or(|at| at.is_some_and(|at| now < at))",
            new: "self.silent_at().is_none_or(|at| at.is_some())",
        }],
        caught_by: Unit("election::candidate::fitness::tests::silence_is_a_no"),
    },
    Mutant {
        name: "an answer is heard before the silence of the probe",
        why: "a term begins that is over",
        edits: &[Edit {
            file: SESSION,
            old: "        // What is answered now may come too late for a probe that has been silent.\n        self.judge_fitness(now);\n",
            new: "",
        }],
        caught_by: Unit(
            "election::candidate::session::tests::what_is_won_when_the_probe_has_been_silent_for_too_long_is_no_term",
        ),
    },
    Mutant {
        name: "who flaps waits no longer each time",
        why: "leaders that cannot work follow each other",
        edits: &[Edit { file: FITNESS_POLICY, old: "checked_shl(self.recoveries)", new: "checked_shl(0)" }],
        caught_by: Unit(
            "election::candidate::fitness::tests::who_becomes_fit_again_and_again_waits_longer_and_longer_until_it_has_been_fit_for_that_long",
        ),
    },
    Mutant {
        name: "a no that the program takes back at once is not heard",
        why: "the term goes on over it",
        edits: &[Edit { file: FITNESS, old: "since > 1 || !is_odd(changes)", new: "!is_odd(changes)" }],
        caught_by: Unit("leadership::fitness::tests::a_no_that_is_taken_back_at_once_is_a_no"),
    },
    Mutant {
        name: "who holds both too late for the first progress acquires them again at once",
        why: "it never leads, and keeps others from leading",
        edits: &[Edit {
            file: PAIR,
            old: "limit.as_ref().filter(|limit| limit.until() <= now)",
            new: "limit.as_ref().filter(|_| false)",
        }],
        caught_by: Unit(
            "election::candidate::pair::tests::fitness::what_is_held_of_both_too_late_for_the_first_progress_is_given_back_for_a_while",
        ),
    },
    Mutant {
        name: "the pause of who is fit again and again is never shortened for a standby",
        why: "a moment of unfitness after weeks keeps it from leading for a minute",
        edits: &[Edit {
            file: FITNESS_POLICY,
            old: "if now.since(self.fit_since) >= self.pause.saturating_mul(2) {",
            new: "if false {",
        }],
        caught_by: Unit(
            "election::candidate::fitness::tests::who_becomes_fit_again_and_again_waits_longer_and_longer_until_it_has_been_fit_for_that_long",
        ),
    },
    Mutant {
        name: "each of several electors runs a slow probe for itself",
        why: "those who wait for their turn are not fit",
        edits: &[Edit {
            file: PROBING,
            old: "            let _ = waits.try_send(Answer::Said(Said { panics_anew: false, ..said }));\n",
            new: "            let _ = waits.try_send(Answer::Run);\n",
        }],
        caught_by: Test("behaviour", "elector::fitness::a_probe_that_is_slow_answers_all_clones_of_a_builder_in_time"),
    },
    // ---- winding down ----
    Mutant {
        name: "a worker that panicked takes the cover from those that wind down",
        why: "another leads while they work",
        edits: &[Edit {
            file: WORK,
            old: "!(is_ended && stamp.is_abandoned",
            new: "!(false && is_ended && stamp.is_abandoned",
        }],
        caught_by: Test("behaviour", "elector::fitness::work_that_winds_down_beside_a_worker_that_panicked_is_covered"),
    },
    Mutant {
        name: "work that hangs while it winds down is healthy",
        why: "nobody restarts the process",
        edits: &[Edit { file: HEALTH, old: " || stalled_at.is_some() {", new: " {" }],
        caught_by: Unit(
            "observe::health::tests::work_that_hangs_while_it_winds_down_is_unhealthy_at_once_and_what_is_not_renewed_any_more_after_a_lease",
        ),
    },
    Mutant {
        name: "winding down goes on on one record when the other is lost",
        why: "it covers nothing, and keeps others from leading",
        edits: &[Edit {
            file: PAIR,
            old: "            self.tell_both(now, || Input::Lost(reason.clone()));\n        }\n        let Stage",
            new: "            let _ = reason;\n        }\n        let Stage",
        }],
        caught_by: Unit(
            "election::candidate::pair::tests::fitness::what_covers_the_winding_down_on_one_record_alone_is_not_renewed",
        ),
    },
    Mutant {
        name: "winding down is renewed for ever",
        why: "work that hangs keeps the lease",
        edits: &[Edit {
            file: ENDING,
            old: "TermPhase::WindingDown(Some(until)) if now >= until => {",
            new: "TermPhase::WindingDown(Some(until)) if false && now >= until => {",
        }],
        caught_by: Unit("election::tests::fitness::winding_down_is_covered_for_as_long_as_was_said"),
    },
    Mutant {
        name: "the last limit of several counts",
        why: "a limit that was set is lifted by a step-down that has none",
        edits: &[Edit {
            file: ENDING,
            old: "*before = before.iter().copied().chain(until).min()",
            new: "*before = until",
        }],
        caught_by: Unit("election::tests::fitness::winding_down_is_covered_for_as_long_as_was_said"),
    },
    Mutant {
        name: "a term that ends because it is unfit is not renewed",
        why: "the work that winds down is not covered",
        edits: &[Edit {
            file: STOP_REASON,
            old: "matches!(self, Self::SteppedDown | Self::Unfit)",
            new: "matches!(self, Self::SteppedDown)",
        }],
        caught_by: Unit(
            "election::tests::fitness::fitness_a_leader_that_is_unfit_winds_down_and_releases_when_its_guard_goes",
        ),
    },
    Mutant {
        name: "a limit after a step-down is not told",
        why: "work that hangs keeps the lease",
        edits: &[Edit { file: TERM, old: " || (*told == Told::SteppedDown && wind_down != WindDown::AsSet)", new: "" }],
        caught_by: Unit("leadership::guard::tests::a_step_down_is_told_once"),
    },
];
