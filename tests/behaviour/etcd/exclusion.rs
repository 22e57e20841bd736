//! A hundred handovers, and never two leaders.

use crate::support::etcd::Etcd;
use crate::support::turns::a_hundred_handovers;

/// Each with a client of its own. Some leave as they should, some are gone without a word: their leases run out.
#[test]
fn a_hundred_handovers_and_never_two_leaders() {
    let Some(etcd) = Etcd::shared() else { return };
    a_hundred_handovers(
        || etcd.store("exclusion/"),
        |number, guard| {
            if number % 10 == 9 {
                etcd.delete("exclusion/jobs");
                let _ = guard.lost().recv();
            }
        },
    );
}
