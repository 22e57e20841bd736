//! The settings that every transaction needs, and the proof that they applied.

use super::connection::{Rows, Statement};

/// A statement that applies the settings to its transaction.
///
/// Each transaction applies the settings itself, because a pooler may run the next transaction in another session.
///
/// - `statement_timeout` and `lock_timeout` end an abandoned statement on the server.
/// - `synchronous_commit` ensures that a commit reaches the disk of the server, and the disk of a synchronous standby.
/// - `client_min_messages` ensures that the server reports a commit that has not reached the standby.
/// - `plan_cache_mode` only makes statements faster.
pub(super) const SETTINGS: &str = "SELECT set_config('statement_timeout', $1, true), \
     set_config('lock_timeout', $1, true), \
     set_config('client_min_messages', 'warning', true), \
     set_config('plan_cache_mode', 'force_generic_plan', true), \
     set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') \
     IN ('off', 'local', 'remote_write') THEN 'on' ELSE current_setting('synchronous_commit') END, true)";

/// The SQL of each row's last column, which proves that the transaction has the settings.
///
/// A trigger on the table could change the settings before the commit. The transaction itself must therefore return its
/// settings.
///
/// Each accepted value of `client_min_messages` includes `WARNING`. Without a `lock_timeout`, a statement may wait for
/// a lock forever.
macro_rules! proof {
    () => {
        "(current_setting('synchronous_commit') IN ('on', 'remote_apply') AND current_setting('client_min_messages') IN \
         ('debug5', 'debug4', 'debug3', 'debug2', 'debug1', 'log', 'notice', 'warning') AND \
         current_setting('lock_timeout') <> '0')"
    };
}

pub(crate) use proof;

/// Returns `true` if the last column of each row proves the settings, or if the statements have no such column.
///
/// An empty result needs no proof. A write without a row has committed nothing, and a read of records always returns a
/// row.
pub(super) fn are_proven(statements: &[Statement<'_>], rows: &Rows) -> bool {
    let have_proof = statements.last().is_some_and(|statement| statement.sql.contains(proof!()));
    !have_proof || rows.iter().all(|row| row.columns().last() == Some(&Some("t")))
}
