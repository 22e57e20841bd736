//! A store in a file.

use super::*;

const DATABASE: &str = "src/backends/sqlite/database/mod.rs";
const FILE: &str = "src/backends/sqlite/file.rs";
const SQLITE: &str = "src/backends/sqlite/store.rs";

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a row at the same version is the same",
        why: "after the file was restored, a leader renews onto another's record, and both lead",
        edits: &[Edit {
            file: DATABASE,
            old: "connection.prepare_cached(UPDATE)?",
            new: "connection.prepare_cached(&UPDATE.replace(\"AND holder_identity IS ?10\", \"AND ?10 IS ?10\"))?",
        }],
        caught_by: Test("behaviour", "tables::sqlite::a_row_put_back_with_another_record_is_no_base"),
    },
    Mutant {
        name: "the number of a row that was deleted is given again",
        why: "versions repeat, and with them fencing tokens",
        edits: &[Edit {
            file: DATABASE,
            old: "connection.execute_batch(CREATE_TABLE)",
            new: "connection.execute_batch(&CREATE_TABLE.replace(\"AUTOINCREMENT\", \"\"))",
        }],
        caught_by: Test("behaviour", "sqlite::versions_never_repeat_over_deletion_of_all_and_closing_the_file"),
    },
    Mutant {
        name: "another file at the path is as good",
        why: "others lead in that one",
        edits: &[Edit {
            file: FILE,
            old: "Ok(identity) if identity == *opened => continue,",
            new: "Ok(_) => continue,\n                #[allow(unreachable_patterns)]",
        }],
        caught_by: Test("behaviour", "sqlite::a_file_that_is_deleted_or_replaced_is_an_error_that_says_so"),
    },
    Mutant {
        name: "what was answered after the call's end counts",
        why: "a write is Ok that the election has given up, and it may have been another file's",
        edits: &[Edit {
            file: DATABASE,
            old: "                file.check()?;\n                check(file, call)?;\n                return done",
            new: "                return done",
        }],
        caught_by: Unit("backends::sqlite::database::tests::what_came_too_late_is_no_answer"),
    },
    Mutant {
        name: "SQLite waits for locks itself",
        why: "a release waits for that, and the loss of a term is noticed late",
        edits: &[Edit {
            file: DATABASE,
            old: "connection.busy_timeout(Duration::ZERO)",
            new: "connection.busy_timeout(Duration::from_secs(60))",
        }],
        caught_by: Test("behaviour", "sqlite::who_writes_for_longer_than_a_call_lasts_makes_it_a_timeout"),
    },
    Mutant {
        name: "the fence asks who leads, and not since when",
        why: "a late write of a former term lands in a later one",
        edits: &[Edit { file: SQLITE, old: "AND (generation << 31) + acquired <= {}\",", new: "AND {} > 0\"," }],
        caught_by: Test("behaviour", "tables::sqlite::a_former_leader_does_not_get_past_the_fence"),
    },
];
