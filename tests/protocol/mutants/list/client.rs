//! What a Lease lock asks and says, and the connections under it.

use super::*;

pub const MUTANTS: &[Mutant] = &[
    // ---- what a Lease lock asks and says ----
    Mutant {
        name: "a watch does not ask for bookmarks",
        why: "a lease that nobody holds is silent, and its watch opened anew all the time",
        edits: &[Edit { file: LEASE, old: "            (\"allowWatchBookmarks\", \"true\"),\n", new: "" }],
        caught_by: Test("behaviour", "lease_lock::a_watch_asks_for_this_lease_where_it_goes_on_and_for_bookmarks"),
    },
    Mutant {
        name: "a watch does not say where it goes on",
        why: "each begins with what is there, and what was deleted in between is missed",
        edits: &[Edit {
            file: LEASE,
            old: "        query.extend(after.as_deref().map(|version| (\"resourceVersion\", version)));\n",
            new: "        query.extend(after.as_deref().map(|version| (\"resourceVersion\", version)).filter(|_| false));\n",
        }],
        caught_by: Test("behaviour", "lease_lock::a_watch_asks_for_this_lease_where_it_goes_on_and_for_bookmarks"),
    },
    Mutant {
        name: "a refusal with 410 is none of an expired version",
        why: "the same version is asked for again, for ever",
        edits: &[Edit { file: LEASE, old: "                (410, _) => (LockErrorKind::Expired, None),\n", new: "" }],
        caught_by: Test("behaviour", "lease_lock::a_watch_that_is_refused_as_gone_has_expired"),
    },
    Mutant {
        name: "an error event with 410 is none of an expired version",
        why: "the same version is asked for again, for ever",
        edits: &[Edit {
            file: LEASE,
            old: "let kind = if status.code == 410 { LockErrorKind::Expired } else { LockErrorKind::Unavailable };",
            new: "let kind = LockErrorKind::Unavailable;",
        }],
        caught_by: Test("behaviour", "lease_lock::a_watch_that_is_ended_as_gone_has_expired"),
    },
    Mutant {
        name: "an error event does not pass on its Retry-After",
        why: "a server that is overloaded is asked again before its time",
        edits: &[Edit {
            file: LEASE,
            old: "LockError::new(kind, message).with_retry_after(status.retry_after)",
            new: "LockError::new(kind, message)",
        }],
        caught_by: Test(
            "behaviour",
            "lease_lock::a_watch_that_ends_passes_on_for_how_long_the_server_asks_to_be_left_alone",
        ),
    },
    Mutant {
        name: "a closed connection is any failure",
        why: "each costs a retry period of the term, or of a hand-over",
        edits: &[Edit {
            file: LEASE,
            old: "ErrorKind::ConnectionClosed => (LockErrorKind::ConnectionClosed, None),",
            new: "ErrorKind::ConnectionClosed => (LockErrorKind::Unavailable, None),",
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
            old: "            && !interrupter.is_interrupted()\n        {\n            self.shared.put_back",
            new: "        {\n            self.shared.put_back",
        }],
        caught_by: Unit("kube::tests::http::to_cancel_ends_the_one_request_and_nothing_else"),
    },
];
