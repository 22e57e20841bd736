//! The settings that every transaction needs, and the proof that they applied.

use super::connection::{Rows, Statement};

/// A statement that applies the settings to one transaction, or to all later transactions.
///
/// - `statement_timeout` and `lock_timeout` end an abandoned statement on the server.
/// - `synchronous_commit` ensures that a commit reaches the disk of the server, and the disk of a synchronous standby.
/// - `client_min_messages` ensures that the server reports a commit that has not reached the standby.
/// - `plan_cache_mode` only makes statements faster.
pub(super) const SETTINGS: &str = "SELECT set_config('statement_timeout', $1, $2::boolean), \
     set_config('lock_timeout', $1, $2::boolean), \
     set_config('client_min_messages', 'warning', $2::boolean), \
     set_config('plan_cache_mode', 'force_generic_plan', $2::boolean), \
     set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') \
     IN ('off', 'local', 'remote_write') THEN 'on' ELSE current_setting('synchronous_commit') END, $2::boolean)";

/// The SQL of each row's last column, which proves that the transaction has the settings.
///
/// A watch only detects whether its own connection has a session. Some poolers deliver notifications and support
/// prepared statements, but run the next transaction in another session with other settings. The transaction itself
/// must therefore return its settings.
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

/// Returns `true` if the rows of these statements contain the column `proof`.
///
/// Statements without this column must not rely on session settings.
pub(super) fn are_proved_by(statements: &[Statement<'_>]) -> bool {
    statements.last().is_some_and(|statement| statement.sql.contains(proof!()))
}

/// Returns `true` if the last column of each row proves the settings.
///
/// An empty result needs no proof. A write without a row has committed nothing, and a read of records always returns a
/// row.
pub(super) fn are_proven(rows: &Rows) -> bool {
    rows.iter().all(|row| row.columns().last() == Some(&Some("t")))
}
