//! Users, who campaign, hold a guard, step down and release.

use leasehold::StopReason;

use crate::clock::{MILLI, SECOND};
use crate::node::{Command, Wants};
use crate::plan::{Suite, Violation};
use crate::queue::What;
use crate::trace::trace;
use crate::world::World;

impl World {
    pub fn user(&mut self, index: usize) -> Result<(), Violation> {
        if self.plan.suite.is_on_two() {
            return self.user_on_two(index);
        }
        // During the final handover, no user acts, so that the former leader does not campaign too early.
        if self.handing_over.is_some() {
            let node = &self.nodes[index];
            let is_requested = node.holds_guard() && !node.valid(self.truth);
            return if is_requested { self.drop_guard(index, false) } else { Ok(()) };
        }
        let calm = self.truth >= self.plan.heal_at;
        let every = if calm { SECOND / 2 } else { self.plan.user_every };
        let next = self.truth + self.random.u64(MILLI..2 * every);
        let node = &mut self.nodes[index];
        let to = (index, node.incarnation);
        self.queue.push(next, Some(to), What::User);
        if self.plan.suite == Suite::Fitness {
            self.change_fitness(index, calm)?;
        }
        let roll = self.random.u32(..100);
        let truth = self.truth;
        let node = &mut self.nodes[index];
        let valid = node.valid(truth);
        if let Some(term) = node.term.as_ref().filter(|term| term.guard_held) {
            if (calm && !valid) || (!calm && roll < if valid { 20 } else { 50 }) {
                if valid && self.job_ends(index)? {
                    return Ok(());
                }
                let again = self.random.bool();
                return self.drop_guard(index, again);
            }
            // A second step-down of the same term must have no effect.
            if !calm && roll < 30 && (!term.stepped_down || roll < 25) {
                self.begin_to_step_down(index, roll);
            }
            return Ok(());
        }
        if !calm && roll < 3 && node.closed_at.is_none() {
            node.closed_at = Some(truth);
            node.wants = None;
            return self.tell(index, Command::Close);
        }
        match node.wants {
            Some(Wants::Term) if !calm && roll < 15 => {
                node.order(Command::Withdraw(node.campaigns));
                node.wants = None;
                if roll < 8 {
                    let command = node.campaign(Wants::Term);
                    node.order(command);
                }
                self.drive(index)
            }
            None if node.closed_at.is_none() && (calm || roll < 70) => {
                let wants = if roll < 20 { Wants::Round } else { Wants::Term };
                let command = node.campaign(wants);
                self.tell(index, command)
            }
            _ => Ok(()),
        }
    }

    /// Changes whether the node's work makes progress, and whether the node is fit.
    ///
    /// After the faults, the work always makes progress and the node is always fit.
    fn change_fitness(&mut self, index: usize, calm: bool) -> Result<(), Violation> {
        let (truth, roll) = (self.truth, self.random.u32(..100));
        let node = &mut self.nodes[index];
        let now = node.clock.local(truth);
        node.works = calm || if node.works { roll >= 5 } else { roll < 20 };
        if let Some(term) = node.term.as_ref().filter(|term| node.works && term.guard_held) {
            term.deadline.report_progress(now, now);
            node.refresh();
        }
        let roll = self.random.u32(..100);
        let is_fit = calm || if node.is_fit { roll >= 5 } else { roll < 30 };
        if is_fit != node.is_fit && node.alive {
            trace!(self, "{} is fit: {is_fit}", self.nodes[index].identity);
            return self.tell(index, Command::Fitness(is_fit));
        }
        Ok(())
    }

    /// Ends the term at once, and reports the step-down to the candidate later.
    ///
    /// The user's thread may be held up in between.
    pub fn begin_to_step_down(&mut self, index: usize, roll: u32) {
        let node = &mut self.nodes[index];
        let (now, to) = (node.clock.local(self.truth), (index, node.incarnation));
        let Some(term) = &mut node.term else { return };
        term.deadline.end(now, StopReason::SteppedDown);
        term.stepped_down = true;
        let serial = term.serial;
        node.refresh();
        trace!(self, "{} steps down", node.identity);
        self.count.fault("step-downs");
        let after = if roll < 24 { self.random.u64(..15 * SECOND) } else { 0 };
        self.queue.push(self.truth + after, Some(to), What::StepDown(serial));
    }

    pub fn step_down(&mut self, index: usize, serial: u64) -> Result<(), Violation> {
        match &self.nodes[index].term {
            Some(term) if term.serial == serial && term.guard_held => self.tell(index, Command::StepDown),
            // The guard has been dropped since, so there is no term to step down from.
            _ => Ok(()),
        }
    }

    pub fn drop_guard(&mut self, index: usize, again: bool) -> Result<(), Violation> {
        let node = &mut self.nodes[index];
        trace!(self, "{} drops its guard", node.identity);
        let now = node.clock.local(self.truth);
        if let Some(term) = &mut node.term {
            term.deadline.end(now, StopReason::Released);
            term.guard_held = false;
        }
        node.refresh();
        node.ends_job();
        node.order(Command::GuardDropped { at: now });
        if again && node.closed_at.is_none() {
            let command = node.campaign(Wants::Term);
            node.order(command);
        }
        self.drive(index)
    }
}
