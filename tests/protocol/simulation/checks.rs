//! The rules that must hold after every step.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::StopReason;
use leasehold::election::{Operation, StoreRequest};

use crate::clock::{MILLI, Nanos, SECOND};
use crate::node::Node;
use crate::pace::may_take;
use crate::plan::{Plan, Suite, Violation};
use crate::store::Store;

/// The most steps per second that any election needs, however much fails around it.
const STEPS_PER_SECOND: u32 = 300;

#[derive(Default)]
pub struct Checks {
    /// The token of each term, with the acquisition to which it belongs.
    pub tokens: BTreeMap<u64, String>,
    /// Terms whose record a third party has changed.
    ///
    /// Each entry is the node, the serial number of the term, and the time until which the term may stay valid.
    undermined: Vec<(usize, u64, Nanos)>,
}

impl Checks {
    /// Checks the rules after a step.
    pub fn all(&mut self, truth: Nanos, plan: &Plan, nodes: &mut [Node], store: &Store) -> Result<(), Violation> {
        self.terms(truth, plan, nodes)?;
        for (index, serial, until) in &self.undermined {
            let node = &nodes[*index];
            if truth > *until && node.valid(truth) && node.term.as_ref().is_some_and(|term| term.serial == *serial) {
                return Err(format!("node {index} still leads without a record, later than is documented").into());
            }
        }
        self.undermined.retain(|(_, _, until)| truth <= *until);
        if plan.suite == Suite::Restored {
            astray(truth, nodes, store)?;
        }
        if !plan.suite.meddles() && nodes.iter().filter(|node| node.valid(truth)).count() > 1 {
            let leaders: Vec<_> = (0..nodes.len()).filter(|index| nodes[*index].valid(truth)).collect();
            return Err(Violation { what: format!("nodes {leaders:?} lead at a time"), overlap: true });
        }
        Ok(())
    }

    /// Checks that a term that is over stays over.
    pub fn terms(&self, truth: Nanos, plan: &Plan, nodes: &mut [Node]) -> Result<(), Violation> {
        for (index, node) in nodes.iter_mut().enumerate() {
            let valid = node.valid(truth);
            let (alive, paused, held_up) = (node.alive, node.paused_until.is_some(), node.reading.is_some());
            let now = node.clock.local(truth);
            let Some(term) = &mut node.term else { continue };
            if valid && term.over {
                return Err(format!("node {index}: a term that was over is valid again").into());
            }
            if valid && term.lost.is_some() {
                return Err(format!("node {index}: a term is valid after it was reported lost").into());
            }
            // A thread that is held up may still extend the term by an earlier clock reading, unless a view has
            // recorded the end.
            term.over |= !valid && (plan.asking || !held_up);
            if plan.asking && alive && !paused && term.deadline.is_valid(now) != valid {
                return Err(format!("node {index}: its own clock says {}", !valid).into());
            }
        }
        Ok(())
    }

    /// Checks that the token belongs to exactly one acquisition.
    ///
    /// The token is a version at which the store held this acquisition. Versions grow with each acquisition, so tokens
    /// grow too.
    pub fn elected(&mut self, node: &Node, token: u64, plan: &Plan, store: &Store) -> Result<(), Violation> {
        if plan.suite == Suite::Restored {
            // A restored store uses versions again, so tokens are used again too.
            return match store.ever_held(token, &node.identity) {
                true => Ok(()),
                false => Err(format!("{} elected by {token}, which it never held", node.identity).into()),
            };
        }
        let Some(holding) = store.holding_at(token) else {
            return Err(format!("no record has version {token}").into());
        };
        if holding.holder.as_deref() != Some(&*node.identity) {
            return Err(format!("{} elected by the record of {holding:?}", node.identity).into());
        }
        if let Some((highest, _)) = self.tokens.last_key_value()
            && !plan.suite.meddles()
            // A node that was held up may learn of its election only after another node has won a later term.
            && node.reading.is_none()
            && *highest >= token
        {
            return Err(format!("token {token} after {highest}").into());
        }
        let acquisition = format!("{holding:?}");
        if self.tokens.values().any(|other| *other == acquisition) || self.tokens.insert(token, acquisition).is_some() {
            return Err(format!("{} elected twice by {holding:?}", node.identity).into());
        }
        Ok(())
    }

    /// Checks that something that has happened justifies the loss of a term.
    ///
    /// `was_valid` is the validity before the election received its latest input.
    pub fn lost(
        &self,
        node: &Node,
        reason: &StopReason,
        was_valid: bool,
        plan: &Plan,
        store: &Store,
    ) -> Result<(), Violation> {
        let Some(term) = &node.term else { return Err(format!("{reason:?} without a term").into()) };
        if let Some(earlier) = &term.lost {
            return Err(format!("lost twice: {earlier:?}, {reason:?}").into());
        }
        let meddled = plan.suite.meddles();
        // Only a later acquisition can supersede a term. An edit of metadata leaves the acquisition as it is.
        let acquisition = store.holding_at(term.token);
        let others = || store.history.iter().rev().take_while(|later| later.since > term.token);
        let just = match reason {
            StopReason::Released => !term.guard_held,
            StopReason::SteppedDown => term.stepped_down,
            StopReason::Expired => !was_valid,
            StopReason::NoProgress => !was_valid && plan.suite == Suite::Fitness,
            StopReason::Unfit => !node.is_fit,
            StopReason::Requested => plan.notes_every.is_some(),
            StopReason::Superseded { by } => {
                meddled || others().any(|later| Some(later) != acquisition && later.holder == *by)
            }
            StopReason::IdentityConflict => meddled || plan.suite == Suite::SharedIdentity,
            StopReason::Deleted => meddled,
            StopReason::StoreRestored => plan.suite == Suite::Restored,
            _ => false,
        };
        if just { Ok(()) } else { Err(format!("{} lost its term for no reason: {reason:?}", node.identity).into()) }
    }

