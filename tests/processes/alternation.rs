//! Candidates of leasehold and of another client that take over one record in turn.

use rustix::process::Signal;

use crate::support::exclusion::History;
use crate::support::process::{Candidate, Stage};

/// How a leader ends.
#[derive(Clone, Copy, PartialEq)]
pub enum End {
    /// The leader receives SIGTERM and releases the lease.
    Told,
    /// The leader is killed, and its lease must expire.
    Killed,
}

/// The candidates that lead in turn, and the ways in which they end.
pub struct Alternation<'a> {
    pub stage: &'a Stage,
    /// Starts a candidate of the other client.
    pub theirs: &'a dyn Fn(&str) -> Candidate,
    pub handovers: u64,
    /// Returns how the leader before a handover ends.
    ///
    /// The flag is `true` for a leader of leasehold.
    pub end: &'a dyn Fn(u64, bool) -> End,
    /// A number of heartbeats that takes longer than the retry period of either client.
    pub renewed: usize,
    /// Whether candidates of leasehold can observe a leader of the other client.
    pub we_see_them: bool,
}

impl Alternation<'_> {
    /// Runs the handovers, starting with a candidate of leasehold.
    ///
    /// Calls `taken` with each new leader after the first.
    pub fn run(&self, taken: impl Fn(u64, &Candidate)) -> History {
        let candidate = |is_ours: bool, number: u64| {
            let id = number.to_string();
            if is_ours { self.stage.candidate(&id) } else { (self.theirs)(&id) }
        };
        let (mut is_ours, mut leader) = (true, candidate(true, 0));
        leader.wait_for("leading");
        for number in 1..=self.handovers {
            let standby = candidate(!is_ours, number);
            if is_ours || self.we_see_them {
                while standby.wait_for("new_leader").leader.as_ref() != Some(&leader.id) {}
            }
            // The leader must renew its lease while the standby runs.
            (0..self.renewed).for_each(|_| drop(leader.wait_for("leading")));
            match (self.end)(number, is_ours) {
                End::Killed => drop(leader.kill()),
                End::Told => {
                    leader.signal(Signal::TERM);
                    let end = leader.end();
                    assert_eq!(end.code, Some(0), "{}", end.errors);
                }
            }
            standby.wait_for("leading");
            taken(number, &standby);
            (is_ours, leader) = (!is_ours, standby);
        }
        let history = self.stage.assert_one_leader_at_a_time();
        assert_eq!(history.handovers() as u64, self.handovers, "{:?}", history.terms);
        history
    }
}
