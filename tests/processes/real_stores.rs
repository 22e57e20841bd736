//! Candidates as processes on real stores: ended, killed, and stopped past their lease.

use rustix::process::Signal;

use crate::leader_election::{LONG, SHORT, hands_over, is_followed_when_killed, knows_when_it_wakes};
use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;
use crate::support::process::{Stage, run};
use crate::support::real_store::{File, InEtcd, InSql, RealStore};
use crate::support::sql::{PASSWORD, SqlServer};

macro_rules! on_every_store {
    ($($module:ident $place:ty),*) => {
        $(mod $module {
            use super::*;

            #[test]
            fn sigterm_hands_the_record_over() {
                let Some(place) = <$place>::shared("processes_sigterm") else { return };
                hands_over(&Stage::on_store(&place.url(), "jobs", LONG), Signal::TERM, || place.holder());
            }

            #[test]
            fn killed_leader_is_followed_when_its_lease_ran_out() {
                let Some(place) = <$place>::shared("processes_killed") else { return };
                is_followed_when_killed(&Stage::on_store(&place.url(), "jobs", SHORT));
            }

            #[test]
            fn leader_stopped_past_its_lease_knows_when_it_wakes() {
                let Some(place) = <$place>::shared("processes_stopped") else { return };
                knows_when_it_wakes(&Stage::on_store(&place.url(), "jobs", SHORT));
            }
        })*
    };
}

on_every_store!(sqlite File, postgres InSql<Postgres>, mysql InSql<MariaDb>, etcd InEtcd);

#[test]
fn unusable_url_is_refused_without_its_password() {
    let urls = ["postgres:me:X@h/d", "postgras://me:X@h/d", "postgres://me:X@h/d?sslmode=X", "postgresql://X"];
    for url in urls.map(|url| url.replace('X', PASSWORD)) {
        let end = run(&["--lease-lock-name=jobs", "--store", &url]);
        assert_eq!(end.code, Some(2), "{url}: {}", end.errors);
        assert!(end.errors.starts_with("leader_election: "), "{url}: {}", end.errors);
        assert!(!end.errors.contains(PASSWORD), "{url}: {}", end.errors);
    }
    // Only the server can detect a missing database, so the candidate starts and then fails with exit code 1.
    if let Some(postgres) = Postgres::shared() {
        let end = run(&["--lease-lock-name=jobs", "--store", &postgres.url("postgres", "no_such_database")]);
        assert_eq!(end.code, Some(1), "{}", end.errors);
        assert!(end.errors.contains("create the database, or set another one in the URL"), "{}", end.errors);
        assert!(!end.errors.contains(PASSWORD), "{}", end.errors);
    }
}
