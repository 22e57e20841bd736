//! Records in MySQL and MariaDB.

use super::*;

const MYSQL_CLIENT: &str = "src/mysql/client.rs";
const MYSQL_CONNECTION: &str = "src/mysql/connection.rs";
const MYSQL_HANDSHAKE: &str = "src/mysql/handshake.rs";
const MYSQL_PACKET: &str = "src/mysql/packet.rs";
const MYSQL_SESSION: &str = "src/mysql/session.rs";
const MYSQL_TABLE: &str = "src/store/mysql/table.rs";

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a row of MySQL at the same version is the same",
        why: "after a fail-over that lost writes, a leader renews onto another's record, and both lead",
        edits: &[Edit {
            file: MYSQL_TABLE,
            old: "            text(old.holder_identity.as_deref()),\n",
            new: "            \"holder_identity\",\n",
        }],
        caught_by: Unit("store::mysql::tests::a_row_is_replaced_only_where_all_of_it_stands_as_it_was_observed"),
    },
    Mutant {
        name: "a server of MySQL that is read-only is a primary",
        why: "what a replica says is old, and two lead after a fail-over",
        edits: &[Edit {
            file: MYSQL_SESSION,
            old: "match is_off(columns.next()) && is_off(columns.next()) {",
            new: "match columns.count() < usize::MAX || is_off(None) {",
        }],
        caught_by: Unit("store::mysql::tests::a_server_that_is_read_only_is_neither_read_nor_believed"),
    },
    Mutant {
        name: "who may write on a replica of MySQL does",
        why: "its writes are carried out there, and nobody else sees them",
        edits: &[Edit {
            file: MYSQL_CLIENT,
            old: "if !request.is_read && self.session.writes_on_read_only {",
            new: "if request.is_read && self.session.writes_on_read_only {",
        }],
        caught_by: Unit("store::mysql::tests::who_may_write_on_a_read_only_server_asks_before_each_write"),
    },
    Mutant {
        name: "a write to MySQL is sent again when its connection was closed",
        why: "what the first copy did is told of the second as certainly not done",
        edits: &[Edit {
            file: MYSQL_CLIENT,
            old: "if !attempt.request.is_read || attempt.interrupter.is_interrupted() {",
            new: "if attempt.interrupter.is_interrupted() {",
        }],
        caught_by: Unit("store::mysql::tests::a_read_on_a_connection_that_was_closed_is_sent_again_and_a_write_is_not"),
    },
    Mutant {
        name: "an answer of a database that comes with the cancel counts",
        why: "a write is Ok that the election has given up",
        edits: &[Edit {
            file: "src/net/interrupt.rs",
            old: "_ if self.is_interrupted() => Err(interrupted().sent",
            new: "Err(_) if self.is_interrupted() => Err(interrupted().sent",
        }],
        caught_by: Unit("store::mysql::tests::error_reports_if_the_request_may_have_been_sent"),
    },
    Mutant {
        name: "connections to MySQL beside one that hung are used again",
        why: "what has befallen it has mostly befallen all, and a release goes out on one that is as dead",
        edits: &[Edit { file: MYSQL_CLIENT, old: "=> self.idle.forget_idle_since(began),", new: "=> _ = began," }],
        caught_by: Unit("store::mysql::tests::stale_connections_are_not_reused"),
    },
    Mutant {
        name: "an answer of MySQL in an open transaction is one",
        why: "the write is rolled back when the connection ends",
        edits: &[Edit {
            file: MYSQL_CONNECTION,
            old: "status & (status::AUTOCOMMIT | status::IN_TRANSACTION | status::MORE_RESULTS) != status::AUTOCOMMIT",
            new: "status & status::AUTOCOMMIT != status::AUTOCOMMIT",
        }],
        caught_by: Unit("store::mysql::tests::what_is_no_answer_of_mysql_is_malformed_and_its_connection_goes"),
    },
    Mutant {
        name: "packets of MySQL may come in any order",
        why: "an answer to another statement is taken for the one to this",
        edits: &[Edit { file: MYSQL_PACKET, old: "if number != sequence {", new: "if number > sequence.max(254) {" }],
        caught_by: Unit("store::mysql::tests::what_is_no_answer_of_mysql_is_malformed_and_its_connection_goes"),
    },
    Mutant {
        name: "the password goes to whoever asks for it as MySQL",
        why: "whoever listens has it",
        edits: &[Edit {
            file: MYSQL_HANDSHAKE,
            old: "let is_confidential = connection.is_tls() || login.is_unix;",
            new: "let is_confidential = connection.is_tls() || !login.is_unix;",
        }],
        caught_by: Unit("store::mysql::tests::a_password_is_never_sent_as_it_is_without_tls"),
    },
];
