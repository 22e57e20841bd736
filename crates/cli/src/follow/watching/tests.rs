//! Tests with a store that returns scripted errors.

use std::collections::VecDeque;

use crossbeam_channel::{Receiver, bounded, unbounded};
use leasehold::ConfigError;
use leasehold::store::{LeaderElectionRecord, MemoryStore, RecordWrite};

use super::*;

const SOON: Duration = Duration::from_secs(30);

/// A store whose first watches and reads fail with the listed errors.
#[derive(Default)]
struct Failing {
    store: MemoryStore,
    watches: Mutex<VecDeque<StoreErrorKind>>,
    reads: Mutex<VecDeque<StoreErrorKind>>,
    /// An entry for each watch: `true` if the watch started without a cursor.
    began: Mutex<Vec<bool>>,
}

fn next(failures: &Mutex<VecDeque<StoreErrorKind>>) -> Result<(), StoreError> {
    let kind = failures.lock().pop_front();
    kind.map_or(Ok(()), |kind| Err(StoreError::new(kind, format!("{kind:?}: do something"))))
}

impl Store for Failing {
    fn get(&self, key: &str, call: &CallContext) -> Result<Option<VersionedRecord>, StoreError> {
        next(&self.reads)?;
        self.store.get(key, call)
    }

    fn create(&self, key: &str, write: RecordWrite<'_>, call: &CallContext) -> Result<VersionedRecord, StoreError> {
        self.store.create(key, write, call)
    }

    fn update(
        &self,
        key: &str,
        base: &VersionedRecord,
        write: RecordWrite<'_>,
        call: &CallContext,
    ) -> Result<VersionedRecord, StoreError> {
        self.store.update(key, base, write, call)
    }

    fn watch(
        &self,
        scope: WatchScope<'_>,
        from: Option<&Cursor>,
        cancel: &CancelToken,
        on_event: &mut dyn FnMut(WatchEvent),
    ) -> Result<(), StoreError> {
        self.began.lock().push(from.is_none());
        next(&self.watches)?;
        self.store.watch(scope, from, cancel, on_event)
    }

    fn check_key(&self, key: &str) -> Result<(), ConfigError> {
        self.store.check_key(key)
    }

    fn describe(&self, key: &str) -> String {
        self.store.describe(key)
    }
}

impl Failing {
    fn new(watches: &[StoreErrorKind], reads: &[StoreErrorKind]) -> Arc<Self> {
        let of = |kinds: &[StoreErrorKind]| Mutex::new(kinds.iter().copied().collect());
        Arc::new(Self { watches: of(watches), reads: of(reads), ..Self::default() })
    }

    fn make(&self, key: &str) {
        let record = LeaderElectionRecord { holder_identity: Some("a".into()), ..LeaderElectionRecord::default() };
        let call = CallContext::new(SOON, CancelToken::new());
        self.create(key, record.as_write(), &call).expect("it is created");
    }
}

struct Followed {
    messages: Receiver<FollowMessage>,
    current: CurrentWatch,
}

fn follow(store: &Arc<Failing>, key: Option<&str>) -> Followed {
    let (sender, messages) = unbounded();
    let current = CurrentWatch::default();
    let watching = FollowThread::new(Arc::<Failing>::clone(store), key, current.clone(), sender);
    std::thread::spawn(move || watching.run());
    Followed { messages, current }
}

impl Followed {
    fn end_watch(&self) {
        let current = self.current.0.lock().clone();
        if let Some((cancel, _)) = current {
            cancel.cancel();
        }
    }

    /// Returns the key and the holder of the next update of a record.
    fn record(&self) -> (Box<str>, Option<String>) {
        loop {
            let message = self.messages.recv_timeout(SOON).expect("a message");
            if let FollowMessage::Update(Update::Record { key, found, .. }, _) = message {
                return (key, found.and_then(|observed| observed.record.holder_identity));
            }
        }
    }

    /// Returns the next message that is not an update.
    fn trouble(&self) -> Result<(Level, String), String> {
        loop {
            match self.messages.recv_timeout(SOON).expect("a message") {
                FollowMessage::Trouble(level, trouble) => return Ok((level, trouble)),
                FollowMessage::Failed(why) => return Err(why),
                FollowMessage::Update(..) | FollowMessage::Paused(..) => {}
            }
        }
    }
}

