//! What is broken, why that is deadly, and which check catches it.
//!
//! Equivalent, and therefore not here:
//!
//! - the latest of several open writes that match is adopted instead of the earliest: no two of them match one record,
//!   for `renewTime` moves with every write;
//! - an open write is closed when a version at its base is learned: a write's base is never above what is known, so
//!   nothing that is news is at the base of an open write. (A read at the base is no news, and is here.)

use std::fmt;

use Check::{Simulation, Test, Unit};

const ELECTION: &str = "src/election.rs";
const LEARNING: &str = "src/election/learning.rs";
const SENDING: &str = "src/election/sending.rs";
const WATCHING: &str = "src/election/watching.rs";
const DEADLINE: &str = "src/deadline.rs";
const LEASE: &str = "src/lock/lease.rs";

pub struct Mutant {
    pub name: &'static str,
    pub why: &'static str,
    pub edits: &'static [Edit],
    pub caught_by: Check,
}

/// `old` stands in the file exactly once.
pub struct Edit {
    pub file: &'static str,
    pub old: &'static str,
    pub new: &'static str,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// A suite of the simulation.
    Simulation(&'static str),
    /// A test of the library itself.
    Unit(&'static str),
    /// A test in a file of `tests`.
    Test(&'static str, &'static str),
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Simulation(test) => write!(f, "simulation, {test}"),
            Unit(test) => f.write_str(test),
            Test(file, test) => write!(f, "tests/{file}, {test}"),
        }
    }
}

