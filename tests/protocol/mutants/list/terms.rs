//! When a term ends.

use super::*;

pub const MUTANTS: &[Mutant] = &[
    // ---- validity and expiry ----
    Mutant {
        name: "validity counts from the answer",
        why: "others wait from when they received the write, which may be long before its answer comes back",
        edits: &[Edit {
            file: RESPONSES,
            old: "let valid_until = sent_at + self.settings.renew_deadline;",
            new: "let valid_until = now + self.settings.renew_deadline;",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "expiry by our own duration",
        why: "the holder relies on the duration that it published",
        edits: &[Edit {
            file: RESPONSES,
            old: "self.changed_at + self.observed.record.lease_duration_or(settings.lease_duration)",
            new: "self.changed_at + settings.lease_duration",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a take-over comes a tenth too early",
        why: "a holder with a slow clock is valid until the very end",
        edits: &[Edit {
            file: RESPONSES,
            old: "self.changed_at + self.observed.record.lease_duration_or(settings.lease_duration)",
            new: "self.changed_at + self.observed.record.lease_duration_or(settings.lease_duration).mul_f64(0.9)",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a renewal does not restart the wait of others",
        why: "it is what keeps them away",
        edits: &[Edit {
            file: RESPONSES,
            old: "self.observed = ObservedState::Record(ObservedRecord { observed, changed_at, holder });",
            new: "let changed_at = match &self.observed {\n            ObservedState::Record(known) => known.changed_at,\n            _ => changed_at,\n        };\n        self.observed = ObservedState::Record(ObservedRecord { observed, changed_at, holder });",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a term is not over when its deadline has passed",
        why: "its holder is told nothing, and renews on",
        edits: &[Edit { file: ELECTION, old: "self.notice_expiry(now.local);\n", new: "" }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "one request may eat the whole renew deadline",
        why: "one answer that is lost then costs the term",
        edits: &[Edit { file: REQUESTS, old: "(left / 2).max(renew_deadline / 20).min(left),", new: "left," }],
        caught_by: Simulation("the_promise_holds"),
    },
    // ---- loss is final ----
    Mutant {
        name: "a renewal is stored over a latched loss",
        why: "somebody was told that the term is over",
        edits: &[Edit {
            file: DEADLINE,
            old: "        if !self.is_valid(now) {\n            return false;\n        }\n        self.renewed",
            new: "        self.until.store(until.as_nanos() << 1, Ordering::SeqCst);\n        self.renewed",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "who sees a term expired does not latch it",
        why: "another thread whose clock reading is older is then told otherwise",
        edits: &[Edit {
            file: DEADLINE,
            old: "if until <= Self::STALLED {",
            new: "if time(until) <= now.as_nanos() {",
        }],
        caught_by: Unit("election::deadline::tests::who_sees_it_expired_latches_it"),
    },
    Mutant {
        name: "a loss leaves the deadline as it is",
        why: "the holder is told of the loss, and its views go on",
        edits: &[Edit {
            file: ENDING,
            old: "ended by that.\n                let final_reason = term.deadline.end(now, reason);",
            new: "ended by that.\n                let final_reason = if now.as_nanos() > 0 { reason } else { term.deadline.reason() };",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a term whose guard goes is not ended",
        why: "each start has one stop",
        edits: &[Edit { file: ELECTION, old: "        self.end_term(now, StopReason::Released);\n", new: "" }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a release is sent while the guard stands",
        why: "work that is winding down is overlapped",
        edits: &[Edit {
            file: ELECTION,
            old: "TermPhase::Lost => self.observe(now.local),",
            new: "TermPhase::Lost => self.release(now),",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "views turn false after the release",
        why: "a standby leads beside them; three places see to it, so three are broken",
        edits: &[
            Edit {
                file: GUARD,
                old: "            return Err(Error::Forked);\n        }\n        self.term.end(StopReason::Released);\n",
                new: "            return Err(Error::Forked);\n        }\n",
            },
            Edit {
                file: ENDING,
                old: "ended by that.\n                let final_reason = term.deadline.end(now, reason);",
                new: "ended by that.\n                let final_reason = match reason {\n                StopReason::Released => reason,\n                _ => term.deadline.end(now, reason),\n            };",
            },
            Edit {
                file: STATE,
                old: "let reason = term.end(reason);\n        self.log",
                new: "let reason = if reason == StopReason::Released { reason } else { term.end(reason) };\n        self.log",
            },
        ],
        caught_by: Test("behaviour", "guard_api::views_are_false_before_the_release_is_sent"),
    },
    Mutant {
        name: "what is another's is released",
        why: "whoever holds it leads on for as long as it does not know",
        edits: &[Edit {
            file: ELECTION,
            old: "if known.holder == Holder::Ourselves)",
            new: "if known.holder != Holder::Nobody)",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
];
