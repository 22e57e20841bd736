//! Those who campaign, hold a guard, step down and release, and what goes wrong.

use leasehold::StopReason;
use leasehold::election::candidate::session::Input;
use leasehold::election::candidate::side::Side;

use super::node::Mind;
use super::world::{Event, World};
use crate::clock::{MILLI, Nanos, SECOND};
use crate::plan::Violation;
use crate::trace::trace;

impl World {
    pub(super) fn user(&mut self, index: usize) -> Result<(), Violation> {
        let calm = self.truth >= self.plan.heal_at;
        let every = if calm { SECOND } else { self.plan.user_every };
        let incarnation = self.nodes[index].incarnation;
        let next = self.truth + self.random.u64(MILLI..2 * every);
        // Everybody comes back when the faults have ended.
        let next = if calm { next } else { next.min(self.plan.heal_at + MILLI) };
        self.push(next, Event::User(index, incarnation));
        let roll = self.random.u32(..100);
        let truth = self.truth;
        let node = &mut self.nodes[index];
        let leads = node.leads(truth);
        if let Mind::ClientGo(candidate) = &mut node.mind {
            if leads && !calm && roll < 20 {
                candidate.stop();
            }
            return Ok(());
        }
        // Events that a pause delays may arrive in another order, and leave the node unfit.
        if calm && !node.is_fit {
            self.push(truth, Event::SetFit(index, incarnation, true));
        }
        let node = &mut self.nodes[index];
        let now = node.clock.local(truth);
        if let Some(term) = node.term.as_mut().filter(|term| term.guard_held) {
            node.had_turn |= self.turns && leads;
            if node.had_turn || (calm && !leads) || (!calm && roll < if leads { 20 } else { 50 }) {
                term.deadline.end(now, StopReason::Released);
                term.guard_held = false;
                let campaigns = !node.had_turn && self.random.bool();
                self.handle(index, Side::Primary, Input::GuardGone { at: now })?;
                return if campaigns { self.campaign(index, false) } else { Ok(()) };
            }
            if !calm && roll < 30 && !term.stepped_down {
                term.deadline.end(now, StopReason::SteppedDown);
                term.stepped_down = true;
                self.count.step_downs += 1;
                let after = if roll < 24 { self.random.u64(..15 * SECOND) } else { 0 };
                let campaign = self.nodes[index].campaigns;
                self.push(truth + after, Event::StepDown(index, incarnation, campaign));
            }
            return Ok(());
        }
        match node.wants {
            Some(id) if !calm && roll < 15 => {
                node.wants = None;
                self.count.withdrawals += 1;
                self.handle(index, Side::Primary, Input::Withdraw(id))
            }
            None if node.had_turn => Ok(()),
            None if calm || roll < 70 => self.campaign(index, roll < 20),
            _ => Ok(()),
        }
    }

    /// The work stamps three times as often as it has to, unless it hangs.
    pub(super) fn work(&mut self, index: usize, campaign: u64) {
        let (truth, calm) = (self.truth, self.truth >= self.plan.heal_at);
        let node = &self.nodes[index];
        let term = node.term.as_ref().filter(|term| term.guard_held && node.campaigns == campaign);
        let (Some(term), Some(within)) = (term, self.plan.progress) else { return };
        let (now, within) = (node.clock.local(truth), within.as_nanos() as Nanos);
        let incarnation = node.incarnation;
        let hangs = !calm && self.random.u8(..20) == 0;
        if !hangs {
            term.deadline.progress(now, now);
        }
        // A clock that is fast has it make progress more often.
        let next = if hangs { 2 * within } else { within / 3 };
        self.push(truth + next, Event::Work(index, incarnation, campaign));
    }

    pub(super) fn campaign(&mut self, index: usize, once: bool) -> Result<(), Violation> {
        let node = &mut self.nodes[index];
        node.campaigns += 1;
        let id = node.campaigns;
        node.wants = Some(id);
        self.handle(index, Side::Primary, Input::Campaign { id, once })
    }

    pub(super) fn crash(&mut self, index: usize) {
        self.count.crashes += 1;
        let lease = self.plan.lease.as_nanos() as Nanos;
        let node = &mut self.nodes[index];
        trace!(self, "{} is gone", node.identity);
        node.alive = false;
        node.term = None;
        node.paused_until = 0;
        node.incarnation += 1;
        let (incarnation, after) = (node.incarnation, self.random.u64(MILLI..lease));
        self.push(self.truth + after, Event::Restart(index, incarnation));
    }

    pub(super) fn chaos(&mut self) -> Result<(), Violation> {
        if self.truth >= self.plan.heal_at {
            return Ok(());
        }
        let next = self.truth + self.random.u64(MILLI..2 * self.plan.chaos_every);
        self.push(next, Event::Chaos);
        let index = self.random.usize(..self.nodes.len());
        let lease = self.plan.lease.as_nanos() as Nanos;
        let until = (self.truth + self.random.u64(..2 * lease)).min(self.plan.heal_at);
        let is_ours = matches!(self.nodes[index].mind, Mind::Ours(_));
        match self.random.u8(..7) {
            0..=1 if is_ours && self.nodes[index].alive => {
                trace!(self, "{} stands still", self.nodes[index].identity);
                self.nodes[index].paused_until = until;
                self.count.pauses += 1;
            }
            2 if self.nodes[index].alive => self.crash(index),
            3..=4 if is_ours && self.nodes[index].alive => {
                let side = if self.random.bool() { Side::Primary } else { Side::Secondary };
                let stalls = self.random.bool();
                let Some(record) = self.ours(index).records.get_mut(side as usize) else { return Ok(()) };
                match &mut record.stream {
                    Some(stream) if stalls => stream.stalled = true,
                    Some(_) => self.end_stream(index, side),
                    None => {}
                }
            }
            5 => {
                let object = self.random.usize(..2);
                self.stores[object].label();
                self.one_counter();
            }
            6 if is_ours && self.plan.asked && self.nodes[index].alive => {
                let incarnation = self.nodes[index].incarnation;
                self.push(self.truth, Event::SetFit(index, incarnation, false));
                self.push(until, Event::SetFit(index, incarnation, true));
            }
            _ => {}
        }
        Ok(())
    }
}
