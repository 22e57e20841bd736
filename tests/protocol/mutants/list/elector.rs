//! The elector's threads, and the line to them.

use super::*;

pub const MUTANTS: &[Mutant] = &[
    // ---- the elector's thread ----
    Mutant {
        name: "an old error outlives a success",
        why: "a later try is told of it, although nothing failed",
        edits: &[Edit {
            file: FAILURES,
            old: "        (self.last, self.refusal) = (None, None);\n        let tracker",
            new: "        self.refusal = None;\n        let tracker",
        }],
        caught_by: Test("behaviour", "elector::stopping::an_error_from_before_is_not_the_answer_of_a_later_try"),
    },
    Mutant {
        name: "a stale watch is not given up",
        why: "what it should have told is polled for ever",
        edits: &[Edit {
            file: STATE,
            old: "Effect::RestartWatch => self.deferred.restart_watch.push(side),",
            new: "Effect::RestartWatch => {}",
        }],
        caught_by: Test(
            "behaviour",
            "elector::watches::a_watch_that_falls_silent_is_given_up_for_one_that_begins_from_scratch_and_not_in_a_tight_loop",
        ),
    },
    Mutant {
        name: "an acquisition under way does not count when the elector is closed",
        why: "the process ends, and leaves the lease held until it runs out",
        edits: &[Edit {
            file: ELECTION,
            old: "(self.owes_release() || self.open.iter().any(may_land))",
            new: "self.owes_release()",
        }],
        caught_by: Unit(
            "election::candidate::session::tests::who_closes_it_in_the_middle_of_an_acquisition_waits_for_what_becomes_of_that",
        ),
    },
    Mutant {
        name: "an acquisition that hangs is not cancelled when the elector is closed",
        why: "what it has won cannot be given back before that",
        edits: &[Edit { file: SESSION, old: "if self.may_hold() {", new: "if false {" }],
        caught_by: Unit(
            "election::candidate::session::tests::who_closes_it_in_the_middle_of_an_acquisition_waits_for_what_becomes_of_that",
        ),
    },
    Mutant {
        name: "a leader counts as giving back when the elector is closed",
        why: "who drops the elector before the guard waits for himself",
        edits: &[Edit {
            file: ELECTION,
            old: "!matches!(self.phase, Phase::Leading(_)) && (self.owes_release()",
            new: "(self.owes_release()",
        }],
        caught_by: Unit("election::candidate::session::tests::who_closes_it_as_a_leader_waits_for_nothing"),
    },
    Mutant {
        name: "whoever drops an elector is told at once that nothing is held",
        why: "the process ends, and leaves the lease held until it runs out",
        edits: &[Edit {
            file: STATE,
            old: "if self.is_awaited_to_close && !self.candidacy.may_hold() {",
            new: "if self.is_awaited_to_close {",
        }],
        caught_by: Test(
            "behaviour",
            "elector::releases::an_elector_that_is_dropped_gives_back_what_it_is_about_to_win",
        ),
    },
    Mutant {
        name: "the transition tells another reason than the check",
        why: "whoever ended the term first has said why",
        edits: &[Edit {
            file: STATE,
            old: "let reason = term.end(reason);\n        self.log",
            new: "term.end(reason.clone());\n        self.log",
        }],
        caught_by: Unit("runtime::dedicated::tests::whoever_ends_a_term_first_says_why_to_everybody"),
    },
    Mutant {
        name: "the reason is told after the end",
        why: "whoever asks in between is told another, and whoever drops the guard makes it a release",
        edits: &[Edit {
            file: DEADLINE,
            old: "        let final_reason = self.reason.get_or_init(|| reason).clone();\n",
            new: "        let final_reason = reason;\n",
        }],
        caught_by: Unit("runtime::dedicated::tests::whoever_asks_before_the_thread_has_told_hears_the_true_reason"),
    },
    Mutant {
        name: "a panic does not tell the end of the term",
        why: "whoever follows the transitions leads on",
        edits: &[Edit {
            file: STATE,
            old: "if self.shared.subscriptions.stopped(reason.clone()) {",
            new: "if self.token.is_some() {",
        }],
        caught_by: Test("behaviour", "elector::panics::a_lock_that_panics_ends_the_term_once_and_keeps_nobody_waiting"),
    },
    Mutant {
        name: "a panic leaves the process healthy",
        why: "it never leads again, and nobody restarts it",
        edits: &[Edit { file: STATE, old: "            self.shared.health.thread_panicked();\n", new: "" }],
        caught_by: Test("behaviour", "elector::panics::a_lock_that_panics_ends_the_term_once_and_keeps_nobody_waiting"),
    },
    Mutant {
        name: "a panic leaves a campaign unanswered",
        why: "its caller waits for ever",
        edits: &[Edit {
            file: DEDICATED,
            old: "        shared.pending.stop(&shared.link);\n        shared.subscriptions.close();",
            new: "        shared.subscriptions.close();",
        }],
        caught_by: Test("behaviour", "elector::panics::a_lock_that_panics_ends_a_campaign"),
    },
    Mutant {
        name: "a panic leaves subscriptions connected",
        why: "whoever follows them waits for ever",
        edits: &[Edit { file: DEDICATED, old: "        shared.subscriptions.close();\n", new: "" }],
        caught_by: Test("behaviour", "elector::panics::a_lock_that_panics_ends_the_term_once_and_keeps_nobody_waiting"),
    },
    Mutant {
        name: "whoever panicked may have left anything behind, and is believed",
        why: "a stop that was told in the middle of it is never told again",
        edits: &[Edit {
            file: STATE,
            old: "if mem::replace(&mut self.at_work, true) {",
            new: "if mem::replace(&mut self.at_work, false) && self.token == Some(0) {",
        }],
        caught_by: Unit("runtime::dedicated::tests::after_a_panic_nothing_more_is_heard_and_the_stop_is_told"),
    },
    Mutant {
        name: "a term that nobody took waits for a renewal that hangs",
        why: "others wait with it, although nobody leads",
        edits: &[Edit {
            file: STATE,
            old: "None => self.deferred.cancel.push(cancellation.cancel),",
            new: "None => drop(cancellation),",
        }],
        caught_by: Test("behaviour", "elector::releases::a_term_that_nobody_took_is_released_although_a_renewal_hangs"),
    },
    // ---- observers, and the status ----
    Mutant {
        name: "an observer that is behind is waited for",
        why: "one that hangs ends the term",
        edits: &[Edit {
            file: OBSERVING,
            old: "if let Err(TrySendError::Full(_)) = self.facts.try_send(fact.clone()) {",
            new: "if self.facts.send(fact.clone()).is_err() {",
        }],
        caught_by: Test("behaviour", "elector::observers::an_observer_that_hangs_or_panics_hurts_nobody"),
    },
    Mutant {
        name: "a panic is no end of a term for observers",
        why: "the leader that they know of leads for ever",
        edits: &[Edit { file: STATE, old: "                self.observe(&Fact::StoppedLeading(reason));\n", new: "" }],
        caught_by: Test("behaviour", "elector::observers::after_a_panic_the_status_says_so"),
    },
    Mutant {
        name: "a renewal counts from its answer",
        why: "a store that gets slow is not seen to",
        edits: &[Edit {
            file: SESSION,
            old: "Effect::Renewed(now.since(sent_at))",
            new: "Effect::Renewed(sent_at.since(now))",
        }],
        caught_by: Unit("election::candidate::session::tests::a_renewal_takes_as_long_as_since_it_was_sent"),
    },
    Mutant {
        name: "a read in the middle of a term is on no slow path",
        why: "nobody sees that renewals fail",
        edits: &[Edit {
            file: STATE,
            old: "operation == StoreOperation::Get && self.term",
            new: "operation == StoreOperation::Create && self.term",
        }],
        caught_by: Test("behaviour", "elector::observers::a_failed_renewal_and_the_read_that_follows_it_are_told"),
    },
    Mutant {
        name: "after its term ran out, and another leads, a process is still unhealthy as one that cannot renew",
        why: "client-go finds it healthy, and it would be restarted for nothing",
        edits: &[Edit { file: STATE, old: "                        self.shared.health.superseded();\n", new: "" }],
        caught_by: Test(
            "behaviour",
            "elector::health::with_a_tolerance_a_leader_that_cannot_renew_is_unhealthy_after_its_lease_and_that",
        ),
    },
    Mutant {
        name: "who winds down is unhealthy as one that cannot renew",
        why: "its work is cut short, although it is covered",
        edits: &[Edit {
            file: HEALTH,
            old: "if *reason != StopReason::Expired {",
            new: "if *reason == StopReason::Expired && state.panicked {",
        }],
        caught_by: Test("behaviour", "elector::health::with_a_tolerance_who_steps_down_is_healthy"),
    },
    Mutant {
        name: "what a watch tells is no contact",
        why: "a standby that is told everything, and asks for nothing, is taken for cut off",
        edits: &[Edit {
            file: WATCHER,
            old: "            health.contact(side);\n",
            new: "            let _ = &health;\n",
        }],
        caught_by: Test("behaviour", "elector::health::what_a_watch_tells_is_contact"),
    },
    Mutant {
        name: "an event without a uid",
        why: "it is taken, and not found at its object",
        edits: &[Edit {
            file: EVENTS,
            old: "\"name\": name, \"uid\": uid }",
            new: "\"name\": name, \"uid\": uid.filter(|uid| uid.is_array()) }",
        }],
        caught_by: Test("behaviour", "events::in_memory::terms_are_events_that_are_found_at_their_object"),
    },
    // ---- the session ----
    Mutant {
        name: "a session forgets to withdraw",
        why: "it acquires what nobody waits for",
        edits: &[Edit {
            file: SESSION,
            old: "if self.campaign.take_if(|campaign| *campaign == id).is_some() {\n                    self.election.withdraw();\n                }",
            new: "self.campaign.take_if(|campaign| *campaign == id);",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a session loses the word that nobody took a term",
        why: "it leads for nobody",
        edits: &[Edit {
            file: SESSION,
            old: "Input::NotTaken => self.election.guard_gone(now, now),",
            new: "Input::NotTaken => {}",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a watch plan loses a restart",
        why: "what the watch has not told is never told",
        edits: &[Edit {
            file: WATCH_PLAN,
            old: "pub fn restart(&mut self) {\n        self.from = None;",
            new: "pub fn restart(&mut self) {\n        let _ = &self.from;",
        }],
        caught_by: Simulation("a_restored_store_is_survived"),
    },
    // ---- the watcher ----
    Mutant {
        name: "the back-off of watches does not grow",
        why: "thousands of candidates ask a server that is down once a retry period each",
        edits: &[Edit {
            file: WATCH_PLAN,
            old: ".saturating_mul(1 << self.failures.min(10))",
            new: ".saturating_mul(1)",
        }],
        caught_by: Unit(
            "election::candidate::watch_plan::tests::pauses_grow_from_the_retry_period_to_a_minute_until_a_watch_has_lasted",
        ),
    },
    Mutant {
        name: "watches never back off",
        why: "thousands of candidates ask a server that is down as often as they can",
        edits: &[Edit {
            file: WATCH_PLAN,
            old: "let pause = self.jittered(pause.max(self.retry_period));",
            new: "let pause = self.jittered(pause.min(self.retry_period));",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a watch comes back before the server wants it",
        why: "it asked to be left alone, because it is overloaded",
        edits: &[Edit { file: WATCH_PLAN, old: "pause.max(error.retry_after().unwrap_or_default())", new: "pause" }],
        caught_by: Test(
            "behaviour",
            "elector::watches::a_server_that_asks_to_be_left_alone_is_not_asked_for_a_watch_before",
        ),
    },
    Mutant {
        name: "a watch whose version is forgotten asks for it again",
        why: "it is refused for ever, and the lease is polled",
        edits: &[Edit {
            file: WATCH_PLAN,
            old: "        if error.kind() == Expired {\n            self.from = None;\n        }\n",
            new: "",
        }],
        caught_by: Test(
            "behaviour",
            "elector::watches::a_watch_goes_on_where_the_last_one_ended_and_begins_anew_after_an_expiry",
        ),
    },
    Mutant {
        name: "a watch that ends in good order counts as standing",
        why: "nobody polls until the next, up to a minute later",
        edits: &[Edit {
            file: WATCHER,
            old: "            let ended = self.watch(&stop);\n",
            new: "            let ended = self.watch(&stop);\n            if ended.is_ok() {\n                let ended = self.plan.ended(clock::now(), Ok(()));\n                pause = ended.pause.unwrap_or_default();\n                continue;\n            }\n",
        }],
        caught_by: Test(
            "behaviour",
            "elector::watches::watches_that_end_soon_come_at_longer_and_longer_intervals_and_are_polled_beside",
        ),
    },
    Mutant {
        name: "brief watches follow each other at once",
        why: "a server that ends each one is asked in a tight loop",
        edits: &[Edit {
            file: WATCH_PLAN,
            old: "if lasted > self.retry_period {\n            self.failures = 0;\n            return",
            new: "if !self.retry_period.is_zero() {\n            self.failures = 0;\n            return",
        }],
        caught_by: Test(
            "behaviour",
            "elector::watches::watches_that_end_soon_come_at_longer_and_longer_intervals_and_are_polled_beside",
        ),
    },
    Mutant {
        name: "a watch that panics counts as standing",
        why: "nothing is polled for a third of the lease, time and again",
        edits: &[Edit {
            file: WATCHER,
            old: "        if std::thread::panicking() {\n            self.link.tell",
            new: "        if std::thread::panicking() && self.fields.identity.is_empty() {\n            self.link.tell",
        }],
        caught_by: Test("behaviour", "elector::panics::a_watch_that_panics_is_replaced_by_polling"),
    },
    Mutant {
        name: "a restart ends the pause",
        why: "behind a proxy that passes nothing on watches are opened without a pause",
        edits: &[Edit {
            file: WATCHER,
            old: "                Ok(()) => self.plan.restart(),\n                Err(RecvTimeoutError",
            new: "                Ok(()) => {\n                    self.plan.restart();\n                    return Pause::Over;\n                }\n                Err(RecvTimeoutError",
        }],
        caught_by: Test(
            "behaviour",
            "elector::watches::a_watch_that_falls_silent_is_given_up_for_one_that_begins_from_scratch_and_not_in_a_tight_loop",
        ),
    },
    Mutant {
        name: "a restarted watch goes on where it was",
        why: "what it has not told is never told",
        edits: &[Edit {
            file: WATCHER,
            old: "            let _ = wake.try_send(());\n",
            new: "            let _ = wake;\n",
        }],
        caught_by: Test(
            "behaviour",
            "elector::watches::a_watch_that_falls_silent_is_given_up_for_one_that_begins_from_scratch_and_not_in_a_tight_loop",
        ),
    },
    Mutant {
        name: "a watch that is given up makes up for those before it",
        why: "it told something at its beginning, and then nothing, each time",
        edits: &[Edit {
            file: WATCH_PLAN,
            old: "if is_given_up { LONGEST_PAUSE } else { self.retry_period }",
            new: "self.retry_period",
        }],
        caught_by: Unit(
            "election::candidate::watch_plan::tests::a_watch_that_lasted_and_told_makes_up_for_those_before_it",
        ),
    },
    Mutant {
        name: "each watch begins with what is there",
        why: "every end of a watch costs a read of everybody",
        edits: &[Edit {
            file: WATCH_PLAN,
            old: "        self.from = Some(cursor);\n",
            new: "        let _ = cursor;\n",
        }],
        caught_by: Test(
            "behaviour",
            "elector::watches::a_watch_goes_on_where_the_last_one_ended_and_begins_anew_after_an_expiry",
        ),
    },
    Mutant {
        name: "news waits behind a request that hangs",
        why: "a standby learns of a release, and waits for the time-out",
        edits: &[Edit {
            file: WATCHER,
            old: "                cancellation.carry_out(Duration::MAX);\n",
            new: "                let _ = cancellation;\n",
        }],
        caught_by: Test("behaviour", "watching::a_standby_hears_of_a_release_while_a_look_of_its_own_hangs"),
    },
    // ---- the line to the thread ----
    Mutant {
        name: "the elector's thread waits for itself",
        why: "a guard that is dropped in a lock or a logger holds up everything for the release timeout",
        edits: &[Edit {
            file: HANDLE,
            old: "if IS_RUNTIME.with(Cell::get) {",
            new: "if !IS_RUNTIME.with(Cell::get) && self.release_timeout.is_zero() {",
        }],
        caught_by: Test(
            "behaviour",
            "elector::releases::a_guard_that_is_dropped_inside_a_call_of_its_lock_does_not_wait_for_itself",
        ),
    },
    Mutant {
        name: "a release waits for a request that hangs",
        why: "others wait for the lease to run out",
        edits: &[Edit {
            file: HANDLE,
            old: "Ok(ReleaseAck::Behind(cancellation)) => cancellation.carry_out(left()),",
            new: "Ok(ReleaseAck::Behind(_)) => {}",
        }],
        caught_by: Test(
            "behaviour",
            "elector::releases::a_hanging_request_is_given_up_soon_however_long_the_release_timeout",
        ),
    },
    Mutant {
        name: "a release's timeout is a part of its timeout",
        why: "a long release timeout makes a hand-over slow",
        edits: &[Edit {
            file: ROUND_TRIP,
            old: "answered_by.max(RELEASE_WAITS.min(release_timeout / 4)).min(release_timeout / 2)",
            new: "release_timeout / 4",
        }],
        caught_by: Test(
            "behaviour",
            "elector::releases::a_hanging_request_is_given_up_soon_however_long_the_release_timeout",
        ),
    },
    Mutant {
        name: "a release by a thread that is gone is a time-out",
        why: "the caller is told to wait for what never comes",
        edits: &[Edit {
            file: HANDLE,
            old: "Err(RecvTimeoutError::Disconnected) => return Err(Error::Stopped),\n                Err(RecvTimeoutError::Timeout) => {",
            new: "Err(_) => {",
        }],
        caught_by: Test("behaviour", "elector::panics::a_lock_that_panics_ends_the_term_once_and_keeps_nobody_waiting"),
    },
    Mutant {
        name: "a release keeps the seat",
        why: "the elector is busy for ever",
        edits: &[Edit {
            file: HANDLE,
            old: "        self.free_seat();\n        released\n",
            new: "        released\n",
        }],
        caught_by: Test("behaviour", "guard_api::a_new_term_has_a_greater_token_and_does_not_revive_old_views"),
    },
    // ---- campaigns ----
    Mutant {
        name: "a stop does not withdraw",
        why: "an elector that was stopped takes the lease, for a moment",
        edits: &[Edit {
            file: SLOT,
            old: "            let waiting = state.end(id, link).inspect(|_| link.leave(Command::Withdraw(id)));",
            new: "            let waiting = state.end(id, link);",
        }],
        caught_by: Test("behaviour", "elector::stopping::a_stopped_elector_never_acquires"),
    },
    Mutant {
        name: "a campaign that is dropped is not withdrawn",
        why: "its elector takes the lease, for a moment",
        edits: &[Edit {
            file: SLOT,
            old: "        let waiting = self.0.lock().end(id, link).inspect(|_| link.leave(Command::Withdraw(id)));\n",
            new: "        let waiting = self.0.lock().end(id, link);\n",
        }],
        caught_by: Test("behaviour", "elector::stopping::a_withdrawn_campaign_never_acquires"),
    },
    Mutant {
        name: "a stop ends one campaign only",
        why: "the next one waits for ever",
        edits: &[Edit { file: SLOT, old: "|state| state.stopped = true", new: "|_| {}" }],
        caught_by: Test("behaviour", "elector::stopping::a_stopped_elector_never_acquires"),
    },
    Mutant {
        name: "a term that its channel does not take keeps the seat",
        why: "the elector is busy for ever",
        edits: &[Edit {
            file: SLOT,
            old: "waiting.answer(Ok(guard)).inspect_err(|_| link.free_seat())",
            new: "waiting.answer(Ok(guard))",
        }],
        caught_by: Test(
            "behaviour",
            "elector::campaigns::a_term_that_the_channel_does_not_take_is_released_and_the_elector_is_free",
        ),
    },
    Mutant {
        name: "a receiver disconnects with its campaign",
        why: "a `select!` on a clone of it spins",
        edits: &[Edit { file: CAMPAIGN, old: "            self.slot.keep(self.sender.clone());\n", new: "" }],
        caught_by: Test(
            "behaviour",
            "elector::campaigns::a_clone_of_the_receiver_hears_once_that_the_campaign_was_withdrawn_and_is_silent_then",
        ),
    },
    Mutant {
        name: "a guard that a withdrawn campaign leaves in its channel stays there",
        why: "the lease is held by nobody who knows of it",
        edits: &[Edit {
            file: CAMPAIGN,
            old: "                    guard.abandon();\n",
            new: "                    std::mem::forget(guard);\n",
        }],
        caught_by: Test(
            "behaviour",
            "elector::campaigns::a_clone_of_the_receiver_hears_once_that_the_campaign_was_withdrawn_and_is_silent_then",
        ),
    },
];
