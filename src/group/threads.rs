//! The threads of a group: one for requests, and one for the watch.

use std::io;
use std::time::Duration;

use crate::election::Step;
use crate::election::candidate::failure_log::FailureLog;
use crate::election::candidate::notice::Notice;
use crate::election::group::{GroupKey, GroupOperation, GroupRequest, MAX_MEMBERS};
use crate::group::core::GroupCore;
use crate::leadership::handle::as_runtime;
use crate::store::entry::Entry;
use crate::store::notes::TermNotes;
use crate::store::{CallContext, MAX_VERSION, StoreError, StoreErrorKind, WatchEvent, WatchScope};
use crate::util::backoff::{Backoff, requested_pause};
use crate::util::cancel::CancelToken;
use crate::util::clock;
use crate::util::clock::Moment;
use crate::util::on_drop::OnDrop;
use crate::util::sync::channel::RecvTimeoutError;
use crate::util::sync::{Arc, thread};

/// Starts the threads, which run until the end of the group.
pub(super) fn spawn(core: &Arc<GroupCore>) -> io::Result<()> {
    let runs = [drive, watch] as [fn(&Arc<GroupCore>); 2];
    for (run, name) in runs.into_iter().zip(["leasehold-group", "leasehold-shards"]) {
        let core = Arc::clone(core);
        let run = move || {
            let _as_runtime = as_runtime();
            // A panic of the store ends the group.
            let _end = OnDrop(|| core.close(None));
            run(&core);
        };
        thread::Builder::new().name(name.into()).spawn(run)?;
    }
    Ok(())
}

fn drive(core: &Arc<GroupCore>) {
    loop {
        match core.next() {
            (Step::Send(request), cancel) => send(core, request, cancel),
            (Step::Wait(until), _) => drop(core.woken.recv_timeout(until.since(clock::now()))),
            (Step::Finished, _) => return,
        }
    }
}

fn send(core: &Arc<GroupCore>, GroupRequest { id, key, operation, timeout }: GroupRequest, cancel: CancelToken) {
    let entry = Entry::new(Arc::clone(&core.store), &core.key(key));
    let (call, sent_at) = (CallContext::new(timeout, cancel), clock::now());
    let kind = operation.kind();
    let response = match operation {
        GroupOperation::Get(()) => entry.get(&call),
        GroupOperation::Create(record) => entry.create(record.as_write(), &call).map(Some),
        GroupOperation::Update(base, record) => {
            let notes = match record.holder() {
                Some(_) => base.notes.acquired(TermNotes::default()),
                None => base.notes.released(),
            };
            entry.update(&base, record.with_notes(&notes), &call).map(Some)
        }
    };
    core.answered(kind, clock::now().since(sent_at), response.as_ref().err());
    core.change(|group, now| group.on_response(now, id, response));
}

/// Keeps a watch of all records open.
fn watch(core: &Arc<GroupCore>) {
    let (mut backoff, retry_period) = (Backoff::default(), core.settings.retry_period);
    let prefix = format!("{}-", core.name);
    let (mut failures, mut has_listed, mut refused_since) = (FailureLog::default(), false, None);
    while let Some(cancel) = core.watch() {
        let mut is_listed = false;
        let ended = core.store.watch(WatchScope::Prefix(&prefix), None, &cancel, &mut |event| {
            is_listed |= matches!(event, WatchEvent::Synced);
            watched(core, event);
        });
        core.watch_ended(is_listed);
        let asked = ended.as_ref().err().and_then(StoreError::retry_after);
        let requested = requested_pause(asked, core.settings.lease_duration, fastrand::f64());
        let now = clock::now();
        if is_listed {
            backoff.reset();
            has_listed = true;
            let works = failures.recovered(now).map(|recovery| Notice::of_recovery("watch", &recovery));
            works.into_iter().for_each(|notice| core.line(notice, None));
        }
        match ended {
            Err(error) if error.kind() == StoreErrorKind::Unsupported => return core.close(Some(error)),
            Err(error) if !cancel.is_cancelled() => {
                if let Some(level) = failures.failed(now, error.kind()) {
                    core.log(level, format!("watch failed, opening another one: {error}"));
                }
                // Without a right, no listing ever ends.
                refused_since = refused_since.or(Some(now)).filter(|_| !has_listed && !error.is_transient());
                if refused_since.is_some_and(|since| now.since(since) >= core.renew_deadline) {
                    return core.close(Some(error));
                }
            }
            _ => refused_since = None,
        }
        let pause = backoff.pause(retry_period / 8, retry_period * 4).min(Duration::from_secs(60)).max(requested);
        // The last watch of a refused group is due a renew deadline after the first.
        let pause = refused_since.map_or(pause, |since: Moment| pause.min((since + core.renew_deadline).since(now)));
        if core.ended.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
    }
}

fn watched(core: &Arc<GroupCore>, event: WatchEvent) {
    let (key, version, seen) = match event {
        WatchEvent::Synced => return core.listed(),
        WatchEvent::Changed { key, observed } => (key, observed.version, Some(observed)),
        WatchEvent::Deleted { key, version } => (key, version, None),
        WatchEvent::Unreadable { .. } => return,
        WatchEvent::Opened | WatchEvent::Bookmark(_) => return core.change(|group, now| group.heard(now)),
    };
    let Some(parsed) = core.parse(&key) else { return };
    if let (GroupKey::Slot(_), Some(seen)) = (parsed, &seen) {
        core.compare_durations(&key, &seen.record);
    }
    let is_known = match parsed {
        GroupKey::Slot(slot) => slot < MAX_MEMBERS,
        GroupKey::Shard(shard) => shard < core.settings.shards,
    };
    // An elector rejects the version of a record, too.
    if is_known && (1..=MAX_VERSION).contains(&version) {
        core.change(|group, now| group.watched(now, parsed, version, seen));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::core::tests::core;
    use crate::store::record::LeaderElectionRecord;

    /// The newer version may be a renewal of the member whose slot seemed to have expired.
    #[test]
    fn conflict_is_not_repeated_on_the_newer_version() {
        let core = core(Duration::from_secs(10));
        let key = core.key(GroupKey::Slot(0));
        let call = CallContext::new(Duration::from_secs(10), CancelToken::new());
        let held = |seconds| LeaderElectionRecord {
            holder_identity: Some("b".to_owned()),
            lease_duration_seconds: Some(seconds),
            ..LeaderElectionRecord::default()
        };
        let base = core.store.create(&key, held(1).as_write(), &call).unwrap();
        let renewed = core.store.update(&key, &base, held(2).as_write(), &call).unwrap();
        let operation = GroupOperation::Update(base, LeaderElectionRecord::default());
        let request = GroupRequest { id: 1, key: GroupKey::Slot(0), operation, timeout: Duration::from_secs(10) };
        send(&core, request, CancelToken::new());
        assert_eq!(core.store.get(&key, &call).unwrap().unwrap().version, renewed.version);
    }
}
