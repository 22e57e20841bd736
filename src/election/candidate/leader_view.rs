//! The leader that a candidate has reported.

use super::messages::Effect;
use crate::election::messages::LeaderInfo;
use crate::util::clock::Moment;

/// The leader that this candidate has reported last.
#[derive(Debug, Default)]
pub(super) struct LeaderView {
    leader: Option<Box<LeaderInfo>>,
    /// `true` if the expiry of the leader's lease was reported.
    has_expired: bool,
    /// `true` if the wait for the leader was logged.
    is_awaited: bool,
}

impl LeaderView {
    /// Notes the identity and the address of the holder in the record.
    pub(super) fn observe(&mut self, holder: Option<(&str, Option<&str>)>) -> Option<Effect> {
        let known = self.leader.as_ref().map(|leader| (leader.identity.as_str(), leader.address.as_deref()));
        if known == holder {
            return None;
        }
        let is_new_address = known.zip(holder).is_some_and(|((known, _), (holder, _))| known == holder);
        let leader = holder.map(|(identity, address)| {
            Box::new(LeaderInfo { identity: identity.to_owned(), address: address.map(str::to_owned) })
        });
        let previous = std::mem::replace(&mut self.leader, leader).filter(|_| !self.has_expired);
        if !is_new_address {
            (self.has_expired, self.is_awaited) = (false, false);
        }
        match self.leader.clone() {
            // Without a renewal, the holder of an expired lease is no longer the leader.
            Some(_) if self.has_expired => None,
            Some(leader) => Some(Effect::NewLeader { leader, is_new_address }),
            None => previous.map(|leader| Effect::NoLeader { previous: leader.identity, is_expiry: false }),
        }
    }

    /// Notes the expiry of the leader's lease.
    pub(super) fn expires(&mut self, now: Moment, until: Option<Moment>) -> Option<Effect> {
        let has_expired = until.is_some_and(|until| until <= now);
        if has_expired == self.has_expired {
            return None;
        }
        let leader = self.leader.clone()?;
        (self.has_expired, self.is_awaited) = (has_expired, false);
        Some(match has_expired {
            true => Effect::NoLeader { previous: leader.identity, is_expiry: true },
            false => Effect::NewLeader { leader, is_new_address: false },
        })
    }

    /// Returns the holder in the record.
    pub(super) fn leader(&self) -> Option<&LeaderInfo> {
        self.leader.as_deref()
    }

    pub(super) fn has_expired(&self) -> bool {
        self.has_expired
    }

    /// Returns the identity of the leader if another candidate than `identity` is the leader.
    pub(super) fn other_than(&self, identity: &str) -> Option<&str> {
        self.leader.as_ref().map(|leader| leader.identity.as_str()).filter(|leader| *leader != identity)
    }

    /// Returns the leader once, if a candidate with this identity waits for the leader.
    pub(super) fn awaits(&mut self, identity: &str) -> Option<&str> {
        let is_new = !self.has_expired && !self.is_awaited && self.other_than(identity).is_some();
        self.is_awaited |= is_new;
        self.other_than(identity).filter(|_| is_new)
    }
}
