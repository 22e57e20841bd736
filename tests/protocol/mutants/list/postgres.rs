//! Records in PostgreSQL.

use super::*;

const POSTGRES_CLIENT: &str = "src/backends/postgres/client.rs";
const POSTGRES_CONNECTION: &str = "src/backends/postgres/connection.rs";
const POSTGRES_LOGIN: &str = "src/backends/postgres/login.rs";
const POSTGRES_TABLE: &str = "src/backends/postgres/table.rs";

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "connections to PostgreSQL beside one that hung are used again",
        why: "what has befallen it has mostly befallen all, and a release goes out on one that is as dead",
        edits: &[Edit { file: POSTGRES_CLIENT, old: "=> self.idle.forget_idle_since(began),", new: "=> _ = began," }],
        caught_by: Unit("backends::postgres::store::tests::stale_connections_are_not_reused"),
    },
    Mutant {
        name: "a write to PostgreSQL goes out again on a new connection",
        why: "the first copy may have been applied, and the second is certainly not: a term that was won is not known",
        edits: &[Edit {
            file: POSTGRES_CLIENT,
            old: "(request.is_read && is_closed(&answer))",
            new: "is_closed(&answer)",
        }],
        caught_by: Unit(
            "backends::postgres::store::tests::a_connection_is_used_again_and_a_new_one_where_it_was_closed",
        ),
    },
    Mutant {
        name: "a write to PostgreSQL that came with a warning is sent again",
        why: "it is committed, so that its copy finds it done, and a term that was won is believed not to be",
        edits: &[Edit { file: "src/backends/postgres/error.rs", old: "!self.is_fatal && matches!", new: "matches!" }],
        caught_by: Unit(
            "backends::postgres::store::tests::what_may_have_been_committed_is_not_sent_again_for_a_statement_that_is_not_kept",
        ),
    },
    Mutant {
        name: "a session of PostgreSQL is believed to keep what it has lost",
        why: "behind a pooler that was restarted with other settings each write fails, for as long as the watch stands",
        edits: &[Edit { file: POSTGRES_CLIENT, old: "self.set_has_sessions(false);", new: "" }],
        caught_by: Unit(
            "backends::postgres::store::tests::where_a_session_does_not_keep_statements_they_are_sent_as_to_one_that_is_shared",
        ),
    },
    Mutant {
        name: "an answer of PostgreSQL is believed without the proof of its settings",
        why: "behind a pooler another session has committed it, with synchronous_commit off: a crash takes it back",
        edits: &[Edit {
            file: "src/backends/postgres/settings.rs",
            old: "row.pop().flatten().as_deref() == Some(\"t\")",
            new: "row.pop().is_some()",
        }],
        caught_by: Unit(
            "backends::postgres::store::tests::sessions::a_write_that_was_without_its_settings_stays_open_and_from_then_on_each_transaction_makes_them",
        ),
    },
    Mutant {
        name: "a commit that PostgreSQL warns of is one",
        why: "it waits for its standby no longer, and a fail-over takes the write back",
        edits: &[Edit { file: POSTGRES_CONNECTION, old: "if notice.is_warning {", new: "if notice.is_fatal {" }],
        caught_by: Unit("backends::postgres::store::tests::a_warning_on_a_commit_is_no_answer"),
    },
    Mutant {
        name: "an answer of PostgreSQL may end early",
        why: "a statement without a row is certainly not applied, and this one may have been",
        edits: &[Edit {
            file: POSTGRES_CONNECTION,
            old: "None if complete == statements",
            new: "None if complete <= statements",
        }],
        caught_by: Unit("backends::postgres::store::tests::what_is_no_answer_of_postgres_is_an_error_in_time"),
    },
    Mutant {
        name: "a standby's records are read",
        why: "they are those of some time ago: a read is to be linearizable",
        edits: &[Edit {
            file: POSTGRES_TABLE,
            old: "Some(\"t\") => return Err(read_only()),",
            new: "Some(\"t\") => {}",
        }],
        caught_by: Unit("backends::postgres::store::tests::what_a_standby_says_is_an_error_and_its_connection_goes"),
    },
    Mutant {
        name: "what came in clear passes for what came in TLS",
        why: "whoever is on the way says that a write was applied (CVE-2021-23222)",
        edits: &[Edit { file: POSTGRES_LOGIN, old: "(_, b'S') if socket.is_quiet() =>", new: "(_, b'S') =>" }],
        caught_by: Unit("backends::postgres::store::tests::nothing_in_clear_passes_for_what_came_in_tls"),
    },
    Mutant {
        name: "a key may end the text that it stands in",
        why: "a key in a fence is then SQL",
        edits: &[Edit { file: POSTGRES_TABLE, old: ".replace('\\\\', r\"\\\\\")", new: "" }],
        caught_by: Unit("backends::postgres::table::tests::a_text_stays_one_text"),
    },
    Mutant {
        name: "what a database sends back of the password is shown",
        why: "logs are read by those who must not know it",
        edits: &[Edit {
            file: "src/backends/password.rs",
            old: "self.redact(&mut text, 1);",
            new: "self.redact(&mut text, 100);",
        }],
        caught_by: Unit("backends::postgres::store::tests::what_a_server_sends_back_of_the_password_is_hidden"),
    },
];
