//! What the user holds, and what it tells.

use super::*;

pub const MUTANTS: &[Mutant] = &[
    // ---- callbacks ----
    Mutant {
        name: "the work's panic is swallowed",
        why: "the program goes on as if it had been done",
        edits: &[Edit {
            file: CALLBACKS,
            old: "            if let Err(panic) = worker.join() {\n                std::panic::resume_unwind(panic);\n            }\n",
            new: "            let _ = worker.join();\n",
        }],
        caught_by: Test("behaviour", "elector::callbacks::a_panic_of_the_work_ends_the_term_and_is_passed_on"),
    },
    Mutant {
        name: "the end is told before the release",
        why: "who exits then leaves a lease that has to run out",
        edits: &[Edit {
            file: CALLBACKS,
            old: "        drop(guard);\n        callbacks.on_stopped_leading();",
            new: "        callbacks.on_stopped_leading();\n        drop(guard);",
        }],
        caught_by: Test("behaviour", "elector::callbacks::the_end_is_told_after_the_release_is_written"),
    },
    Mutant {
        name: "a stop channel without senders spins",
        why: "a processor is lost while the work winds down",
        edits: &[Edit {
            file: CALLBACKS,
            old: "                        stop = channel::never();\n",
            new: "                        stop = stop.clone();\n",
        }],
        caught_by: Test("behaviour", "elector::callbacks::a_stop_channel_that_is_gone_is_heard_once_and_does_not_spin"),
    },
    Mutant {
        name: "a thread that is gone makes callbacks spin",
        why: "a processor is lost while the work winds down",
        edits: &[Edit {
            file: CALLBACKS,
            old: "Err(_) => transitions = channel::never(),",
            new: "Err(_) => transitions = transitions.clone(),",
        }],
        caught_by: Test("behaviour", "elector::panics::callbacks_outlive_a_store_that_panics_without_spinning"),
    },
    // ---- guards ----
    Mutant {
        name: "a guard that goes after the expiry says released",
        why: "the log of a lost term shows an orderly end",
        edits: &[Edit {
            file: DEADLINE,
            old: "if self.is_valid(now) { reason } else { self.ran_out() }",
            new: "if self.is_valid(now) || reason == StopReason::Released { reason } else { self.ran_out() }",
        }],
        caught_by: Test("behaviour", "elector::reasons::a_term_that_ran_out_is_told_as_expired_whoever_notices_first"),
    },
    Mutant {
        name: "the last reason stands",
        why: "what was told is contradicted",
        edits: &[Edit {
            file: DEADLINE,
            old: "        let reason = if self.is_valid(now)",
            new: "        if self.was_ended() {\n            return reason;\n        }\n        let reason = if self.is_valid(now)",
        }],
        caught_by: Unit("election::deadline::tests::the_first_reason_stands_whoever_asks"),
    },
    Mutant {
        name: "the end of a term wakes nobody",
        why: "who waits for it works on",
        edits: &[Edit { file: TERM, old: "        *self.end.lock() = None;\n", new: "" }],
        caught_by: Test("behaviour", "guard_api::lost_wakes_every_waiter"),
    },
    Mutant {
        name: "a panic in a scope does not step down",
        why: "others lead on beside a dead worker",
        edits: &[Edit {
            file: SCOPE,
            old: "        if !self.finished {\n",
            new: "        if !self.finished && !self.guard.is_leader() {\n",
        }],
        caught_by: Test("behaviour", "guard_api::a_panic_in_a_scope_or_in_a_thread_of_it_steps_down_at_once"),
    },
    Mutant {
        name: "a step-down stays with the guard",
        why: "nobody is told, and the probe sees nothing",
        edits: &[Edit { file: HANDLE, old: "self.leave(Command::StepDown(wind_down))", new: "_ = wind_down" }],
        caught_by: Test("behaviour", "elector::reasons::a_term_that_has_just_ended_is_healthy"),
    },
    Mutant {
        name: "a step-down is heard after its guard has gone",
        why: "it is taken for one of the next term, which is not renewed and not known to be over",
        edits: &[Edit { file: TERM, old: "*self.told.lock() = Told::Closed;", new: "" }],
        caught_by: Test("behaviour", "elector::workers::a_step_down_is_of_its_own_term"),
    },
    Mutant {
        name: "that a lease has run out is noticed when something else happens",
        why: "who only watches is told of a dead leader for ever",
        edits: &[Edit {
            file: SESSION,
            old: "self.leader_until().filter(|_| !self.has_run_out).map(|at| at.max(now.local))",
            new: "None::<Moment>",
        }],
        caught_by: Unit(
            "election::candidate::session::tests::that_a_lease_has_run_out_is_told_at_that_moment_and_that_it_is_renewed_as_well",
        ),
    },
    // ---- health and transitions ----
    Mutant {
        name: "a term that has just ended is unhealthy",
        why: "the process is killed while it winds down",
        edits: &[Edit {
            file: HEALTH,
            old: "if over_for > self.winds_down ||",
            new: "if over_for > self.lease_duration / 100_000 ||",
        }],
        caught_by: Test("behaviour", "elector::reasons::a_term_that_has_just_ended_is_healthy"),
    },
    Mutant {
        name: "a term that ends when its guard is gone is one that is held on to",
        why: "a healthy process is restarted, for its thread was the last to notice",
        edits: &[Edit {
            file: HEALTH,
            old: "if state.deadline.is_some() {\n            state.ended",
            new: "if !state.panicked {\n            state.ended",
        }],
        caught_by: Unit("observe::health::tests::who_has_no_guard_does_not_fail_to_drop_it"),
    },
    Mutant {
        name: "a guard that is gone stays unhealthy",
        why: "the process is killed although all is well",
        edits: &[Edit {
            file: HEALTH,
            old: "(state.deadline, state.ended, state.cover_lost, state.renewed) = (None, None, None, None);",
            new: "(state.deadline, state.renewed) = (None, None);",
        }],
        caught_by: Test("behaviour", "guard_api::health_turns_when_winding_down_takes_longer_than_a_lease"),
    },
    Mutant {
        name: "a term ends twice",
        why: "each start has one stop",
        edits: &[Edit {
            file: TRANSITION,
            old: "let is_news = state.leading.take().is_some();",
            new: "let is_news = state.leading.take().is_some() || !state.closed;",
        }],
        caught_by: Test(
            "behaviour",
            "elector::panics::a_lock_that_panics_after_the_end_of_a_term_does_not_end_it_again",
        ),
    },
    Mutant {
        name: "a late subscription does not tell that we lead",
        why: "who subscribes in a term learns only of its end",
        edits: &[Edit {
            file: TRANSITION,
            old: "for transition in leader.into_iter().chain(leading) {",
            new: "for transition in leader.into_iter().chain(leading.filter(|_| state.closed)) {",
        }],
        caught_by: Unit("observe::transition::tests::a_subscription_opens_with_the_present_state"),
    },
    // ---- durations, and the end of an elector ----
    Mutant {
        name: "a wait without end overflows",
        why: "the caller's thread panics",
        edits: &[Edit {
            file: ELECTOR,
            old: "match Instant::now().checked_add(timeout) {",
            new: "match Some(Instant::now() + timeout) {",
        }],
        caught_by: Test("behaviour", "elector::durations::every_extreme_of_every_duration_is_refused_by_name_or_works"),
    },
    Mutant {
        name: "durations have no upper bound",
        why: "sums of them overflow, in builders and in drops",
        edits: &[Edit {
            file: CONFIG,
            old: "            require(value <= LONGEST, field, show(value), \"it must fit in 31 bits of seconds\")?;\n",
            new: "",
        }],
        caught_by: Test("behaviour", "elector::durations::every_extreme_of_every_duration_is_refused_by_name_or_works"),
    },
    Mutant {
        name: "a dropped elector's thread stays",
        why: "each one leaves a thread and a watch behind",
        edits: &[Edit {
            file: ELECTOR,
            old: "        self.shared.link.close();\n",
            new: "        if self.name.is_empty() {\n            self.shared.link.close();\n        }\n",
        }],
        caught_by: Test("behaviour", "faults::release::dropping_an_elector_or_a_campaign_is_prompt"),
    },
];
