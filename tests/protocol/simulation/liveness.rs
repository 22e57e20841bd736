//! After the faults, a candidate must lead, continue to lead, and hand over without a delay.

use std::time::Duration;

use crate::clock::{MILLI, Nanos, SECOND};
use crate::node::{Node, Wants};
use crate::plan::Violation;
use crate::queue::What;
use crate::trace::trace;
use crate::world::World;

/// The longest time of a graceful handover after the faults, to a standby with an open watch.
///
/// The handover includes these steps, none of which waits for a poll:
///
/// - A request under way gets time to finish.
/// - The release may conflict with an edit of metadata. The elector then reads the record and repeats the release.
/// - The watch delivers the release to the standby.
/// - The takeover may conflict with another edit.
///
/// The shortest delay of such a standby comes in addition. If the network drops idle connections, the first attempt on
/// such a connection also comes in addition.
const HANDOVER: Nanos = 500 * MILLI;

impl World {
    /// Checks that a node that was closed during the faults has finished when a leader is due.
    fn must_have_finished(&self) -> Result<(), Violation> {
        let is_late =
            |node: &&Node| node.alive && !node.finished() && node.closed_at.is_some_and(|at| at < self.plan.heal_at);
        match self.nodes.iter().find(is_late).filter(|_| self.truth >= self.plan.lead_by) {
            Some(node) => Err(format!("{} was closed and does not finish", node.identity).into()),
            None => Ok(()),
        }
    }

    /// Checks that a candidate leads by `lead_by`, and continues to lead.
    pub fn must_lead(&mut self) -> Result<(), Violation> {
        if self.plan.suite.is_on_two() {
            return self.must_lead_in_turn();
        }
        self.must_have_finished()?;
        if self.handing_over.is_some() {
            return Ok(());
        }
        let stands =
            |node: &Node| self.stores[0].record().is_some_and(|record| record.holder() == Some(&node.identity));
        let leader = self.nodes.iter().find(|node| node.valid(self.truth) && stands(node));
        // A node that has not noticed a restore may lose one term, if a server that was not restarted shows it records
        // from before the restore.
        let forgotten = if self.plan.forgotten_servers { self.plan.nodes as u64 } else { 0 };
        let lead_by = self.plan.lead_by + forgotten * (self.plan.longest + self.plan.held_back() + 10 * SECOND);
        match (self.led_since, leader.and_then(|node| node.term.as_ref()).map(|term| term.serial)) {
            (None, None) if self.truth >= lead_by => {
                return Err("nobody leads although nothing keeps anybody from it".to_owned().into());
            }
            (None, None) => {}
            (None, Some(serial)) => {
                self.led_since = Some(serial);
                let at = (self.truth + self.plan.calm).max(self.plan.pauses_end);
                self.queue.push(at, None, What::HandOver);
            }
            (Some(before), now) if now != Some(before) && self.truth < lead_by && forgotten > 0 => {
                self.led_since = None
            }
            (Some(before), now) if now != Some(before) => {
                return Err("a leader lost its term although nothing happened".to_owned().into());
            }
            _ => {}
        }
        self.queue.push(self.truth + SECOND, None, What::Check);
        Ok(())
    }

    /// Notes the time from the last fault to the first leader.
    pub fn note_recovery(&mut self) {
        if !self.recovered && self.truth >= self.plan.heal_at && self.nodes.iter().any(|node| node.valid(self.truth)) {
            self.recovered = true;
            self.count.slowest_recovery = self.truth - self.plan.heal_at;
        }
    }

    /// Makes the leader release, if a standby receives events promptly.
    pub fn hand_over(&mut self) -> Result<(), Violation> {
        let (truth, version) = (self.truth, self.stores[0].version());
        let Some(leader) = self.nodes.iter().position(|node| node.valid(truth)) else { return self.must_lead() };
        // A node stays aside if its successor has the same identity.
        let stands_by = |node: &Node| {
            node.alive
                && !node.is_aside
                && node.wants == Some(Wants::Term)
                // A job may not be due.
                && !node.campaigns_for_a_job()
                && node.record.hears_promptly(truth, version)
        };
        // A slow server needs longer for each step.
        let delays = self.nodes.iter().filter(|node| stands_by(node) && self.plan.lateness == 0);
        let first_attempts = delays.clone().map(|node| node.record.connection.longest_first_attempt());
        let dropped = first_attempts.max().filter(|_| self.plan.drops_after.is_some()).unwrap_or_default();
        let delays = delays.map(|node| node.settings.hold_back);
        let Some(delay) = delays.min().map(|delay| delay.as_nanos() as Nanos) else {
            self.queue.push(truth, None, What::End);
            return Ok(());
        };
        if delay > 0 {
            self.count.fault("handovers after a delay");
        }
        trace!(self, "{} is to hand over", self.nodes[leader].identity);
        self.handing_over = Some(truth + delay);
        // The network may have dropped the connection of a leader that renews seldom, so its release needs another one.
        let settings = &self.nodes[leader].settings;
        let renews_seldom =
            self.plan.drops_after.is_some_and(|after| settings.renew_interval.as_nanos() as Nanos > after);
        let release = if renews_seldom { settings.release_timeout } else { Duration::ZERO };
        let handover = HANDOVER + (dropped + release).as_nanos() as Nanos;
        self.queue.push(truth + delay + handover, None, What::HandedOver);
        if self.obeys_promptly(&self.nodes[leader]) && self.random.bool() {
            self.count.fault("handovers by request");
            self.request(self.nodes[leader].identity.clone());
            return Ok(());
        }
        self.drop_guard(leader, false)
    }

    /// Notes the time from the release to the election of another candidate.
    pub fn note_handover(&mut self) {
        if let Some(at) = self.handing_over.filter(|_| self.count.handovers == 0) {
            self.count.handovers = 1;
            self.count.slowest_handover = self.truth.saturating_sub(at);
        }
    }

    pub fn must_have_handed_over(&mut self) -> Result<(), Violation> {
        if self.count.handovers == 0 {
            return Err("a graceful handover to a standby that watches took too long".to_owned().into());
        }
        self.queue.push(self.truth, None, What::End);
        Ok(())
    }
}
