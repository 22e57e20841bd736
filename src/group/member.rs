//! The thread that campaigns for the slot of this process, and holds the slot.

use std::convert::Infallible;

use log::Level;

use crate::election::group::GroupKey;
use crate::elector::builder::LeaderElectorBuilder;
use crate::elector::leader_elector::LeaderElector;
use crate::group::core::{GroupCore, GroupHandle, MemberCommand};
use crate::leadership::error::Error;
use crate::leadership::guard::LeaderGuard;
use crate::store::record::{RecordWrite, VersionedRecord};
use crate::store::{
    CallContext, Cursor, Store, StoreError, StoreErrorKind, WatchEvent, WatchScope, delegate_descriptions,
};
use crate::util::backoff::requested_pause;
use crate::util::cancel::CancelToken;
use crate::util::clock;
use crate::util::config_error::ConfigError;
use crate::util::sync::Arc;
use crate::util::sync::channel::{Receiver, Sender, after, never, select};

pub(super) struct MemberThread {
    pub(super) handle: Arc<GroupHandle>,
    pub(super) builder: LeaderElectorBuilder,
    pub(super) commands: Receiver<MemberCommand>,
    /// Disconnects when the process must leave the group.
    pub(super) leaving: Receiver<Infallible>,
    /// Dropped after the release, to report the end of the participation.
    pub(super) left: Sender<Infallible>,
}

/// The store of a slot's elector, which reports observations of the slot to the group.
struct SlotStore {
    core: Arc<GroupCore>,
    slot: usize,
}

impl MemberThread {
    pub(super) fn run(self) {
        let core = &self.handle.core;
        let (mut held, mut ended, mut is_leaving) = (None, never(), false);
        let (mut leaving, mut group_ended, mut limit) = (self.leaving.clone(), core.ended.clone(), never());
        let mut elector = None;
        loop {
            select! {
                recv(self.commands) -> command => match command {
                    Ok(MemberCommand::Campaign(slot)) => {
                        held = self.campaign(slot, &mut elector);
                        ended = held.as_ref().map_or_else(never, |guard| guard.ended().clone());
                    }
                    Ok(MemberCommand::Release) => {
                        ended = never();
                        // The guard is dropped before its elector.
                        drop((held.take(), elector.take()));
                        core.change(|group, now| group.left(now));
                        core.log(Level::Info, "left the group".to_owned());
                    }
                    Err(_) => break,
                },
                recv(leaving) -> _ => {
                    leaving = never();
                    is_leaving = true;
                    core.leave();
                }
                // The group notices the end of the term, and sends `Release` once all workers have returned.
                recv(ended) -> _ => {
                    ended = never();
                    core.change(|_, _| ());
                }
                // A worker that ignores the end delays the release by at most one lease duration.
                recv(group_ended) -> _ => {
                    group_ended = never();
                    is_leaving = true;
                    limit = after(core.settings.lease_duration);
                    core.leave();
                }
                recv(limit) -> _ => break,
            }
            if is_leaving && held.is_none() {
                break;
            }
        }
        // The guard is dropped before its elector. After a failed campaign, the elector alone may owe a release.
        drop((held, elector));
        core.stop_participating();
        drop(self.left);
    }

    /// Campaigns once. After an error, `kept` keeps the elector, because its probe may not have returned yet.
    fn campaign(&self, slot: usize, kept: &mut Option<(usize, LeaderElector)>) -> Option<LeaderGuard> {
        let core = &self.handle.core;
        kept.take_if(|(kept, _)| *kept != slot);
        let outcome = match kept {
            Some((_, elector)) => elector.try_acquire(),
            None => {
                let mut builder = self.builder.clone();
                builder.name = core.key(GroupKey::Slot(slot));
                builder.config.shards = u32::try_from(core.settings.shards).ok();
                builder.config.max_shards = core.settings.max_shards.and_then(|number| u32::try_from(number).ok());
                let elector = builder.start_on(SlotStore { core: Arc::clone(core), slot });
                elector.and_then(|elector| kept.insert((slot, elector)).1.try_acquire())
            }
        };
        core.campaigned(slot, outcome.as_ref().err());
        let settings = &core.settings;
        let (slots, pause) = match outcome {
            Ok(Some(guard)) => {
                if core.joined(slot, &guard.term) {
                    return Some(guard);
                }
                // The guard is dropped before its elector.
                drop((guard, kept.take()));
                return None;
            }
            Ok(None) => {
                *kept = None;
                (slot..slot + 1, settings.retry_period)
            }
            Err(Error::Store(error)) if error.kind() == StoreErrorKind::Malformed => {
                (slot..slot + 1, settings.longest_pause())
            }
            // A campaign for another slot would fail, too.
            Err(error) => {
                let asked = if let Error::Store(error) = error { error.retry_after() } else { None };
                let requested = requested_pause(asked, settings.lease_duration, fastrand::f64());
                (0..settings.max_members, settings.retry_period.max(requested))
            }
        };
        core.change(|group, now| group.not_joined(now, slots, pause));
        None
    }
}

impl SlotStore {
    fn written(
        &self,
        write: impl FnOnce() -> Result<VersionedRecord, StoreError>,
    ) -> Result<VersionedRecord, StoreError> {
        let sent_at = clock::now();
        let written = write()?;
        self.core.own_slot_observed(self.slot, Some(sent_at), &written);
        Ok(written)
    }
}

impl Store for SlotStore {
    fn get(&self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        let seen = self.core.store.get(key, call)?;
        seen.iter().for_each(|seen| self.core.own_slot_observed(self.slot, None, seen));
        Ok(seen)
    }

    fn create(&self, key: &str, write: RecordWrite<'_>, call: &CallContext) -> Result<VersionedRecord, StoreError> {
        self.written(|| self.core.store.create(key, write, call))
    }

    fn update(
        &self,
        key: &str,
        base: &VersionedRecord,
        write: RecordWrite<'_>,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        self.written(|| self.core.store.update(key, base, write, call))
    }

    fn watch(
        &self,
        scope: WatchScope<'_>,
        from: Option<&Cursor>,
        cancel: &CancelToken,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        self.core.store.watch(scope, from, cancel, &mut |event| {
            if let WatchEvent::Changed { observed, .. } = &event {
                self.core.own_slot_observed(self.slot, None, observed);
            }
            on_event(event);
        })
    }

    delegate_descriptions!(self => self.core.store);
}
