//! Candidates on a real MariaDB, in processes of their own and in this one: killed, stopped past their lease, and told to end.

use leasehold::{MySqlConfig, MySqlStore};
use rustix::process::Signal;

use crate::handovers;
use crate::leader_election::{LONG, SHORT, hands_over, is_followed_when_killed, knows_when_it_wakes};
use crate::support::mariadb::MariaDb;
use crate::support::process::Stage;

/// A database of a test's own, with a user of the same name.
struct Place {
    mariadb: &'static MariaDb,
    name: &'static str,
}

impl Place {
    fn new(name: &'static str) -> Option<Self> {
        let mariadb = MariaDb::shared()?;
        mariadb.database(name);
        mariadb.add_user(name, name);
        Some(Self { mariadb, name })
    }

    fn url(&self) -> String {
        self.mariadb.url(self.name, self.name)
    }

    fn stage(&self, flags: &[&str]) -> Stage {
        Stage::on_store(&self.url(), "jobs", flags)
    }

    fn holder(&self) -> Option<String> {
        let holder = self.mariadb.query_in(self.name, "SELECT holder_identity FROM leasehold WHERE name = 'jobs'");
        Some(holder).filter(|holder| !holder.is_empty())
    }
}

#[test]
fn sigterm_hands_a_row_of_mariadb_over() {
    let Some(place) = Place::new("hands_over") else { return };
    hands_over(&place.stage(LONG), Signal::TERM, || place.holder());
}

#[test]
fn a_killed_leader_by_mariadb_is_followed_when_its_lease_ran_out() {
    let Some(place) = Place::new("followed") else { return };
    is_followed_when_killed(&place.stage(SHORT));
}

#[test]
fn a_leader_by_mariadb_that_was_stopped_past_its_lease_knows_when_it_wakes() {
    let Some(place) = Place::new("wakes") else { return };
    knows_when_it_wakes(&place.stage(SHORT));
}

/// All connections are cut now and then, and the server stands still for a moment.
#[test]
fn a_hundred_handovers_on_mariadb_with_faults_are_one_after_another() {
    let Some(mariadb) = MariaDb::start(&[]) else { return };
    mariadb.database("faults");
    mariadb.add_user("faults", "faults");
    let url = mariadb.url("faults", "faults");
    let store = || {
        let store = MySqlStore::new(MySqlConfig::new(&url).expect("a URL")).expect("a store");
        store.create_table().expect("a table");
        store
    };
    let fault = |handover: usize| match handover % 10 {
        3 | 7 => drop(mariadb.kill_connections("faults")),
        9 => {
            mariadb.pause();
            std::thread::sleep(std::time::Duration::from_millis(200));
            mariadb.resume();
        }
        _ => {}
    };
    handovers::are_one_after_another(&Stage::on_store(&url, "jobs", handovers::FLAGS), store, fault);
}