pub const MUTANTS: &[Mutant] = &[
    // ---- validity and expiry ----
    Mutant {
        name: "validity counts from the answer",
        why: "others wait from when they received the write, which may be long before its answer comes back",
        edits: &[Edit {
            file: LEARNING,
            old: "let valid_until = sent_at + self.settings.renew_deadline;",
            new: "let valid_until = now + self.settings.renew_deadline;",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "expiry by our own duration",
        why: "the holder relies on the duration that it published",
        edits: &[Edit {
            file: ELECTION,
            old: "known.changed_at + known.observed.record.lease_duration_or(self.settings.lease_duration)",
            new: "known.changed_at + self.settings.lease_duration",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a take-over comes a tenth too early",
        why: "a holder with a slow clock is valid until the very end",
        edits: &[Edit {
            file: ELECTION,
            old: "known.changed_at + known.observed.record.lease_duration_or(self.settings.lease_duration)",
            new: "known.changed_at + known.observed.record.lease_duration_or(self.settings.lease_duration).mul_f64(0.9)",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a renewal does not restart the wait of others",
        why: "it is what keeps them away",
        edits: &[Edit {
            file: LEARNING,
            old: "self.seen = Seen::Record(Known { observed, changed_at, whose });",
            new: "let changed_at = before.map_or(changed_at, |known| known.changed_at);\n        self.seen = Seen::Record(Known { observed, changed_at, whose });",
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
        edits: &[Edit {
            file: SENDING,
            old: "(left / 2).max(self.settings.renew_deadline / 20).min(left),",
            new: "left,",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    // ---- loss is final ----
    Mutant {
        name: "a renewal is stored over a latched loss",
        why: "somebody was told that the term is over",
        edits: &[Edit {
            file: DEADLINE,
            old: "while self.is_valid(now) {",
            new: "self.0.store(until.as_nanos(), Ordering::SeqCst);\n        while self.is_valid(now) {",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "who sees a term expired does not latch it",
        why: "another thread whose clock reading is older is then told otherwise",
        edits: &[Edit { file: DEADLINE, old: "if until <= Self::ENDED {", new: "if until <= now.as_nanos() {" }],
        caught_by: Unit("deadline::tests::who_sees_it_expired_latches_it"),
    },
    Mutant {
        name: "a loss leaves the deadline as it is",
        why: "the holder is told of the loss, and its views go on",
        edits: &[Edit { file: ELECTION, old: "            term.deadline.end();\n", new: "" }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a term whose guard goes is not ended",
        why: "each start has one stop",
        edits: &[Edit { file: ELECTION, old: "        self.lose(StopReason::Released);\n", new: "" }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a release is sent while the guard stands",
        why: "work that is winding down is overlapped",
        edits: &[Edit {
            file: ELECTION,
            old: "Standing::Lost => self.observe(now.local),",
            new: "Standing::Lost => self.release(now),",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "views turn false after the release",
        why: "a standby leads beside them; three places see to it, so three are broken",
        edits: &[
            Edit {
                file: "src/guard.rs",
                old: "    pub fn release(mut self) -> Result<(), Error> {\n        self.term.end(StopReason::Released);\n",
                new: "    pub fn release(mut self) -> Result<(), Error> {\n",
            },
            Edit {
                file: ELECTION,
                old: "            term.deadline.end();\n",
                new: "            if reason != StopReason::Released {\n                term.deadline.end();\n            }\n",
            },
            Edit {
                file: "src/driver.rs",
                old: "        term.end(reason.clone());\n",
                new: "        if reason != StopReason::Released {\n            term.end(reason.clone());\n        }\n",
            },
        ],
        caught_by: Test("public_face", "views_are_false_before_the_release_is_sent"),
    },
    Mutant {
        name: "what is another's is released",
        why: "whoever holds it leads on for as long as it does not know",
        edits: &[Edit {
            file: ELECTION,
            old: "if known.whose == Whose::Ours)",
            new: "if known.whose != Whose::Nobodys)",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    // ---- what a write says ----
    Mutant {
        name: "no uid in the record that is written",
        why: "a PUT without it re-creates a deleted lease",
        edits: &[Edit { file: SENDING, old: "uid: base.and_then(|base| base.record.uid.clone()),", new: "uid: None," }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "no uid on the PUT",
        why: "it re-creates a deleted lease",
        edits: &[Edit {
            file: LEASE,
            old: "object[\"metadata\"][\"uid\"] = json!(base.record.uid);",
            new: "object[\"metadata\"][\"uid\"] = json!(null);",
        }],
        caught_by: Test("lease_lock", "an_update_of_a_deleted_lease_is_a_conflict_and_does_not_make_it_anew"),
    },
    Mutant {
        name: "no version on the PUT",
        why: "it compares nothing",
        edits: &[Edit {
            file: LEASE,
            old: "object[\"metadata\"][\"resourceVersion\"] = json!(base.version.to_string());",
            new: "object[\"metadata\"][\"resourceVersion\"] = json!(null);",
        }],
        caught_by: Test("lease_lock", "an_update_of_what_has_moved_is_a_conflict_and_leaves_it"),
    },
    Mutant {
        name: "renewTime stands still with the wall clock",
        why: "an unchanged write changes nothing, and nobody sees the holder",
        edits: &[Edit { file: SENDING, old: "wall.max(last.saturating_add(counted.max(1)))", new: "wall" }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "transitions are not counted up",
        why: "it is how others tell terms apart",
        edits: &[Edit { file: ELECTION, old: ".max(0).saturating_add(1)", new: ".max(0)" }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "acquireTime has no random digits",
        why: "twins that start together write the same record",
        edits: &[Edit { file: ELECTION, old: "+ self.random.u64(..1_000_000);", new: ";" }],
        caught_by: Unit(
            "election::tests::safety_rules::renew_time_the_digits_of_acquire_time_are_random_for_each_acquisition",
        ),
    },
    Mutant {
        name: "an attempt outlives the record it was made on",
        why: "two acquisitions then look like one",
        edits: &[Edit {
            file: LEARNING,
            old: "        self.seen = Seen::Record(Known { observed, changed_at, whose });\n        self.abandon_attempt();",
            new: "        self.seen = Seen::Record(Known { observed, changed_at, whose });",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "the token is the number of transitions",
        why: "it goes back when the lease is deleted and made anew",
        edits: &[Edit {
            file: LEARNING,
            old: "let fencing_token = *version;",
            new: "let fencing_token = *version * 0 + record.lease_transitions.unwrap_or(0) as u64;",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    // ---- open writes ----
    Mutant {
        name: "a record of an ended term is adopted",
        why: "a guard that is gone would lead",
        edits: &[Edit {
            file: LEARNING,
            old: "current == Some(write.acquisition) && now",
            new: "(current.is_some() || current == Some(write.acquisition)) && now",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a record that is learned of too late is adopted",
        why: "its validity has passed, and others may have waited it out",
        edits: &[Edit {
            file: LEARNING,
            old: "current == Some(write.acquisition) && now < write.sent_at + self.settings.renew_deadline",
            new: "current == Some(write.acquisition) && now >= Moment::from_nanos(0)",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "only the last open write is remembered",
        why: "an earlier one that lands is taken for a stranger's",
        edits: &[Edit {
            file: SENDING,
            old: "self.open.push(OpenWrite {",
            new: "self.open.clear();\n        self.open.push(OpenWrite {",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a conflict closes a write",
        why: "most writes that were answered so under load had been applied",
        edits: &[Edit {
            file: ELECTION,
            old: "self.pause(now, error.retry_after().unwrap_or_default());",
            new: "if moved {\n                    self.open.retain(|write| write.id != id);\n                }\n                self.pause(now, error.retry_after().unwrap_or_default());",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "an open write is closed by a read at its base",
        why: "it may have been sent before the write landed",
        edits: &[Edit {
            file: ELECTION,
            old: "if self.went_back(look, &observed) {",
            new: "self.open.retain(|write| write.base != observed.version);\n                if self.went_back(look, &observed) {",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "an open create is closed by a read that finds nothing",
        why: "it may land yet",
        edits: &[Edit {
            file: ELECTION,
            old: "            Answer::Read(look, None) => {",
            new: "            Answer::Read(look, None) => {\n                self.open.clear();",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a 201 is taken for a renewal",
        why: "the lease had been deleted: others may hold another object",
        edits: &[Edit {
            file: LEARNING,
            old: "(self.base == 0 || self.record.uid == record.uid) && self",
            new: "self",
        }],
        caught_by: Simulation("an_operator_is_survived"),
    },
    Mutant {
        name: "an edit of metadata costs the term",
        why: "labels are anybody's to edit",
        edits: &[Edit {
            file: LEARNING,
            old: "        } else if same_record {\n            if let",
            new: "        } else if same_record && self.newest == 0 {\n            if let",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "an edit of metadata restarts a standby's wait",
        why: "a label that is edited often keeps everybody from leading",
        edits: &[Edit {
            file: LEARNING,
            old: "known.observed = observed;\n",
            new: "known.observed = observed;\n                known.changed_at = received_at;\n",
        }],
        caught_by: Unit(
            "election::tests::open_writes::open_writes_b_an_edit_of_metadata_does_not_restart_a_standbys_wait",
        ),
    },
    Mutant {
        name: "a twin's record is taken over at once",
        why: "the twin leads",
        edits: &[Edit {
            file: ELECTION,
            old: "Whose::Twins if self.settings.reclaim_own_identity => now.local,",
            new: "Whose::Twins if !self.settings.identity.is_empty() => now.local,",
        }],
        caught_by: Simulation("the_promise_holds_among_namesakes"),
    },
    Mutant {
        name: "a twin's record is taken for ours",
        why: "both lead by it",
        edits: &[Edit {
            file: LEARNING,
            old: "self.see(observed, received_at, Whose::Twins);\n            self.lose(StopReason::IdentityConflict);",
            new: "self.see(observed, received_at, Whose::Ours);",
        }],
        caught_by: Simulation("the_promise_holds_among_namesakes"),
    },
    // ---- order ----
    Mutant {
        name: "events are taken out of version order",
        why: "a late echo of a predecessor ends the term, or its version is written over",
        edits: &[Edit {
            file: LEARNING,
            old: "if observed.version <= self.newest {",
            new: "if observed.version == self.newest {",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a deletion is taken out of version order",
        why: "it came before the object was made anew",
        edits: &[Edit { file: LEARNING, old: "if version > self.newest {", new: "if version > 0 {" }],
        caught_by: Unit("election::tests::watching::late_echoes_old_events_and_late_deletions_cost_no_term"),
    },
    Mutant {
        name: "a read sent before is taken for a restored store",
        why: "reads that overtake each other would end terms",
        edits: &[Edit { file: LEARNING, old: "version < look.newest\n", new: "version < self.newest\n" }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a read below what is known is no news",
        why: "a store that was restored is never noticed",
        edits: &[Edit {
            file: LEARNING,
            old: "version < look.newest\n",
            new: "version == 0 && version < look.newest\n",
        }],
        caught_by: Simulation("a_restored_store_is_survived"),
    },
    Mutant {
        name: "a version that was used again is no news",
        why: "its candidates stand still for ever",
        edits: &[Edit {
            file: LEARNING,
            old: "            || matches!(&self.seen, Seen::Record(known) if is_another(known))\n",
            new: "            || matches!(&self.seen, Seen::Record(known) if look.absent && is_another(known))\n",
        }],
        caught_by: Unit(
            "election::tests::open_writes::order_another_record_at_a_version_that_was_known_proves_a_restored_store",
        ),
    },
    Mutant {
        name: "a restored store does not end the term",
        why: "its record is undone: whatever stands there instead ends the term too, but says another reason",
        edits: &[Edit { file: LEARNING, old: "        self.lose(StopReason::StoreRestored);\n", new: "" }],
        caught_by: Unit(
            "election::tests::open_writes::order_only_a_read_sent_after_a_version_was_known_proves_a_restored_store",
        ),
    },
    // ---- watches ----
    Mutant {
        name: "a watch that stands is never found silent",
        why: "a connection that is dead and does not say so hides everything",
        edits: &[Edit { file: ELECTION, old: "        self.notice_silence(now.local);\n", new: "" }],
        caught_by: Unit(
            "election::tests::watching::a_held_lease_without_events_for_a_third_of_its_duration_makes_the_watch_stale",
        ),
    },
    Mutant {
        name: "a bookmark is taken for a version of the lease",
        why: "changes below it would be no news",
        edits: &[Edit {
            file: WATCHING,
            old: "WatchEvent::Bookmark { .. } => {}",
            new: "WatchEvent::Bookmark { version } => self.newest = self.newest.max(version),",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "an event counts from when it was worked off",
        why: "a lease that has run out is taken later than it could be",
        edits: &[Edit {
            file: WATCHING,
            old: "self.learn(now, received_at, observed);",
            new: "self.learn(now, now, observed);",
        }],
        caught_by: Unit(
            "election::tests::watching::a_lease_that_runs_out_is_taken_over_at_the_very_expiry_counted_from_the_receipt",
        ),
    },
];
