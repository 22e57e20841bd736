//! Candidates in processes of their own on a real PostgreSQL.

use rustix::process::Signal;

use crate::leader_election::{LONG, SHORT, hands_over, is_followed_when_killed, knows_when_it_wakes};
use crate::support::postgres::Postgres;
use crate::support::process::{Stage, run};
use crate::support::sql::{PASSWORD, SqlServer};

/// In a database of its own.
struct Place {
    postgres: &'static Postgres,
    database: String,
}

impl Place {
    /// `None`, said aloud, where there is no PostgreSQL.
    fn new(name: &str) -> Option<Place> {
        Postgres::shared().map(|postgres| Place { postgres, database: postgres.database(name) })
    }

    fn stage(&self, flags: &[&str]) -> Stage {
        Stage::on_store(&self.postgres.url("postgres", &self.database), "jobs", flags)
    }

    fn holder(&self) -> Option<String> {
        let holder = "SELECT holder_identity FROM leasehold WHERE key = 'jobs'";
        Some(self.postgres.query_in(&self.database, holder)).filter(|holder| !holder.is_empty())
    }
}

#[test]
fn sigterm_hands_a_row_over() {
    if let Some(place) = Place::new("processes_sigterm") {
        hands_over(&place.stage(LONG), Signal::TERM, || place.holder());
    }
}

#[test]
fn a_killed_leader_by_a_row_is_followed_when_its_lease_ran_out() {
    if let Some(place) = Place::new("processes_killed") {
        is_followed_when_killed(&place.stage(SHORT));
    }
}

#[test]
fn a_leader_by_a_row_that_was_stopped_past_its_lease_knows_when_it_wakes() {
    if let Some(place) = Place::new("processes_stopped") {
        knows_when_it_wakes(&place.stage(SHORT));
    }
}

#[test]
fn a_url_that_cannot_be_used_is_refused_and_its_password_is_not_shown() {
    let place = Place::new("processes_refused");
    let nowhere = place.map(|place| place.postgres.url("postgres", "no_such_database"));
    let urls = ["postgres:me:X@h/d", "postgras://me:X@h/d", "postgres://me:X@h/d?sslmode=X", "postgresql://X"];
    for url in urls.map(|url| url.replace('X', PASSWORD)) {
        let end = run(&["--lease-lock-name=jobs", "--store", &url]);
        assert_eq!(end.code, Some(2), "{url}: {}", end.complaints);
        assert!(end.complaints.starts_with("leader_election: "), "{url}: {}", end.complaints);
        assert!(!end.complaints.contains(PASSWORD), "{url}: {}", end.complaints);
    }
    // That is told by the server, to who campaigns.
    if let Some(nowhere) = nowhere {
        let end = run(&["--lease-lock-name=jobs", "--store", &nowhere]);
        assert_eq!(end.code, Some(1), "{}", end.complaints);
        assert!(end.complaints.contains("create it, or name another one in the URL"), "{}", end.complaints);
        assert!(!end.complaints.contains(PASSWORD), "{}", end.complaints);
    }
}
