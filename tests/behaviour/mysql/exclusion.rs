//! A hundred handovers, and never two leaders.

use super::Place;
use crate::support::turns::a_hundred_handovers;

/// Each with connections of its own, which are cut now and then, and rows that are deleted under their leaders.
#[test]
fn a_hundred_handovers_and_never_two_leaders() {
    let Some(place) = Place::shared("exclusion") else { return };
    a_hundred_handovers(
        || place.store(),
        |number, guard| match number % 10 {
            3 => drop(place.mariadb.kill_connections(&place.database)),
            9 => {
                place.execute("DELETE FROM leasehold WHERE name = 'jobs'");
                let _ = guard.lost().recv();
            }
            _ => {}
        },
    );
}