    /// Notes how long each leader may still lead after a third party has changed the record.
    ///
    /// The documentation states these limits.
    pub fn undermine(&mut self, truth: Nanos, plan: &Plan, nodes: &[Node], store: &Store) {
        // If the record does not name a node, the node's term has been undermined before.
        let stands = |node: &Node| store.record().is_some_and(|record| record.holder() == Some(&node.identity));
        for (index, node) in nodes.iter().enumerate().filter(|(_, node)| node.valid(truth) && stands(node)) {
            let Some(term) = &node.term else { continue };
            // A renewal on a dropped connection gets no answer.
            let steady = plan.steady_network && plan.drops_after.is_none() && node.paused_until.is_none();
            let known_after = match (steady, node.record.hears_promptly(truth, store.version())) {
                // The watch event arrives, perhaps while a request is under way.
                (true, true) => Duration::from_millis(150),
                // One renewal fails, and a read explains the failure.
                (true, false) => node.settings.renew_interval + Duration::from_millis(450),
                // If the node cannot reach the store, its term lasts until the renew deadline.
                (false, _) => node.settings.renew_deadline + Duration::from_millis(1),
            };
            self.undermined.push((index, term.serial, truth + known_after.as_nanos() as Nanos));
        }
    }

    /// Checks a request that an election sends.
    pub fn sent(&self, node: &mut Node, request: &StoreRequest, truth: Nanos, plan: &Plan) -> Result<(), Violation> {
        let settings = &node.settings;
        let left = node.term.as_ref().map_or(0, |term| term.valid_until.saturating_sub(truth));
        if request.timeout.is_zero() || request.timeout > settings.renew_deadline {
            return Err(format!("{}: a time-out of {:?}", node.identity, request.timeout).into());
        }
        // In the suite `Fitness`, the work's progress may end the term sooner than the renewals.
        let left = if plan.suite == Suite::Fitness { 0 } else { left };
        let now = node.clock.local(truth);
        may_take(node, request, now, node.clock.local(truth + left).since(now))?;
        let record = match &request.operation {
            Operation::Get(_) => return Ok(()),
            Operation::Create(record) => record,
            Operation::Update(base, record) => {
                // The election ignores the answer to a write that is no longer in doubt. Only if a third party deletes
                // the lease can such an answer contain a new version.
                let ignored = plan.suite.meddles() && base.version < node.record.known.0;
                // The check ignores the records, because two records may have the same version after a restore.
                if !ignored
                    && (base.version, base.record.uid.as_ref()) != (node.record.known.0, node.record.known_uid())
                {
                    return Err(format!(
                        "{} writes over {} and knows {:?}",
                        node.identity, base.version, node.record.known
                    )
                    .into());
                }
                if record.uid != base.record.uid {
                    return Err(format!("{} writes another uid", node.identity).into());
                }
                record
            }
        };
        match record.holder() {
            None if node.holds_guard() => Err(format!("{} releases beside its guard", node.identity).into()),
            Some(holder) if holder != node.identity => Err(format!("{} writes {holder}", node.identity).into()),
            Some(_) if node.wants.is_none() && !node.holds_guard() => {
                Err(format!("{} asks for a term that nobody waits for", node.identity).into())
            }
            Some(_) if !node.is_fit && !node.holds_guard() => {
                Err(format!("{} acquires and is unfit", node.identity).into())
            }
            Some(_) if node.holds_guard() && node.hangs_at(truth) => {
                Err(format!("{} renews and makes no progress", node.identity).into())
            }
            _ => Ok(()),
        }
    }

    /// Checks that an election releases in time, and that it does not take too many steps.
    pub fn stepped(&self, node: &mut Node, truth: Nanos) -> Result<(), Violation> {
        if node.release_by.is_some_and(|by| truth > by) {
            return Err(format!("{} has not released its record in time", node.identity).into());
        }
        let second = truth / SECOND;
        if node.steps_in_second.0 != second {
            node.steps_in_second = (second, 0);
        }
        node.steps_in_second.1 += 1;
        if node.steps_in_second.1 > STEPS_PER_SECOND {
            return Err(format!("{} spins", node.identity).into());
        }
        Ok(())
    }

    /// Checks that a valid term does not continue with another object.
    ///
    /// `uid` and `version` are those of the object in an answer or an event.
    pub fn one_object(&self, node: &Node, version: u64, uid: &Option<String>, truth: Nanos) -> Result<(), Violation> {
        match &node.term {
            Some(term) if node.valid(truth) && version > term.token && term.uid != *uid => {
                Err(format!("{} leads on with the object {uid:?} instead of {:?}", node.identity, term.uid).into())
            }
            _ => Ok(()),
        }
    }
}

/// Checks that a term that a restore has undone ends within its renew deadline.
///
/// The restored store does not contain the term's record, so the leader cannot renew it.
fn astray(truth: Nanos, nodes: &mut [Node], store: &Store) -> Result<(), Violation> {
    for node in nodes {
        let stands = store.record().is_some_and(|record| record.holder() == Some(&*node.identity));
        let (valid, deadline) = (node.valid(truth), node.settings.renew_deadline.as_nanos() as Nanos);
        let Some(term) = &mut node.term else { continue };
        if stands || !valid {
            term.astray_since = None;
        } else if truth - *term.astray_since.get_or_insert(truth) > deadline + MILLI {
            return Err(format!("{} leads on by a record that was undone", node.identity).into());
        }
    }
    Ok(())
}
