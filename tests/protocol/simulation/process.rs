//! Processes that start, are stopped and continued.

use std::sync::Arc;

use leasehold::election::candidate::session::Session;

use crate::clock::NodeClock;
use crate::node::{Node, Requests};
use crate::plan::{Suite, Violation};
use crate::queue::{To, What};
use crate::stream::{Turn, Watcher};
use crate::trace::trace;
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
        let watches = self.plan.watches && self.random.u8(..8) > 0;
        let has_right = self.random.u8(..8) > 0;
        let watcher = watches.then(|| Watcher::new(has_right, settings.retry_period, self.random.u64(..)));
        self.count.candidates += 1;
        Node {
            session: Session::new(Arc::clone(&settings), self.random.u64(..)),
            requests: Requests::new(&settings),
            clock: NodeClock::new(&mut self.random, rate),
            identity,
            settings,
            incarnation,
            alive: true,
            finished: false,
            closed_at: None,
            paused_until: None,
            reading: None,
            cut: None,
            in_flight: None,
            commands: Default::default(),
            wake: 0,
            watcher,
            wants: None,
            campaigns: 0,
            term: None,
            is_fit: self.plan.suite != Suite::Fitness,
            works: true,
            known: (0, None),
            hinted: Vec::new(),
            gone: None,
            doubts_since: None,
            restored: None,
            hears_of_former: false,
            steps_in_second: (0, 0),
            release_by: None,
        }
    }

    /// What a process does first.
    pub fn begin(&mut self, to: To) {
        self.queue.push(self.truth, Some(to), What::User);
        if let Some(watcher) = &self.nodes[to.0].watcher {
            self.queue.push(self.truth, Some(to), What::Watch(watcher.serial(), Turn::Begin));
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

    pub fn resume(&mut self, index: usize) -> Result<(), Violation> {
        let truth = self.truth;
        let node = &mut self.nodes[index];
        node.paused_until = None;
        trace!(self, "{} goes on", node.identity);
        // A holder that was about to check when it was stopped.
        let now = node.clock.local(truth);
        let valid = node.valid(truth);
        match &node.term {
            // Not in every world: the question latches, and so would hide a loss that the election does not see.
            Some(term) if self.plan.asking && term.deadline.is_valid(now) != valid => {
                Err(format!("{}: the first check after a pause says {}", node.identity, !valid).into())
            }
            _ => Ok(()),
        }
    }
}
