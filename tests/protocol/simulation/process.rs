//! Processes that start, crash, restart and resume.

use std::sync::Arc;

use leasehold::election::candidate::Candidate;

use crate::clock::{Nanos, NodeClock, SECOND};
use crate::jobs::NodeJob;
use crate::node::{Mind, Node, Record, Requests};
use crate::pace::Connection;
use crate::plan::{Kind, Suite, Violation};
use crate::queue::{To, What};
use crate::stream::{Turn, Watcher};
use crate::trace::trace;
use crate::two_objects::candidate::Lock;
use crate::two_objects::multi_lock::MultiLock;
use crate::world::World;

impl World {
    pub fn process(&mut self, index: usize, incarnation: u32, before: Option<&Node>) -> Node {
        self.names += 1;
        let identity = match (self.plan.suite, before) {
            (Suite::SharedIdentity, Some(before)) if self.random.u8(..4) > 0 => before.identity.clone(),
            (Suite::SharedIdentity, None) if self.plan.duplicates => format!("duplicate-{}", index % 2),
            _ => format!("node-{index}.{}", self.names),
        };
        let settings = Arc::new(self.plan.settings(index, &identity));
        let rate = self.plan.rate(&mut self.random);
        let kind = self.plan.kinds[index];
        let has_one_object = matches!(kind, Kind::Primary | Kind::Secondary);
        let watches = has_one_object && self.plan.watches && self.random.u8(..8) > 0;
        let has_right = has_one_object && self.random.u8(..8) > 0;
        let pauses = [settings.retry_period, settings.lease_duration];
        let record = Record {
            object: match kind {
                Kind::Secondary => 1,
                Kind::Primary | Kind::Both | Kind::MultiLock => 0,
            },
            in_flight: None,
            connection: Connection::default(),
            wake: 0,
            finished: false,
            watcher: watches.then(|| Watcher::new(has_right, pauses, self.random.u64(..))),
            known: (0, None),
            hinted: Vec::new(),
            gone: None,
            doubts_since: None,
            restored: None,
            hears_of_former: false,
        };
        let lock = (kind == Kind::Both).then(|| Lock::new(&identity, settings.lease_duration));
        self.count.candidates += 1;
        let mind = match kind {
            Kind::MultiLock => Mind::ClientGo(Box::new(MultiLock::new(&identity, self.plan.settings[index]))),
            _ => Mind::Ours(Box::new(Candidate::new(Arc::clone(&settings), self.random.u64(..)))),
        };
        Node {
            kind,
            mind,
            record,
            lock,
            requests: Requests::new(&settings),
            clock: NodeClock::new(&mut self.random, rate),
            identity,
            settings,
            incarnation,
            alive: true,
            closed_at: None,
            paused_until: None,
            reading: None,
            cut: None,
            commands: Default::default(),
            wants: None,
            campaigns: 0,
            term: None,
            job: NodeJob::default(),
            is_fit: !self.plan.asked,
            works: true,
            requested: None,
            is_aside: false,
            is_led_by_another: false,
            accepts_at: None,
            awaits_successor: false,
            steps_in_second: (0, 0),
            release_by: None,
            had_turn: false,
        }
    }

    /// Schedules the first events of a process.
    pub fn begin(&mut self, to: To) {
        self.queue.push(self.truth, Some(to), What::User);
        if let Some(watcher) = &self.nodes[to.0].record.watcher {
            self.queue.push(self.truth, Some(to), What::Watch(watcher.serial(), Turn::Begin));
        }
        if !self.nodes[to.0].is_ours() {
            self.queue.push(self.truth, Some(to), What::ClientGoWakes);
        } else if self.plan.suite.is_on_two() && self.plan.asked {
            let after = self.random.u64(..2 * SECOND);
            self.queue.push(self.truth + after, Some(to), What::SetFit(true));
        }
    }

    pub fn restart(&mut self, index: usize) -> Result<(), Violation> {
        let before = self.nodes.remove(index);
        let node = self.process(index, before.incarnation + 1, Some(&before));
        trace!(self, "{} starts", node.identity);
        let to = (index, node.incarnation);
        self.nodes.insert(index, node);
        self.begin(to);
        self.drive(index)
    }

    pub fn crash(&mut self, index: usize, restart_at: Nanos) {
        let node = &mut self.nodes[index];
        trace!(self, "{} crashes", node.identity);
        self.count.fault("crashes");
        node.alive = false;
        node.term = None;
        node.paused_until = None;
        node.incarnation += 1;
        let to = (index, node.incarnation);
        self.queue.push(restart_at, Some(to), What::Restart);
    }

    pub fn resume(&mut self, index: usize) -> Result<(), Violation> {
        let truth = self.truth;
        let node = &mut self.nodes[index];
        node.paused_until = None;
        trace!(self, "{} goes on", node.identity);
        // The holder of the guard may have been about to check the term when the process was paused.
        let now = node.clock.local(truth);
        let valid = node.valid(truth);
        match &node.term {
            // The check records the end of a term, and could hide that the election fails to notice the end. So only
            // some worlds check here.
            Some(term) if self.plan.asking && term.deadline.is_valid(now) != valid => {
                Err(format!("{}: the first check after a pause says {}", node.identity, !valid).into())
            }
            _ => Ok(()),
        }
    }
}
