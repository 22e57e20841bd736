//! The actions of the model: everything that can happen next.

use crate::candidate::{Facts, Failure, Guard};
use crate::state::{LateWrites, Node, Stage, State};
use crate::world::World;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Tick,
    /// The driver asks a candidate for its next step.
    Next(u8),
    /// The request of a candidate reaches the store.
    Arrives(u8),
    /// The store's answer reaches a candidate.
    Answer(u8),
    /// A candidate receives a failure instead of the store's answer.
    ///
    /// The request may still be under way.
    Fails(u8, Failure),
    /// A write whose sender no longer waits reaches the store.
    Lands(u8),
    /// The watch of a candidate delivers the next change.
    ///
    /// If `late`, the watch received the change when it was made, and delivers it only now. Otherwise, the watch
    /// receives the change now.
    Hears {
        node: u8,
        late: bool,
    },
    WatchCut(u8),
    WatchOpens {
        node: u8,
        from_scratch: bool,
    },
    Ask(u8),
    DropGuard(u8),
    StepDown(u8),
    TellGone(u8),
    TellStepDown(u8),
    Withdraw(u8),
    Campaign(u8),
    /// A process crashes, and a new process starts to campaign in its place.
    Restart(u8),
    Progress(u8),
    SetFit(u8, bool),
    Edit,
    /// An operator asks the holder to step down.
    Request,
    Delete,
}

impl World {
    /// Fills `actions` with everything that can happen in `state`.
    ///
    /// Some of these actions may turn out to change nothing.
    pub fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        actions.clear();
        let stored = self.stores.get(state.store);
        for (index, node) in (0..).zip(&state.nodes) {
            if let Some(node) = node {
                self.actions_of(state, index, node, actions);
            }
        }
        for index in LateWrites::indices().filter(|index| state.late_writes.get(*index).is_some()) {
            actions.push(Action::Lands(index as u8));
        }
        if stored.object.is_some() {
            if state.left.edits > 0 {
                actions.push(Action::Edit);
            }
            if state.left.requests > 0 {
                actions.push(Action::Request);
            }
            if state.left.deletions > 0 {
                actions.push(Action::Delete);
            }
        }
        if state.tick < self.scope.ticks {
            actions.push(Action::Tick);
        }
    }

    fn actions_of(&self, state: &State, index: u8, node: &Node, actions: &mut Vec<Action>) {
        let facts = self.candidates.facts(node.candidate);
        let faults = state.left.faults > 0;
        actions.push(Action::Next(index));
        match node.request {
            Stage::None => {}
            Stage::Sent => actions.push(Action::Arrives(index)),
            Stage::Answered(_) => actions.push(Action::Answer(index)),
        }
        if node.request != Stage::None {
            if faults || facts.interrupted {
                actions.push(Action::Fails(index, Failure::NoAnswer));
            }
            let is_write = facts.pending.is_some_and(|call| call != crate::records::Call::Get);
            if faults && is_write {
                actions.push(Action::Fails(index, Failure::Conflict));
            }
        }
        if self.scope.watches {
            self.watch_actions(state, index, node, actions);
        }
        self.user_actions(state, index, node, facts, actions);
        if state.left.crashes > 0 {
            actions.push(Action::Restart(index));
        }
        if state.left.flaps > 0 {
            actions.push(Action::SetFit(index, !facts.fit));
        }
    }

    fn watch_actions(&self, state: &State, index: u8, node: &Node, actions: &mut Vec<Action>) {
        if !node.watches {
            actions.push(Action::WatchOpens { node: index, from_scratch: false });
            actions.push(Action::WatchOpens { node: index, from_scratch: true });
            return;
        }
        if let Some(stored) = self.stores.next_after(state.store, node.told) {
            actions.push(Action::Hears { node: index, late: false });
            if stored.written_at < state.tick {
                actions.push(Action::Hears { node: index, late: true });
            }
        }
        if state.left.faults > 0 {
            actions.push(Action::WatchCut(index));
        }
    }

    fn user_actions(&self, state: &State, index: u8, node: &Node, facts: &Facts, actions: &mut Vec<Action>) {
        let wishes = state.left.wishes > 0;
        let valid = self.is_valid(node, index, state.tick);
        match facts.guard {
            // The first question after the end sets `valid_until` to zero. A second question would change nothing.
            Guard::Held if !valid && facts.valid_until > 0 => actions.push(Action::Ask(index)),
            Guard::SteppingDown => actions.push(Action::TellStepDown(index)),
            Guard::Dropped => actions.push(Action::TellGone(index)),
            Guard::None | Guard::Held | Guard::SteppedDown => {}
        }
        match facts.guard {
            // The candidate already knows that the term is over, so the drop and its report are one action.
            Guard::Held | Guard::SteppedDown if !facts.in_term => actions.push(Action::TellGone(index)),
            Guard::Held | Guard::SteppingDown if wishes || !valid => actions.push(Action::DropGuard(index)),
            _ => {}
        }
        if self.scope.progress && !matches!(facts.guard, Guard::None | Guard::Dropped) {
            actions.push(Action::Progress(index));
        }
        if wishes && valid && facts.guard == Guard::Held {
            actions.push(Action::StepDown(index));
        }
        if wishes && facts.campaigning {
            actions.push(Action::Withdraw(index));
        }
        if wishes && facts.guard == Guard::None && !facts.campaigning {
            actions.push(Action::Campaign(index));
        }
    }
}