impl Drop for Followed {
    /// Closes the channel, so that the thread ends.
    fn drop(&mut self) {
        self.messages = bounded(0).1;
        self.end_watch();
    }
}

#[test]
fn obstacle_and_its_end_are_reported_once() {
    let kinds = [StoreErrorKind::Unavailable, StoreErrorKind::Unavailable];
    let store = Failing::new(&kinds, &[]);
    let followed = follow(&store, Some("jobs"));
    let why = "Unavailable: do something; retrying".to_owned();
    assert_eq!(followed.trouble(), Ok((Level::Warn, why)));
    assert_eq!(followed.trouble(), Ok((Level::Info, "following jobs in memory again".to_owned())));
    assert_eq!(followed.record(), ("jobs".into(), None));
    store.make("jobs");
    assert_eq!(followed.record(), ("jobs".into(), Some("a".into())));
    assert_eq!(*store.began.lock(), [true, true, true]);
}

#[test]
fn permanent_error_ends_the_command_only_at_the_start() {
    for (watches, reads) in [(&[StoreErrorKind::Forbidden][..], &[][..]), (&[], &[StoreErrorKind::Forbidden])] {
        let followed = follow(&Failing::new(watches, reads), Some("jobs"));
        assert_eq!(followed.trouble(), Err("Forbidden: do something".to_owned()));
    }
    let store = Failing::new(&[], &[]);
    let followed = follow(&store, Some("jobs"));
    assert_eq!(followed.record(), ("jobs".into(), None));
    store.watches.lock().push_back(StoreErrorKind::Forbidden);
    followed.end_watch();
    let why = "Forbidden: do something; retrying".to_owned();
    assert_eq!(followed.trouble(), Ok((Level::Warn, why)));
    assert!(matches!(followed.trouble(), Ok((Level::Info, _))));
}

#[test]
fn a_watch_goes_on_where_one_has_ended_unless_that_is_forgotten() {
    let store = Failing::new(&[], &[]);
    let followed = follow(&store, None);
    store.make("one");
    assert_eq!(followed.record(), ("one".into(), Some("a".into())));
    // After `ToldAll`, the next watch starts at a cursor and does not repeat the record "one".
    loop {
        if let FollowMessage::Update(Update::ToldAll { key: None }, _) =
            followed.messages.recv_timeout(SOON).expect("a message")
        {
            break;
        }
    }
    followed.end_watch();
    store.make("two");
    assert_eq!(followed.record(), ("two".into(), Some("a".into())));
    store.watches.lock().push_back(StoreErrorKind::Expired);
    followed.end_watch();
    assert_eq!(followed.record(), ("one".into(), Some("a".into())));
    assert_eq!(*store.began.lock(), [true, false, false, true]);
}

#[test]
fn pauses_grow_up_to_half_a_minute() {
    let mut watching = FollowThread::new(Failing::new(&[], &[]), None, CurrentWatch::default(), unbounded().0);
    let mut longest = Duration::ZERO;
    for failures in 0..100 {
        let pause = watching.back_off();
        let full = Duration::from_secs(1 << failures.min(10)).min(LONGEST_PAUSE);
        assert!(pause <= full && pause >= full / 2, "{pause:?} after {failures}");
        longest = longest.max(pause);
    }
    assert!(longest > LONGEST_PAUSE / 2);
}

#[test]
fn requested_pause_is_limited_and_reported() {
    let asks = |asked| StoreError::new(StoreErrorKind::Unavailable, "made up").with_retry_after(Some(asked));
    for (asked, least) in [(3, 3), (15, 15), (3_600, 15)] {
        let (sender, messages) = unbounded();
        let mut watching = FollowThread::new(Failing::new(&[], &[]), None, CurrentWatch::default(), sender);
        let pause = watching.failed(&asks(Duration::from_secs(asked))).expect("a pause");
        let least = Duration::from_secs(least);
        assert!(pause >= least && pause <= least.mul_f64(1.2), "{asked} s: {pause:?}");
        let reported =
            messages.try_iter().any(|it| matches!(it, FollowMessage::Paused(reported, _) if reported == pause));
        assert!(reported, "{asked} s");
    }
}
