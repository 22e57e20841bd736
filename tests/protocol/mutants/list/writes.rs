//! What a write says, and what becomes of one whose outcome is not known.

use super::*;

pub const MUTANTS: &[Mutant] = &[
    // ---- what a write says ----
    Mutant {
        name: "no uid in the record that is written",
        why: "a PUT without it re-creates a deleted lease",
        edits: &[Edit {
            file: REQUESTS,
            old: "uid: base.and_then(|base| base.record.uid.clone()),",
            new: "uid: None,",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "what was certainly not applied stays open",
        why: "a record of another process with our identity is taken for ours",
        edits: &[Edit {
            file: ELECTION,
            old: "                    self.open.retain(|write| write.id != id);\n                }\n                self.pause",
            new: "                }\n                self.pause",
        }],
        caught_by: Unit("election::tests::open_writes::open_writes_one_that_was_certainly_not_applied_is_not_open"),
    },
    Mutant {
        name: "no uid on the PUT",
        why: "it re-creates a deleted lease",
        edits: &[Edit {
            file: OBJECT,
            old: "object[\"metadata\"][\"uid\"] = json!(base.record.uid);",
            new: "object[\"metadata\"][\"uid\"] = json!(null);",
        }],
        caught_by: Test("behaviour", "stores::leases::in_memory::what_is_gone_is_not_updated"),
    },
    Mutant {
        name: "no version on the PUT",
        why: "it compares nothing",
        edits: &[Edit {
            file: OBJECT,
            old: "object[\"metadata\"][\"resourceVersion\"] = json!(base.version.to_string());",
            new: "object[\"metadata\"][\"resourceVersion\"] = json!(null);",
        }],
        caught_by: Test("behaviour", "stores::leases::in_memory::what_has_moved_is_not_updated"),
    },
    Mutant {
        name: "renewTime stands still with the wall clock",
        why: "an unchanged write changes nothing, and nobody sees the holder",
        edits: &[Edit { file: REQUESTS, old: "wall.max(last.saturating_add(counted.max(1)))", new: "wall" }],
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
        edits: &[Edit {
            file: ELECTION,
            old: "stamp - stamp % 1_000_000 + self.random.u64(..1_000_000)",
            new: "stamp + self.random.u64(..1)",
        }],
        caught_by: Unit(
            "election::tests::safety_rules::renew_time_the_digits_of_acquire_time_are_random_for_each_acquisition",
        ),
    },
    Mutant {
        name: "an attempt outlives the record it was made on",
        why: "two acquisitions then look like one",
        edits: &[Edit {
            file: RESPONSES,
            old: "        self.observed = ObservedState::Record(ObservedRecord { observed, changed_at, holder });\n        self.abandon_attempt();",
            new: "        self.observed = ObservedState::Record(ObservedRecord { observed, changed_at, holder });",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "the token is the number of transitions",
        why: "it goes back when the lease is deleted and made anew",
        edits: &[Edit {
            file: RESPONSES,
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
            file: RESPONSES,
            old: "        current == Some(write.acquisition) &&",
            new: "        (current.is_some() || current == Some(write.acquisition)) &&",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a record that is learned of too late is adopted",
        why: "its validity has passed, and others may have waited it out",
        edits: &[Edit {
            file: RESPONSES,
            old: "now < write.sent_at + validity",
            new: "(now >= Moment::from_nanos(0) || now < write.sent_at + validity)",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "an acquisition may have the time of the one before",
        why: "whoever tells acquisitions apart by it sees one term where there are two",
        edits: &[Edit {
            file: ELECTION,
            old: "while taken.as_ref() == Some(&acquire_time) {",
            new: "while taken.is_none() && taken.as_ref() == Some(&acquire_time) {",
        }],
        caught_by: Unit(
            "election::tests::safety_rules::renew_time_the_digits_of_acquire_time_are_never_those_that_stand_there",
        ),
    },
    Mutant {
        name: "only the last open write is remembered",
        why: "an earlier one that lands is taken for a stranger's",
        edits: &[Edit {
            file: REQUESTS,
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
            old: "if self.store_was_restored(context, &observed) {",
            new: "self.open.retain(|write| write.base != observed.version);\n                if self.store_was_restored(context, &observed) {",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "an open create is closed by a read that finds nothing",
        why: "it may land yet",
        edits: &[Edit {
            file: ELECTION,
            old: "            Response::Read(context, None) => {",
            new: "            Response::Read(context, None) => {\n                self.open.clear();",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a 201 is taken for a renewal",
        why: "the lease had been deleted: others may hold another object",
        edits: &[
            Edit {
                file: OPEN_WRITES,
                old: "(may_be_any_object || self.record.uid == record.uid) && self",
                new: "(may_be_any_object || self.base > 0) && self",
            },
            Edit { file: RESPONSES, old: "let recreated = is_another && self", new: "let recreated = false && self" },
        ],
        caught_by: Simulation("an_operator_is_survived"),
    },
    Mutant {
        name: "an edit of metadata costs the term",
        why: "labels are anybody's to edit",
        edits: &[Edit {
            file: RESPONSES,
            old: "        } else if same_record {\n            if let",
            new: "        } else if same_record && self.newest == 0 {\n            if let",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "an edit of metadata restarts a standby's wait",
        why: "a label that is edited often keeps everybody from leading",
        edits: &[Edit {
            file: RESPONSES,
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
            old: "Holder::Predecessor if self.settings.reclaim_own_identity => now.local,",
            new: "Holder::Predecessor | Holder::DuplicateIdentity if !self.settings.identity.is_empty() => now.local,",
        }],
        caught_by: Simulation("the_promise_holds_with_a_shared_identity"),
    },
    Mutant {
        name: "a twin's record is taken for ours",
        why: "both lead by it",
        edits: &[Edit {
            file: RESPONSES,
            old: "self.see(observed, received_at, Holder::DuplicateIdentity);\n            self.end_term(now, StopReason::IdentityConflict);",
            new: "self.see(observed, received_at, Holder::Ourselves);",
        }],
        caught_by: Simulation("the_promise_holds_with_a_shared_identity"),
    },
];
