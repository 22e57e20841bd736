//! Candidates on one file, in processes of their own and in this one.

use std::path::PathBuf;

use leasehold::SqliteStore;
use rusqlite::Connection;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::handovers;
use crate::leader_election::{LONG, SHORT, hands_over, is_followed_when_killed, knows_when_it_wakes};
use crate::support::process::Stage;
use crate::support::scratch;

struct Place {
    _scratch: TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let scratch = scratch();
        let path = scratch.path().join("election.db");
        Self { _scratch: scratch, path }
    }

    fn stage(&self, flags: &[&str]) -> Stage {
        Stage::on_store(&format!("sqlite://{}", self.path.display()), "jobs", flags)
    }

    fn holder(&self) -> Option<String> {
        let operator = Connection::open(&self.path).expect("a connection");
        let holder = "SELECT holder_identity FROM leasehold WHERE key = 'jobs'";
        let holder: Option<String> = operator.query_row(holder, [], |row| row.get(0)).expect("a row");
        holder.filter(|holder| !holder.is_empty())
    }
}

#[test]
fn sigterm_hands_a_file_over() {
    let place = Place::new();
    hands_over(&place.stage(LONG), Signal::TERM, || place.holder());
}

#[test]
fn a_killed_leader_by_a_file_is_followed_when_its_lease_ran_out() {
    is_followed_when_killed(&Place::new().stage(SHORT));
}

#[test]
fn a_leader_by_a_file_that_was_stopped_past_its_lease_knows_when_it_wakes() {
    knows_when_it_wakes(&Place::new().stage(SHORT));
}

#[test]
fn a_hundred_handovers_among_threads_and_processes_are_one_after_another() {
    let place = Place::new();
    let store = || SqliteStore::open(&place.path).expect("a store");
    handovers::are_one_after_another(&place.stage(handovers::FLAGS), store, |_| {});
}
