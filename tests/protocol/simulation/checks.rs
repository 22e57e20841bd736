//! What must hold, whatever happens.

use std::collections::BTreeMap;
use std::time::Duration;

use leasehold::StopReason;
use leasehold::election::StoreRequest;

use crate::clock::{MILLI, Nanos, SECOND};
use crate::node::Node;
use crate::plan::{Plan, Suite, Violation};
use crate::store::{Call, Store};

/// No election needs more steps in a second, however much fails around it.
const STEPS_PER_SECOND: u32 = 300;

#[derive(Default)]
pub struct Checks {
    /// Tokens of all terms, with the acquisition each stands for.
    pub tokens: BTreeMap<u64, String>,
    /// Terms whose record a third party has changed: who, which, and until when it may still count as valid.
    undermined: Vec<(usize, u64, Nanos)>,
}

impl Checks {
    /// After every step.
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

    /// A term that was over stays over.
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
            // Whoever is held up may extend it yet: nobody has seen that it is over.
            term.over |= !valid && (plan.asking || !held_up);
            if plan.asking && alive && !paused && term.deadline.is_valid(now) != valid {
                return Err(format!("node {index}: its own clock says {}", !valid).into());
            }
        }
        Ok(())
    }

    /// The token must name exactly one acquisition, and the one that stood at that version. So tokens are in the order
    /// of acquisitions, because versions are.
    pub fn elected(&mut self, node: &Node, token: u64, plan: &Plan, store: &Store) -> Result<(), Violation> {
        if plan.suite == Suite::Restored {
            // Versions are used again, and tokens with them.
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
            // Who was held up hears of it when others have won since.
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

    /// A term may only be lost for what has happened. `was_valid` is from before the election was told.
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
        // Compares with what came after the term was won: an edit of metadata changes none of it.
        let acquisition = store.holding_at(term.token);
        let others = || store.history.iter().rev().take_while(|later| later.since > term.token);
        let just = match reason {
            StopReason::Released => !term.guard_held,
            StopReason::SteppedDown => term.stepped_down,
            StopReason::Expired => !was_valid,
            StopReason::NoProgress => !was_valid && plan.suite == Suite::Fitness,
            StopReason::Unfit => !node.is_fit,
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

    /// A third party has changed the record: whoever leads by it may do so no longer than is documented.
    pub fn undermine(&mut self, truth: Nanos, plan: &Plan, nodes: &[Node], store: &Store) {
        // Whose record does not stand has been undermined before.
        let stands = |node: &Node| store.record().is_some_and(|record| record.holder() == Some(&node.identity));
        for (index, node) in nodes.iter().enumerate().filter(|(_, node)| node.valid(truth) && stands(node)) {
            let Some(term) = &node.term else { continue };
            let steady = plan.steady_network && node.paused_until.is_none();
            let known_after = match (steady, node.records[0].hears_promptly(truth, store.version())) {
                // The event, which may find a request under way.
                (true, true) => Duration::from_millis(150),
                // One renewal and the look that explains its failure.
                (true, false) => node.settings.renew_interval + Duration::from_millis(450),
                // Without a store to tell, the renew deadline.
                (false, _) => node.settings.renew_deadline + Duration::from_millis(1),
            };
            self.undermined.push((index, term.serial, truth + known_after.as_nanos() as Nanos));
        }
    }

    /// What an election sends.
    pub fn sent(
        &self,
        node: &Node,
        request: &StoreRequest,
        call: &Call,
        truth: Nanos,
        plan: &Plan,
    ) -> Result<(), Violation> {
        let settings = &node.settings;
        let left = node.term.as_ref().map_or(0, |term| term.valid_until.saturating_sub(truth));
        if request.timeout.is_zero() || request.timeout > settings.renew_deadline {
            return Err(format!("{}: a time-out of {:?}", node.identity, request.timeout).into());
        }
        let leaves_room = (left / 2).max(settings.renew_deadline.as_nanos() as Nanos / 20) + MILLI;
        // Where that is not the progress of the work.
        if plan.suite != Suite::Fitness && left > 0 && true_time(request.timeout, node) > leaves_room {
            return Err(format!("{}: {:?} of {left} ns in one request", node.identity, request.timeout).into());
        }
        let record = match call {
            Call::Get(_) => return Ok(()),
            Call::Create(record) => record,
            Call::Update(base, record) => {
                // An answer to a write that is closed is ignored, and only where somebody deletes does it say anything new.
                let ignored = plan.suite.meddles() && base.version < node.records[0].known.0;
                // Not the records: where a store was restored, two of them may have had one version.
                if !ignored
                    && (base.version, base.record.uid.as_ref())
                        != (node.records[0].known.0, node.records[0].known_uid())
                {
                    return Err(format!(
                        "{} writes over {} and knows {:?}",
                        node.identity, base.version, node.records[0].known
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

    /// An election was asked for a step.
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

    /// An answer showed the object `uid`: a term cannot have gone over from one object to another.
    pub fn one_object(&self, node: &Node, version: u64, uid: &Option<String>, truth: Nanos) -> Result<(), Violation> {
        match &node.term {
            Some(term) if node.valid(truth) && version > term.token && term.uid != *uid => {
                Err(format!("{} leads on with the object {uid:?} instead of {:?}", node.identity, term.uid).into())
            }
            _ => Ok(()),
        }
    }
}

/// A duration of the node's clock in true time.
fn true_time(local: Duration, node: &Node) -> Nanos {
    let from = node.clock.local(0);
    node.clock.when(from + local) - node.clock.when(from)
}

/// A restored store knows nothing of the terms won since: whoever leads on by one of them can renew it no more, and so
/// does it no longer than its renew deadline.
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
