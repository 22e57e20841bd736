//! When nothing goes wrong any more, somebody leads, goes on leading, and hands over at once.

use crate::clock::{MILLI, Nanos, SECOND};
use crate::node::{Node, Wants};
use crate::plan::Violation;
use crate::queue::What;
use crate::trace::trace;
use crate::world::World;

/// How long a graceful handover takes at most in calm faults, to a candidate whose watch stands: a request under way
/// is left its grace, the release may meet an edit of metadata and be read after and repeated, its event travels, and
/// the take-over may meet another edit. Nothing in that is a poll or a wait.
const HANDOVER: Nanos = 500 * MILLI;

impl World {
    /// Who was closed among faults has finished by the time that somebody leads again.
    fn must_have_finished(&self) -> Result<(), Violation> {
        let is_late =
            |node: &&Node| node.alive && !node.finished() && node.closed_at.is_some_and(|at| at < self.plan.heal_at);
        match self.nodes.iter().find(is_late).filter(|_| self.truth >= self.plan.lead_by) {
            Some(node) => Err(format!("{} was closed and does not finish", node.identity).into()),
            None => Ok(()),
        }
    }

    /// Somebody leads by the time that is stated, and goes on leading.
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
        // Who has not found out about a restore may lose a term to a server of a former life, once.
        let forgotten = if self.plan.forgotten_servers { self.plan.nodes as u64 } else { 0 };
        let lead_by = self.plan.lead_by + forgotten * (self.plan.longest + 10 * SECOND);
        match (self.led_since, leader.and_then(|node| node.term.as_ref()).map(|term| term.serial)) {
            (None, None) if self.truth >= lead_by => {
                return Err("nobody leads although nothing keeps anybody from it".to_owned().into());
            }
            (None, None) => {}
            (None, Some(serial)) => {
                self.led_since = Some(serial);
                self.queue.push(self.truth + self.plan.calm, None, What::HandOver);
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

    /// How soon after the last fault somebody led.
    pub fn note_recovery(&mut self) {
        if !self.recovered && self.truth >= self.plan.heal_at && self.nodes.iter().any(|node| node.valid(self.truth)) {
            self.recovered = true;
            self.count.slowest_recovery = self.truth - self.plan.heal_at;
        }
    }

    /// The leader releases, if anybody stands by who hears of it.
    pub fn hand_over(&mut self) -> Result<(), Violation> {
        let (truth, version) = (self.truth, self.stores[0].version());
        let Some(leader) = self.nodes.iter().position(|node| node.valid(truth)) else { return self.must_lead() };
        let stands_by = |node: &Node| {
            node.alive && node.wants == Some(Wants::Term) && node.records[0].hears_promptly(truth, version)
        };
        if !self.nodes.iter().any(stands_by) {
            self.queue.push(truth, None, What::End);
            return Ok(());
        }
        trace!(self, "{} is to hand over", self.nodes[leader].identity);
        self.handing_over = Some(truth);
        self.queue.push(truth + HANDOVER, None, What::HandedOver);
        self.drop_guard(leader, false)
    }

    /// Somebody was elected.
    pub fn note_handover(&mut self) {
        if let Some(at) = self.handing_over.filter(|_| self.count.handovers == 0) {
            self.count.handovers = 1;
            self.count.slowest_handover = self.truth - at;
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
