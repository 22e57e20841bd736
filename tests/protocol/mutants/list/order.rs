//! What is news, and what a watch tells.

use super::*;

pub const MUTANTS: &[Mutant] = &[
    // ---- order ----
    Mutant {
        name: "events are taken out of version order",
        why: "a late echo of a predecessor ends the term, or its version is written over",
        edits: &[Edit {
            file: RESPONSES,
            old: "if observed.version <= self.newest {",
            new: "if observed.version == self.newest {",
        }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a deletion is taken out of version order",
        why: "it came before the object was made anew",
        edits: &[Edit { file: RESPONSES, old: "if version > self.newest {", new: "if version > 0 {" }],
        caught_by: Unit("election::tests::watching::late_echoes_old_events_and_late_deletions_cost_no_term"),
    },
    Mutant {
        name: "a read sent before is taken for a restored store",
        why: "reads that overtake each other would end terms",
        edits: &[Edit { file: RESPONSES, old: "version < context.newest\n", new: "version < self.newest\n" }],
        caught_by: Simulation("the_promise_holds"),
    },
    Mutant {
        name: "a read below what is known is no news",
        why: "a store that was restored is never noticed",
        edits: &[Edit {
            file: RESPONSES,
            old: "version < context.newest\n",
            new: "version == 0 && version < context.newest\n",
        }],
        caught_by: Simulation("a_restored_store_is_survived"),
    },
    Mutant {
        name: "a version that was used again is no news",
        why: "its candidates stand still for ever",
        edits: &[Edit {
            file: RESPONSES,
            old: "            || matches!(&self.observed, ObservedState::Record(known) if is_another(known))\n",
            new: "            || matches!(&self.observed, ObservedState::Record(known) if context.absent && is_another(known))\n",
        }],
        caught_by: Unit(
            "election::tests::order::order_another_record_at_a_version_that_was_known_proves_a_restored_store",
        ),
    },
    Mutant {
        name: "a restored store does not end the term",
        why: "its record is undone: whatever stands there instead ends the term too, but says another reason",
        edits: &[Edit {
            file: RESPONSES,
            old: "        self.end_term(now, StopReason::StoreRestored);\n        // It",
            new: "        // It",
        }],
        caught_by: Unit(
            "election::tests::order::order_only_a_read_sent_after_a_version_was_known_proves_a_restored_store",
        ),
    },
    // ---- watches ----
    Mutant {
        name: "a watch that stands is never found silent",
        why: "a connection that is dead and does not say so hides everything",
        edits: &[Edit { file: WATCHING, old: " && self.silent_at().is_none_or(|at| now < at)", new: "" }],
        caught_by: Unit(
            "election::tests::watching::a_held_lease_without_events_for_a_third_of_its_duration_is_looked_at",
        ),
    },
    Mutant {
        name: "an event counts from when it was worked off",
        why: "a lease that has run out is taken later than it could be",
        edits: &[Edit {
            file: WATCHING,
            old: "self.learn_told(now, received_at, observed),",
            new: "self.learn_told(now, now, observed),",
        }],
        caught_by: Unit(
            "election::tests::watching::a_lease_that_runs_out_is_taken_over_at_the_very_expiry_counted_from_the_receipt",
        ),
    },
];
