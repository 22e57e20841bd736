//! What a store of Leases asks and says, and the connections under it.

use super::*;

pub const MUTANTS: &[Mutant] = &[
    // ---- what a store of Leases asks and says ----
    Mutant {
        name: "a watch does not ask for bookmarks",
        why: "a lease that nobody holds is silent, and its watch opened anew all the time",
        edits: &[Edit { file: OBJECT, old: "(\"allowWatchBookmarks\", \"true\"), ", new: "" }],
        caught_by: Test("behaviour", "lease_store::a_watch_asks_for_this_lease_where_it_goes_on_and_for_bookmarks"),
    },
    Mutant {
        name: "a watch does not say where it goes on",
        why: "each begins with what is there, and what was deleted in between is missed",
        edits: &[Edit {
            file: OBJECT,
            old: "        query.extend(from.as_deref().map(|version| (\"resourceVersion\", version)));\n",
            new: "        query.extend(from.as_deref().map(|version| (\"resourceVersion\", version)).filter(|_| false));\n",
        }],
        caught_by: Test("behaviour", "lease_store::a_watch_asks_for_this_lease_where_it_goes_on_and_for_bookmarks"),
    },
    Mutant {
        name: "a refusal with 410 is none of an expired version",
        why: "the same version is asked for again, for ever",
        edits: &[Edit { file: OBJECT, old: "                (410, _) => (StoreErrorKind::Expired, None),\n", new: "" }],
        caught_by: Test("behaviour", "lease_store::a_watch_that_is_refused_as_gone_has_expired"),
    },
    Mutant {
        name: "an error event with 410 is none of an expired version",
        why: "the same version is asked for again, for ever",
        edits: &[Edit {
            file: OBJECT,
            old: "let kind = if status.code == 410 { StoreErrorKind::Expired } else { StoreErrorKind::Unavailable };",
            new: "let kind = StoreErrorKind::Unavailable;",
        }],
        caught_by: Test("behaviour", "lease_store::a_watch_that_is_ended_as_gone_has_expired"),
    },
    Mutant {
        name: "an error event does not pass on its Retry-After",
        why: "a server that is overloaded is asked again before its time",
        edits: &[Edit {
            file: OBJECT,
            old: "StoreError::new(kind, message).with_retry_after(status.retry_after)",
            new: "StoreError::new(kind, message)",
        }],
        caught_by: Test(
            "behaviour",
            "lease_store::a_watch_that_ends_passes_on_for_how_long_the_server_asks_to_be_left_alone",
        ),
    },
    Mutant {
        name: "a closed connection is any failure",
        why: "each costs a retry period of the term, or of a hand-over",
        edits: &[Edit {
            file: OBJECT,
            old: "ErrorKind::ConnectionClosed => (StoreErrorKind::ConnectionClosed, None),",
            new: "ErrorKind::ConnectionClosed => (StoreErrorKind::Unavailable, None),",
        }],
        caught_by: Test("behaviour", "elector::connections::a_release_is_sent_again_at_once"),
    },
    // ---- connections ----
    Mutant {
        name: "a new connection that is closed counts as an old one",
        why: "a server that takes nothing is asked twice each time",
        edits: &[Edit {
            file: REUSED,
            old: "Ok(false) if self.has_answered && self.awaits_answer => Err(closed()),",
            new: "Ok(false) if self.awaits_answer => Err(closed()),",
        }],
        caught_by: Unit(
            "kube::tests::http::a_used_connection_that_is_closed_without_a_word_is_told_from_one_that_breaks",
        ),
    },
    Mutant {
        name: "a new connection that is cut counts as an old one",
        why: "a server that takes nothing is asked twice each time",
        edits: &[Edit {
            file: REUSED,
            old: "if is_closed && self.has_answered && self.awaits_answer { closed() }",
            new: "if is_closed && self.awaits_answer { closed() }",
        }],
        caught_by: Unit(
            "kube::tests::tls::a_used_connection_that_is_closed_without_a_word_is_told_from_one_that_breaks_under_tls",
        ),
    },
    Mutant {
        name: "an answer that breaks off counts as none",
        why: "the write was carried out, and is sent again",
        edits: &[Edit {
            file: REUSED,
            old: "(self.has_answered, self.awaits_answer) = (true, false);",
            new: "self.has_answered = true;",
        }],
        caught_by: Unit(
            "kube::tests::http::a_used_connection_that_is_closed_without_a_word_is_told_from_one_that_breaks",
        ),
    },
    Mutant {
        name: "the client repeats a write",
        why: "the second is judged against what the first has done",
        edits: &[Edit {
            file: CLIENT,
            old: "if request.method == Method::Get\n                        && matches!",
            new: "if request.method != Method::Delete\n                        && matches!",
        }],
        caught_by: Unit("kube::tests::http::a_get_survives_a_stale_connection_and_a_write_is_never_sent_twice"),
    },
    Mutant {
        name: "a connection that was shut down is kept for the next call",
        why: "whoever calls next gets an error of a call that is over",
        edits: &[Edit {
            file: CLIENT,
            old: "Some(_) if interrupter.is_interrupted() || is_late => self.shared.idle.forget_idle_since(began),",
            new: "Some(_) if began.elapsed().is_zero() => self.shared.idle.forget_idle_since(began),",
        }],
        caught_by: Unit("kube::tests::http::to_cancel_ends_the_one_request_and_nothing_else"),
    },
    Mutant {
        name: "connections beside one that hung are used again",
        why: "what has befallen it has mostly befallen all, and a release goes out on one that is as dead",
        edits: &[Edit {
            file: "src/net/pool.rs",
            old: "self.idle.lock().retain(|it| it.since > began);",
            new: "let _ = began;",
        }],
        caught_by: Unit("kube::tests::http::connections_idle_at_a_cancel_or_time_out_are_not_reused"),
    },
    Mutant {
        name: "a watch of all may go on in the middle of its beginning",
        why: "what is there and was not told yet is never told",
        edits: &[Edit { file: OBJECT, old: "version.filter(|_| is_in_order)", new: "version" }],
        caught_by: Test(
            "behaviour",
            "lease_store::a_watch_of_all_goes_on_nowhere_before_it_has_told_all_that_is_there",
        ),
    },
    // ---- a store in memory ----
    Mutant {
        name: "a deletion in memory is no write",
        why: "a watch that goes on does not tell of it, and what is made anew has a version that was there before",
        edits: &[Edit {
            file: MEMORY,
            old: "            state.version += 1;\n            state.note(key, None);",
            new: "            state.note(key, None);",
        }],
        caught_by: Test("behaviour", "stores::memory::versions_grow_over_deletion"),
    },
    Mutant {
        name: "an update in memory compares nothing",
        why: "two lead",
        edits: &[Edit {
            file: MEMORY,
            old: "current.is_some_and(|it| it.version == base.version && it.record == base.record)",
            new: "current.is_some()",
        }],
        caught_by: Test("behaviour", "stores::memory::what_has_moved_is_not_updated"),
    },
];
