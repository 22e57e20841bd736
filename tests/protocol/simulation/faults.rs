//! The faults of a world, and how they end.

use leasehold::store::StoreErrorKind;

use crate::clock::{MILLI, Nanos, SECOND};
use crate::network::Cut;
use crate::node::Node;
use crate::plan::{Odds, Violation};
use crate::queue::What;
use crate::trace::trace;
use crate::world::World;

impl World {
    pub fn chaos(&mut self) -> Result<(), Violation> {
        if self.truth >= self.plan.heal_at {
            return Ok(());
        }
        let next = self.truth + self.random.u64(MILLI..2 * self.plan.chaos_every);
        self.queue.push(next, None, What::Chaos);
        if self.plan.suite.is_on_two() {
            return self.chaos_on_two();
        }
        let index = self.random.usize(..self.nodes.len());
        let scale = self.nodes[index].settings.lease_duration.as_nanos() as Nanos;
        let until = (self.truth + self.random.u64(..2 * scale)).min(self.plan.heal_at);
        let calm = self.plan.steady_network;
        match self.random.u8(..if self.plan.watches { 18 } else { 12 }) {
            0..=2 if !calm => {
                // The pause often hits a leader that waits for an answer, and lasts about as long as the term.
                let leads = |node: &Node| node.valid(self.truth) && node.record.in_flight.is_some();
                let leader = self.nodes.iter().position(leads).filter(|_| self.random.u8(..4) > 0);
                let (index, until) = match leader {
                    Some(leader) => {
                        let deadline = self.nodes[leader].settings.renew_deadline.as_nanos() as Nanos;
                        let length = deadline / 2 + self.random.u64(..deadline * 3 / 5);
                        (leader, (self.truth + length).min(self.plan.heal_at))
                    }
                    None => (index, until),
                };
                let node = &mut self.nodes[index];
                if node.alive && node.paused_until.is_none() {
                    trace!(self, "{} stands still", node.identity);
                    self.count.fault("pauses");
                    node.paused_until = Some(until);
                    // The timer resumes the node even if no other event reaches the node.
                    self.wake(index, until);
                }
            }
            3 => {
                if self.nodes[index].alive && !self.nodes[index].finished() {
                    let at = if self.random.bool() { self.truth + MILLI } else { until };
                    self.crash(index, at);
                }
            }
            4..=6 if !calm => {
                let cuts = [Cut::Requests, Cut::Answers, Cut::Refused];
                let cut = cuts[self.random.usize(..3)];
                let whole = self.random.u8(..4) == 0;
                self.count.fault("cuts");
                for other in (0..self.nodes.len()).filter(|other| whole || *other == index) {
                    trace!(self, "{} is cut off: {cut:?}", self.nodes[other].identity);
                    self.nodes[other].cut = Some((cut, until));
                    if cut == Cut::Refused {
                        self.end_watch(other, Some(StoreErrorKind::Unavailable));
                    }
                }
            }
            7 | 8 => {
                trace!(self, "a label is edited");
                self.stores[0].label();
                self.count.fault("edits of metadata");
            }
            9 => {
                self.stores[0].unrelated(1 + self.random.u64(..100));
                self.bookmark();
            }
            10 if self.random.bool() => (0..self.nodes.len()).for_each(|index| self.jump(index)),
            10 => {
                self.nodes[index].clock.set_wall(&mut self.random);
                self.count.fault("steps of a wall clock");
                if self.random.bool() {
                    self.change_rate(index);
                }
            }
            11 => {
                self.stores[0].compact();
                self.count.fault("compactions");
            }
            12 | 13 if !calm => self.fall_behind(),
            _ => self.disturb_watch(index),
        }
        Ok(())
    }

    /// Changes the rate of a local clock to another rate that the promise permits.
    fn change_rate(&mut self, index: usize) {
        let rate = self.plan.rate(&mut self.random);
        if self.nodes[index].clock.set_rate(self.truth, rate, self.plan.longest) {
            self.count.fault("changes of a clock's rate");
            self.clock_was_set(index);
        }
    }

    /// Makes a local clock jump by no more than the promise permits.
    fn jump(&mut self, index: usize) {
        let longest_jump = self.plan.longest_jump;
        let by = if self.random.bool() { longest_jump } else { self.random.u64(..=longest_jump) };
        if self.nodes[index].clock.jump(self.truth, by, self.plan.longest) {
            self.count.fault("jumps of a clock");
            self.clock_was_set(index);
        }
    }

    /// Wakes a node after its clock was changed, because its timers are now due at other times.
    fn clock_was_set(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.refresh();
        self.wake(index, self.truth);
    }

    /// Wakes the request thread of a node at `at`, and cancels its own timer.
    fn wake(&mut self, index: usize, at: Nanos) {
        let node = &mut self.nodes[index];
        let to = (index, node.incarnation);
        node.record.wake += 1;
        self.queue.push(at, Some(to), What::Wake(node.record.wake));
    }

    /// Returns how long a thread is held up between reading its clock and acting by the reading.
    pub fn held_up(&mut self) -> Nanos {
        match self.plan.held_up && self.truth < self.plan.heal_at && self.random.u8(..48) == 0 {
            true => {
                self.count.fault("threads held up");
                self.random.u64(MILLI..self.plan.longest).min(self.plan.heal_at - self.truth)
            }
            false => 0,
        }
    }

    pub fn operator(&mut self) {
        let Some(every) = self.plan.operator_every.filter(|_| self.truth < self.plan.heal_at) else { return };
        let next = self.truth + self.random.u64(MILLI..2 * every);
        self.queue.push(next, None, What::Operator);
        self.checks.undermine(self.truth, &self.plan, &self.nodes, &self.stores[0]);
        let what = self.random.u8(..6);
        trace!(self, "the operator does {what}");
        self.count.fault(if what < 3 { "deletions" } else { "edits of the record" });
        match what {
            0..=2 => self.stores[0].delete(),
            3 => self.stores[0].edit(|record| record.holder_identity = Some("operator".into())),
            4 => self.stores[0].edit(|record| record.holder_identity = None),
            _ => self.stores[0].edit(|record| record.lease_duration_seconds = Some(1)),
        }
    }

    /// Restores the store to an older state, or makes a backup.
    ///
    /// After a restore, some API servers continue to show the state from before.
    pub fn restore(&mut self) {
        let Some(every) = self.plan.restore_every.filter(|_| self.truth < self.plan.heal_at) else { return };
        let next = self.truth + self.random.u64(MILLI..2 * every);
        self.queue.push(next, None, What::Restore);
        if self.random.bool() {
            return self.stores[0].back_up();
        }
        let former = self.stores[0].former();
        self.stores[0].restore(&mut self.random);
        self.freeze_servers(&former);
        trace!(self, "the store goes back to {}", self.stores[0].version());
        self.count.fault("restored stores");
        for index in 0..self.nodes.len() {
            self.end_watch(index, Some(StoreErrorKind::Unavailable));
        }
    }

    pub fn heal(&mut self) {
        trace!(self, "all faults end");
        self.plan.odds = Odds::default();
        if self.plan.notes_every.is_some() {
            self.stores[0].annotate(|notes| notes.step_down = None);
        }
        self.heal_watches();
        self.restart_servers();
        // An edit of metadata is not a fault, so these edits continue.
        self.queue.push(self.truth + self.plan.label_every, None, What::Label);
        for index in 0..self.nodes.len() {
            let to = (index, self.nodes[index].incarnation);
            self.nodes[index].cut = None;
            // Every user becomes active again within a second.
            self.queue.push(self.truth + SECOND, Some(to), What::User);
        }
    }
}
