//! What a transaction needs to be set to, whatever settings this user has, and the proof that it was.

use super::connection::{Rows, Statement};

/// For one transaction, or for all to come in a session.
///
/// What waits for a lock ends on the server, too, when nobody waits for it any more. A commit is on the disk, and on that of a
/// synchronous standby; and it is told when that is not so. The mode of plans is for speed alone.
pub(super) const SETTINGS: &str = "SELECT set_config('statement_timeout', $1, $2::boolean), \
     set_config('lock_timeout', $1, $2::boolean), \
     set_config('client_min_messages', 'warning', $2::boolean), \
     set_config('plan_cache_mode', 'force_generic_plan', $2::boolean), \
     set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') \
     IN ('off', 'local', 'remote_write') THEN 'on' ELSE current_setting('synchronous_commit') END, $2::boolean)";

/// The last column of each row of a record. That sessions are our own is only a watch's finding about its connection: there are
/// poolers that listen for their clients, prepare statements anew, and run the next transaction in another session, with settings
/// of its own. So the transaction itself says what it is committed with.
///
/// With each of these messages a `WARNING` is sent, too. Without a `lock_timeout` whoever waits for a lock may wait for ever.
macro_rules! proof {
    () => {
        "(current_setting('synchronous_commit') IN ('on', 'remote_apply') AND current_setting('client_min_messages') IN \
         ('debug5', 'debug4', 'debug3', 'debug2', 'debug1', 'log', 'notice', 'warning') AND \
         current_setting('lock_timeout') <> '0')"
    };
}

pub(crate) use proof;

/// Whether the rows of these have the proof. What has none cannot rest on its session.
pub(super) fn are_proved_by(statements: &[Statement<'_>]) -> bool {
    statements.last().is_some_and(|statement| statement.sql.contains(proof!()))
}

/// Returns `true` if the proof, which is the last column of each row, holds.
///
/// Where there is no row there is none, and none is needed: a write without a row has committed nothing that might be lost, and
/// a read of records always has one.
pub(super) fn are_proven(rows: &Rows) -> bool {
    rows.iter().all(|row| row.columns().last() == Some(&Some("t")))
}
