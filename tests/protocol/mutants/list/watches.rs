//! What a watch is believed, creates, and restored stores.

use super::*;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a watch that owes is kept",
        why: "it is dead, and no other takes its place",
        edits: &[Edit { file: ELECTION, old: "        self.notice_what_is_owed(now.local);\n", new: "" }],
        caught_by: Unit("election::tests::watching::a_conflict_of_which_a_watch_says_nothing_makes_it_stale"),
    },
    Mutant {
        name: "a deletion is never owed",
        why: "a watch that is dead hides it",
        edits: &[Edit {
            file: WATCH,
            old: "None => open.change.as_ref().map(|_| open.told + 1),",
            new: "None => None,",
        }],
        caught_by: Unit("election::tests::watching::a_deletion_of_which_a_watch_says_nothing_makes_it_stale"),
    },
    Mutant {
        name: "a read vouches for a watch that owes",
        why: "silence is then answered by reads for ever",
        edits: &[Edit {
            file: WATCH,
            old: "(found.version > open.told).then_some",
            new: "(found.version > u64::MAX - open.told).then_some",
        }],
        caught_by: Unit(
            "election::tests::watching::a_watch_that_has_not_told_what_a_read_finds_is_polled_beside_and_given_up",
        ),
    },
    Mutant {
        name: "silence is borne for longer than a lease lasts",
        why: "the lease runs out before anybody asks",
        edits: &[Edit { file: WATCHING, old: "tolerance.min(published * 9 / 10)", new: "tolerance" }],
        caught_by: Unit(
            "election::tests::watching::a_holder_that_renews_seldom_is_looked_at_no_more_often_than_it_must_be",
        ),
    },
    Mutant {
        name: "a lease that has run out makes its watch silent",
        why: "whoever watches a dead holder asks again and again",
        edits: &[Edit {
            file: WATCHING,
            old: "(at < known.changed_at + published).then_some(at)",
            new: "(at > Moment::from_nanos(0)).then_some(at)",
        }],
        caught_by: Unit("election::tests::watching::a_lease_that_has_run_out_says_nothing_of_its_watch"),
    },
    Mutant {
        name: "an event of a lease that is gone is news",
        why: "a server that lags behind tells of what was there before, and the create after it is lost",
        edits: &[Edit {
            file: RESPONSES,
            old: "        if !self.is_gone(&observed.record) {\n",
            new: "        if observed.version > 0 {\n",
        }],
        caught_by: Unit(
            "election::tests::open_writes::open_writes_a_create_is_not_closed_by_an_event_from_before_the_absence",
        ),
    },
    Mutant {
        name: "an event closes a create",
        why: "what it made is then taken for another process's",
        edits: &[Edit {
            file: RESPONSES,
            old: "self.open.retain(|write| write.base == 0 || write.base >= observed.version);",
            new: "self.open.retain(|write| write.base >= observed.version);",
        }],
        caught_by: Unit(
            "election::tests::open_writes::open_writes_a_create_is_not_closed_by_an_event_of_an_object_that_nobody_knew",
        ),
    },
    Mutant {
        name: "a create may land twice",
        why: "its copy re-creates a lease that was deleted, and a term goes over from one object to another",
        edits: &[
            Edit { file: RESPONSES, old: "            create.progress = Progress::Landed;\n", new: "" },
            Edit { file: RESPONSES, old: "let recreated = is_another && self", new: "let recreated = false && self" },
        ],
        caught_by: Unit(
            "election::tests::open_writes::open_writes_a_copy_of_a_create_that_lands_after_a_deletion_is_a_loss",
        ),
    },
    Mutant {
        name: "a create is forgotten when a read overtakes it",
        why: "landing when what the read found was deleted, it is taken for another process's",
        edits: &[Edit {
            file: RESPONSES,
            old: "        let is_news = self.learn(now, now, observed);\n",
            new: "        let is_news = self.learn(now, now, observed);\n        self.open.retain(|write| write.base != 0 || write.id >= id);\n",
        }],
        caught_by: Unit(
            "election::tests::open_writes::open_writes_a_create_that_a_read_overtook_is_ours_should_it_land_later",
        ),
    },
    Mutant {
        name: "a create is forgotten when it is answered",
        why: "a copy of it that lands after a deletion is taken for another process's",
        edits: &[Edit {
            file: ELECTION,
            old: "self.open.retain(|write| write.id != id || write.base == 0);",
            new: "self.open.retain(|write| write.id != id);",
        }],
        caught_by: Unit("election::tests::open_writes::open_writes_a_copy_of_a_create_that_was_answered_is_ours_too"),
    },
    Mutant {
        name: "a create is overtaken by a read that was sent before it",
        why: "a closed election does not wait for it, and what lands is held by nobody until it runs out",
        edits: &[Edit {
            file: RESPONSES,
            old: "filter(|write| write.base == 0 && write.id < id) {",
            new: "filter(|write| write.base == 0 && write.id > 0) {",
        }],
        caught_by: Unit(
            "election::tests::open_writes::open_writes_a_create_is_waited_for_beside_a_read_that_was_sent_before_it",
        ),
    },
    Mutant {
        name: "a create that has landed is adopted again",
        why: "whoever puts the old record back extends a term",
        edits: &[Edit { file: RESPONSES, old: " && write.progress != Progress::Landed && now", new: " && now" }],
        caught_by: Unit(
            "election::tests::open_writes::open_writes_a_record_of_ours_that_somebody_puts_back_extends_nothing",
        ),
    },
    Mutant {
        name: "a late read of a lease that is gone is news",
        why: "a lease that is not there is waited out",
        edits: &[Edit {
            file: RESPONSES,
            old: "        if self.is_gone(&observed.record) {\n            return false;",
            new: "        if observed.version == 0 {\n            return false;",
        }],
        caught_by: Unit("election::tests::order::order_a_late_read_of_an_object_that_is_gone_is_no_news"),
    },
    Mutant {
        name: "a read from another absence proves a restored store",
        why: "a term ends, and all that is known is forgotten, for nothing",
        edits: &[Edit {
            file: RESPONSES,
            old: "context.absent && context.newest == self.newest && self",
            new: "context.absent && self",
        }],
        caught_by: Unit("election::tests::order::order_a_read_from_another_absence_proves_no_restored_store"),
    },
    Mutant {
        name: "after a restore events are believed",
        why: "a server that was not restarted teaches the old version with each new watch, and nobody leads",
        edits: &[Edit { file: WATCHING, old: "verified: !self.watch.is_doubtful(),", new: "verified: true," }],
        caught_by: Unit(
            "election::tests::order::order_an_api_server_that_was_not_restarted_with_its_store_is_not_believed",
        ),
    },
    Mutant {
        name: "an event from before makes a watch believed",
        why: "a server that was not restarted ends terms by what was before",
        edits: &[Edit {
            file: WATCH,
            old: "        if version > newest && !open.verified {",
            new: "        open.verified |= version < newest;\n        if version > newest && !open.verified {",
        }],
        caught_by: Unit(
            "election::tests::order::order_after_a_restore_an_event_from_before_what_is_known_makes_no_watch_believed",
        ),
    },
    Mutant {
        name: "a version that was used again confirms a watch",
        why: "versions are used again after a restore, records are not",
        edits: &[Edit {
            file: WATCH,
            old: "let agrees = record.as_ref() == Some(&found.record);",
            new: "let agrees = record.is_some();",
        }],
        caught_by: Unit("election::tests::order::order_after_a_restore_a_version_that_was_used_again_confirms_nothing"),
    },
    Mutant {
        name: "what was before a restore confirms a watch",
        why: "both lives of the store tell the same up to the backup, and other things after it",
        edits: &[Edit {
            file: WATCH,
            old: "open.verified |= agrees && *record != self.restored;",
            new: "open.verified |= agrees;",
        }],
        caught_by: Unit(
            "election::tests::order::order_after_a_restore_what_was_before_it_in_both_lives_confirms_nothing",
        ),
    },
    Mutant {
        name: "our own write confirms no watch",
        why: "after a restore each event of others costs a read",
        edits: &[Edit {
            file: ELECTION,
            old: "                if !self.watch.agrees(&observed) {\n",
            new: "                if observed.version == 0 {\n",
        }],
        caught_by: Unit(
            "election::tests::order::order_after_a_restore_our_own_write_shows_that_a_watch_is_of_this_store",
        ),
    },
    Mutant {
        name: "after a restore our own record is a predecessor's",
        why: "whoever reads that sets the wrong thing right",
        edits: &[Edit { file: RESPONSES, old: "if !self.watch.is_doubtful() {", new: "if now.as_nanos() > 0 {" }],
        caught_by: Unit("election::tests::order::order_after_a_restore_our_own_record_from_before_is_no_predecessors"),
    },
    Mutant {
        name: "each watch begins a silence of its own",
        why: "where watches end soon and tell nothing, nobody asks, and a release is noticed at the expiry",
        edits: &[Edit {
            file: WATCHING,
            old: "        if from_scratch {\n            self.watch.heard_at = Some(now);\n",
            new: "        self.watch.heard_at = Some(now);\n        if from_scratch {\n",
        }],
        caught_by: Unit("election::tests::silence::silence_is_counted_over_all_watches_that_go_on_where_another_ended"),
    },
    Mutant {
        name: "a mention from before counts",
        why: "what was deleted since is not looked for",
        edits: &[Edit {
            file: WATCH,
            old: "record.is_some() && version >= newest && open.to_confirm",
            new: "record.is_some() && open.to_confirm",
        }],
        caught_by: Unit("election::tests::silence::a_mention_from_before_what_is_known_is_none"),
    },
    Mutant {
        name: "a read does not make up for what a watch left out",
        why: "a lease is polled for as long as the watch lasts",
        edits: &[Edit { file: WATCH, old: "        self.synced = true;\n        let owed", new: "        let owed" }],
        caught_by: Unit("election::tests::order::order_after_a_restore_a_read_that_bears_a_watch_out_ends_the_polling"),
    },
    Mutant {
        name: "a watch that goes on owes what was known before",
        why: "a good watch is given up",
        edits: &[Edit {
            file: WATCHING,
            old: "told: if from_scratch { 0 } else { self.newest },",
            new: "told: if from_scratch || self.newest > 0 { 0 } else { self.newest },",
        }],
        caught_by: Unit("election::tests::silence::a_watch_that_goes_on_owes_nothing_that_was_known_before_it"),
    },
    Mutant {
        name: "a watch owes the deletion of what it never told of",
        why: "a good watch of a lease that is not there is given up",
        edits: &[Edit {
            file: WATCH,
            old: "None => open.change.as_ref().map(|_| open.told + 1),",
            new: "None => Some(open.told + 1),",
        }],
        caught_by: Unit(
            "election::tests::silence::a_watch_that_has_told_nothing_owes_nothing_of_a_lease_that_is_not_there",
        ),
    },
    Mutant {
        name: "a pause is forgotten with the term that shortened it",
        why: "a store that asked to be left alone is not",
        edits: &[Edit {
            file: ELECTION,
            old: "            self.schedule.paused_until = self.schedule.asked_until;\n",
            new: "",
        }],
        caught_by: Unit("election::tests::pace::what_a_store_asked_for_is_kept_by_the_campaign_after_a_term_too"),
    },
    Mutant {
        name: "rounds do not leave a store alone",
        why: "a loop of them asks as fast as the network lets it",
        edits: &[Edit {
            file: ELECTION,
            old: "if round.wrote || now.local < self.schedule.paused_until {",
            new: "if round.wrote {",
        }],
        caught_by: Unit("election::tests::pace::rounds_leave_a_store_alone_that_asked_for_it"),
    },
    Mutant {
        name: "a round looks again as often as it is interrupted",
        why: "beside a holder that renews faster than reads are answered it never ends",
        edits: &[Edit { file: ELECTION, old: "if !round.wrote && !round.interrupted =>", new: "if !round.wrote =>" }],
        caught_by: Unit("election::tests::pace::a_round_whose_look_is_interrupted_again_and_again_ends"),
    },
    Mutant {
        name: "a read whose connection was closed waits",
        why: "a candidate that looks is late by a retry period",
        edits: &[Edit {
            file: ELECTION,
            old: "        self.schedule.read_at = now;\n        match &mut self.phase {\n            Phase::Leading(term) if",
            new: "        match &mut self.phase {\n            Phase::Leading(term) if",
        }],
        caught_by: Unit("election::tests::pace::a_read_whose_connection_was_closed_is_repeated_at_once_too"),
    },
    Mutant {
        name: "an event that is not believed waits for the next look",
        why: "after a restore a release is noticed a retry period late",
        edits: &[Edit {
            file: WATCHING,
            old: "self.read_within(now, Duration::ZERO);",
            new: "self.read_within(now, Duration::from_secs(1));",
        }],
        caught_by: Unit("election::tests::order::order_after_a_restore_an_event_only_triggers_a_read"),
    },
    Mutant {
        name: "a read that contradicts a watch changes nothing",
        why: "its events stay unbelieved, and another watch is not tried",
        edits: &[Edit {
            file: WATCH,
            old: "                self.agrees(found) && reaches\n",
            new: "                self.agrees(found) || reaches || !reaches\n",
        }],
        caught_by: Unit(
            "election::tests::order::order_after_a_restore_an_event_from_before_what_is_known_makes_no_watch_believed",
        ),
    },
    Mutant {
        name: "whatever a watch tells shows that it tells",
        why: "who heard of a version of a former life is wrong for ever",
        edits: &[Edit {
            file: WATCH,
            old: "            if version >= newest {\n                self.heard_at",
            new: "            if version > 0 {\n                self.heard_at",
        }],
        caught_by: Unit("election::tests::silence::a_leader_asks_about_a_watch_that_lags_behind_its_own_renewals"),
    },
    Mutant {
        name: "an object that was gone and is back is news",
        why: "the store was restored, and nobody notices",
        edits: &[Edit { file: RESPONSES, old: "            || is_back\n", new: "" }],
        caught_by: Unit(
            "election::tests::order::order_an_object_that_was_gone_and_is_read_again_proves_a_restored_store",
        ),
    },
    Mutant {
        name: "whole milliseconds are rounded up",
        why: "less is published than is believed: two valid guards",
        edits: &[Edit {
            file: CONFIG,
            old: "u64::from(lease_duration.subsec_nanos() > 0)",
            new: "u64::from(lease_duration.subsec_millis() > 0)",
        }],
        caught_by: Unit("election::settings::tests::whatever_is_accepted_keeps_every_rule_to_the_nanosecond"),
    },
    Mutant {
        name: "a candidate forgets a pause when there is news",
        why: "a store that is overloaded is asked again by everybody at once",
        edits: &[Edit {
            file: ELECTION,
            old: "let not_before = self.schedule.write_at.max(self.schedule.paused_until);\n        let takeover_at",
            new: "let not_before = self.schedule.write_at;\n        let takeover_at",
        }],
        caught_by: Unit("election::tests::pace::a_store_that_asks_for_a_pause_gets_all_of_it"),
    },
    Mutant {
        name: "a pause outlasts the term",
        why: "a store that is busy for longer than a term ends it",
        edits: &[Edit {
            file: REQUESTS,
            old: "let pause = if asked <= left.saturating_sub(reserve) { asked } else { asked.min(left / 2) };",
            new: "let _ = (left, reserve);\n        let pause = asked;",
        }],
        caught_by: Unit("election::tests::pace::a_leader_keeps_a_pause_that_leaves_time_for_another_renewal"),
    },
    Mutant {
        name: "a release waits for a pause from before it",
        why: "its caller waits in vain, and the others for the lease to run out",
        edits: &[Edit {
            file: ELECTION,
            old: "            self.shorten_pause(now);\n            self.confirm_release();",
            new: "            self.confirm_release();",
        }],
        caught_by: Unit("election::tests::pace::a_pause_from_before_does_not_hold_up_a_release"),
    },
];
