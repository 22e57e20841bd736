//! Users and faults in a world with two objects.

use crate::clock::{MILLI, Nanos, SECOND};
use crate::node::{Command, Mind, Wants};
use crate::plan::Violation;
use crate::queue::What;
use crate::trace::trace;
use crate::world::World;

impl World {
    pub fn user_on_two(&mut self, index: usize) -> Result<(), Violation> {
        let (truth, calm) = (self.truth, self.truth >= self.plan.heal_at);
        let every = if calm { SECOND } else { self.plan.user_every };
        let next = truth + self.random.u64(MILLI..2 * every);
        let roll = self.random.u32(..100);
        let node = &mut self.nodes[index];
        let to = Some((index, node.incarnation));
        self.queue.push(next, to, What::User);
        let leads = node.valid(truth);
        if let Mind::ClientGo(candidate) = &mut node.mind {
            if leads && !calm && roll < 20 {
                candidate.stop();
            }
            return Ok(());
        }
        // Fitness reports that a pause delays may arrive in another order, and leave the node unfit.
        if calm && !node.is_fit {
            self.queue.push(truth, to, What::SetFit(true));
        }
        if let Some(term) = node.term.as_ref().filter(|term| term.guard_held) {
            node.had_turn |= self.turns && leads;
            if node.had_turn || (calm && !leads) || (!calm && roll < if leads { 20 } else { 50 }) {
                let again = !node.had_turn && self.random.bool();
                return self.drop_guard(index, again);
            }
            if !calm && roll < 30 && !term.stepped_down {
                self.begin_to_step_down(index, roll);
            }
            return Ok(());
        }
        match node.wants {
            Some(_) if !calm && roll < 15 => {
                node.wants = None;
                let command = Command::Withdraw(node.campaigns);
                self.count.fault("withdrawals");
                self.tell(index, command)
            }
            None if node.had_turn => Ok(()),
            None if calm || roll < 70 => {
                let command = node.campaign(if roll < 20 { Wants::Round } else { Wants::Term });
                self.tell(index, command)
            }
            _ => Ok(()),
        }
    }

    /// Starts the work of a term that was just won.
    pub fn begin_work(&mut self, index: usize) {
        let node = &self.nodes[index];
        if let Some(within) = self.plan.progress[index] {
            let at = self.truth + within.as_nanos() as Nanos / 3;
            self.queue.push(at, Some((index, node.incarnation)), What::Work(node.campaigns));
        }
    }

    /// Reports progress three times per progress timeout, unless the work hangs.
    pub fn work(&mut self, index: usize, campaign: u64) {
        let (truth, calm) = (self.truth, self.truth >= self.plan.heal_at);
        let node = &mut self.nodes[index];
        let term = node.term.as_ref().filter(|term| term.guard_held && node.campaigns == campaign);
        let (Some(term), Some(within)) = (term, self.plan.progress[index]) else { return };
        let (now, within) = (node.clock.local(truth), within.as_nanos() as Nanos);
        let hangs = !calm && self.random.u8(..20) == 0;
        if !hangs {
            term.deadline.report_progress(now, now);
            node.refresh();
        }
        // The delay is in true time. A third of the timeout leaves enough room even for the fastest clock.
        let next = if hangs { 2 * within } else { within / 3 };
        self.queue.push(truth + next, Some((index, node.incarnation)), What::Work(campaign));
    }

    /// Passes a fitness report to the candidate.
    ///
    /// After the faults, the node is always fit.
    pub fn set_fit(&mut self, index: usize, is_fit: bool) -> Result<(), Violation> {
        self.tell(index, Command::Fitness(is_fit || self.truth >= self.plan.heal_at))
    }

    pub fn crash_for_a_lease(&mut self, index: usize) {
        let at = self.truth + self.random.u64(MILLI..self.plan.longest);
        self.crash(index, at);
    }

    pub fn chaos_on_two(&mut self) -> Result<(), Violation> {
        let index = self.random.usize(..self.nodes.len());
        let until = (self.truth + self.random.u64(..2 * self.plan.longest)).min(self.plan.heal_at);
        let node = &mut self.nodes[index];
        let (is_ours, to) = (node.is_ours() && node.alive, Some((index, node.incarnation)));
        match self.random.u8(..7) {
            0..=1 if is_ours => {
                trace!(self, "{} stands still", node.identity);
                node.paused_until = Some(until);
                self.count.fault("pauses");
            }
            2 if node.alive => self.crash_for_a_lease(index),
            3..=4 if is_ours => self.disturb_watch(index),
            5 => {
                let object = self.random.usize(..2);
                self.stores[object].label();
                self.one_counter();
            }
            6 if is_ours && self.plan.asked => {
                self.queue.push(self.truth, to, What::SetFit(false));
                self.queue.push(until, to, What::SetFit(true));
            }
            _ => {}
        }
        Ok(())
    }
}
