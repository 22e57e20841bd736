//! The rules that must hold after every step in a world with two objects.

use leasehold::StopReason;
use leasehold::election::Operation;

use crate::checks::Checks;
use crate::clock::{Nanos, SECOND};
use crate::node::Node;
use crate::plan::{Kind, Plan, Violation};
use crate::queue::What;
use crate::store::{Holding, Store};
use crate::world::World;

/// The most steps that a world needs.
///
/// A world with more steps is in an endless loop.
pub const MOST_STEPS: u64 = 300_000;

/// Returns an error if an unfit node acquires, or if a node renews while its work hangs.
pub fn may_claim(node: &Node, operation: &Operation, truth: Nanos) -> Result<(), Violation> {
    let (Operation::Create(record) | Operation::Update(_, record)) = operation else { return Ok(()) };
    let what = match record.holder() {
        None => return Ok(()),
        _ if node.holds_guard() && node.hangs_at(truth) => "renews for work that makes no progress",
        _ if node.holds_guard() => return Ok(()),
        _ if !node.is_fit => "acquires while it is unfit",
        _ => return Ok(()),
    };
    Err(format!("{} {what}", node.identity).into())
}

impl Checks {
    pub fn elected_on_two(&mut self, node: &Node, token: u64, stores: &[Store]) -> Result<(), Violation> {
        let name = &node.identity;
        if !node.is_fit {
            return Err(format!("{name} elected while it is unfit").into());
        }
        if let Some((highest, _)) = self.tokens.last_key_value().filter(|(highest, _)| token <= **highest) {
            return Err(format!("{name}: token {token} after {highest}").into());
        }
        let objects = match node.kind {
            Kind::Primary => &stores[..1],
            Kind::Secondary => &stores[1..],
            Kind::Both | Kind::MultiLock => stores,
        };
        let holdings: Vec<_> = objects.iter().map(|store| store.holding_at(token)).collect();
        self.tokens.insert(token, format!("{holdings:?}"));
        let is_holder = |holding: &&Holding| holding.holder.as_deref() == Some(name);
        match holdings.iter().all(|holding| holding.as_ref().is_some_and(is_holder)) {
            true => Ok(()),
            false => Err(format!("{name} elected by {holdings:?}").into()),
        }
    }

    pub fn lost_on_two(&self, node: &Node, reason: &StopReason, plan: &Plan) -> Result<(), Violation> {
        let Some(term) = &node.term else { return Err(format!("{reason:?} without a term").into()) };
        if term.lost.is_some() {
            return Err(format!("{} lost its term twice", node.identity).into());
        }
        let asked_for = match reason {
            StopReason::Released => !term.guard_held,
            StopReason::SteppedDown => term.stepped_down,
            StopReason::Unfit => !node.is_fit,
            StopReason::NoProgress => plan.progress.iter().any(Option::is_some),
            _ => true,
        };
        if asked_for { Ok(()) } else { Err(format!("{}: {reason:?}, which nobody asked for", node.identity).into()) }
    }
}

impl World {
    /// Checks the rules after a step.
    pub fn check_two(&mut self) -> Result<(), Violation> {
        let valid = self.nodes.iter().filter(|node| node.valid(self.truth));
        let leaders: Vec<_> = valid.map(|node| (node.kind, &node.identity)).collect();
        // The promise does not cover two client-go candidates that lead at the same time.
        if leaders.len() > 1 && leaders.iter().any(|(kind, _)| *kind != Kind::MultiLock) {
            return Err(Violation { what: format!("{leaders:?} lead at a time"), overlap: true });
        }
        if self.count.steps > MOST_STEPS {
            return Err("it spins".to_owned().into());
        }
        self.checks.terms(self.truth, &self.plan, &mut self.nodes)
    }

    /// Checks that a node has led since the last fault, and that a node leads now.
    ///
    /// Without client-go candidates, each node must then lead in turn.
    pub fn must_lead_in_turn(&mut self) -> Result<(), Violation> {
        let truth = self.truth;
        if self.turns {
            let may_lead = |index: usize| self.plan.read_only.is_none_or(|(node, _)| node != index);
            let waits = self.nodes.iter().enumerate().filter(|(index, node)| !node.had_turn && may_lead(*index));
            let waits: Vec<_> = waits.map(|(_, node)| &node.identity).collect();
            if !waits.is_empty() && truth >= self.plan.turns_by {
                return Err(format!("{waits:?} did not lead in turn").into());
            }
            match waits.is_empty() {
                true => self.queue.push(truth, None, What::End),
                false => self.queue.push(truth + 10 * SECOND, None, What::Check),
            }
            return Ok(());
        }
        if !self.recovered {
            return Err("nobody leads although nothing keeps anybody from it".to_owned().into());
        }
        if !self.nodes.iter().any(|node| node.valid(truth)) {
            return Err("nobody leads any more although nothing happened".to_owned().into());
        }
        self.turns = !self.plan.kinds.contains(&Kind::MultiLock);
        self.queue.push(truth, None, if self.turns { What::Check } else { What::End });
        Ok(())
    }
}
