//! Groups on both servers, on every other store and in memory.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::support::api::{Api, Method};
use leasehold::group::{GroupTransition, LeaseGroup, LeaseGroupBuilder, OwnershipEnd, Shard};
use leasehold::kubernetes::LeaseStore;
use leasehold::store::{MemoryStore, Store, StoreError, StoreErrorKind, WatchEvent, WatchScope};
use leasehold::{Error, Event, Fitness, LeaderElector, LeaderElectorBuilder, Observer, Stop};
use leasehold_testing::{ApiServer, ApiServerBuilder, Fault, Resource, User, Verb};
use parking_lot::Mutex;
use serde_json::json;

use crate::on_both_servers;
use crate::support::cluster::{Cluster, NAMESPACE, client_of};
use crate::support::kind::Kind;
use crate::support::mariadb::MariaDb;
use crate::support::postgres::Postgres;
use crate::support::real_store::{File, InEtcd, InSql, RealStore};
use crate::support::stores::{Wrapped, call, held_by};
use crate::support::{A_WHILE, AT_ONCE, SOON, wait_until, wait_within};

const SHARDS: u32 = 9;

/// The processes of a group, and the owner of each shard according to the workers.
struct Group<'a> {
    name: &'a str,
    open: &'a dyn Fn() -> Arc<dyn Store>,
    /// Deletes a record like an operator. `None` on a store without deletions.
    delete: Option<&'a dyn Fn(&str)>,
    shards: u32,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Default)]
struct Seen {
    /// The identity and the token of the worker of each shard.
    working: BTreeMap<u32, (String, u64)>,
    /// The last token of each shard.
    tokens: BTreeMap<u32, u64>,
    faults: Vec<String>,
}

/// A process that runs one worker for each owned shard.
struct Process {
    stop: Stop,
    thread: JoinHandle<Result<(), Error>>,
}

impl Group<'_> {
    fn builder(&self, identity: &str) -> LeaseGroupBuilder {
        quick(self.name, identity, self.shards)
    }

    fn group(&self, identity: &str) -> LeaseGroup {
        self.builder(identity).start_on((self.open)()).expect("a group")
    }

    fn start(&self, identity: &str) -> Process {
        let (group, seen, stop) = (self.group(identity), Arc::clone(&self.seen), Stop::new());
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            group.run_until(&stopped, |shard| {
                work(group.identity(), &seen, shard);
                Ok(())
            })
        });
        Process { stop, thread }
    }

    /// Waits until these processes own all shards, in equal shares.
    fn wait_for_shares(&self, identities: &[&str]) {
        wait_within(SOON * 2, "all shards are shared", || {
            let working = &self.seen.lock().working;
            let share = |identity: &&str| working.values().filter(|(owner, _)| owner == identity).count();
            let shares: Vec<_> = identities.iter().map(share).collect();
            shares.iter().sum::<usize>() == self.shards as usize
                && shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1
        });
    }
}

/// Returns a builder with a short lease duration.
fn quick(name: &str, identity: &str, shards: u32) -> LeaseGroupBuilder {
    let builder = LeaseGroup::builder(name).shards(shards).drain_timeout(Duration::from_secs(5));
    builder.slot(|slot| {
        let slot = slot.identity(identity).no_client_go_peers(true).lease_duration(Duration::from_secs(3));
        slot.renew_deadline(Duration::from_secs(2)).retry_period(Duration::from_millis(300))
    })
}

impl Process {
    fn stop(self) {
        self.stop.stop();
        self.thread.join().expect("no panic").expect("the group has not ended");
    }
}

/// A worker that notes when another worker of the same shard owns the shard, too.
fn work(identity: &str, seen: &Mutex<Seen>, shard: &Shard) {
    let (index, token) = (shard.index(), shard.fencing_token());
    {
        let seen = &mut *seen.lock();
        if let Some(other) = seen.working.insert(index, (identity.to_owned(), token)) {
            seen.faults.push(format!("{identity} owns shard {index} with token {token} beside {other:?}"));
        }
        let last = seen.tokens.insert(index, token);
        if last.is_some_and(|last| last >= token) {
            seen.faults.push(format!("token {token} of shard {index} follows {last:?}"));
        }
    }
    while shard.wait(Duration::from_millis(20)) {}
    let seen = &mut *seen.lock();
    seen.working.remove(&index);
}

fn on_place(name: &str, open: &dyn Fn() -> Arc<dyn Store>, delete: Option<&dyn Fn(&str)>, test: impl Fn(&Group<'_>)) {
    run(test, Group { name, open, delete, shards: SHARDS, seen: Arc::default() });
}

fn run(test: impl Fn(&Group<'_>), group: Group<'_>) {
    test(&group);
    assert_eq!(group.seen.lock().faults, Vec::<String>::new());
}

macro_rules! on_every_store {
    ($($test:ident),* $(,)?) => {
        on_both_servers! { $($test),* }

        $(fn $test(cluster: &Cluster) {
            let open = || Arc::new(LeaseStore::new(cluster.client("admin"), NAMESPACE).expect("a store")) as Arc<dyn Store>;
            let delete = |key: &str| {
                let path = format!("{}/{key}", Kind::Lease.collection());
                cluster.api("admin").request(Method::DELETE, &path, None).expect("a deletion");
            };
            on_place(&cluster.lease, &open, Some(&delete), scenarios::$test);
        })*

        on_every_store!(sqlite File: $($test),*);
        on_every_store!(postgres InSql<Postgres>: $($test),*);
        on_every_store!(mysql InSql<MariaDb>: $($test),*);
        on_every_store!(etcd InEtcd: $($test),*);

        mod memory {
            use super::*;

            $(#[test] fn $test() { in_memory(SHARDS, scenarios::$test); })*
        }
    };
    ($module:ident $place:ty: $($test:ident),*) => {
        mod $module {
            use super::*;

            $(#[test]
            fn $test() {
                if let Some(place) = <$place as RealStore>::shared(concat!("groups_", stringify!($test))) {
                    on_place("jobs", &|| Arc::from(place.store()), Some(&|key| place.delete(key)), scenarios::$test);
                }
            })*
        }
    };
}

on_every_store! {
    shards_are_shared_and_move_with_their_members,
    foreign_and_deleted_records_recover,
}

mod scenarios {
    use super::*;

    pub(super) fn shards_are_shared_and_move_with_their_members(group: &Group<'_>) {
        let (a, b) = (group.start("a"), group.start("b"));
        group.wait_for_shares(&["a", "b"]);
        let c = group.start("c");
        group.wait_for_shares(&["a", "b", "c"]);
        let observer = group.group("observer");
        wait_until("the owners are observed", || observer.status().shards.iter().all(|shard| shard.owner.is_some()));
        assert_eq!(observer.status().members.len(), 3);
        assert_eq!(observer.status().own_slot, None);
        a.stop();
        group.wait_for_shares(&["b", "c"]);
        b.stop();
        c.stop();
        assert!(group.seen.lock().working.is_empty());
        wait_until("no member is left", || observer.status().members.is_empty());
    }

    pub(super) fn foreign_and_deleted_records_recover(group: &Group<'_>) {
        let (a, b) = (group.start("a"), group.start("b"));
        group.wait_for_shares(&["a", "b"]);
        let store = (group.open)();
        let key = format!("{}-shard-003", group.name);
        let edited = store.get(&key, &call()).expect("an answer").expect("a record");
        let mut foreign = edited.record.clone();
        foreign.holder_identity = Some("another program".to_owned());
        let edited = store.update(&key, &edited, foreign.as_write(), &call()).expect("an edit");
        let observer = group.group("observer");
        wait_until("the fault is reported", || observer.status().shards[3].fault.is_some());
        wait_until("the owner has stopped", || !group.seen.lock().working.contains_key(&3));
        thread::sleep(A_WHILE);
        let now = store.get(&key, &call()).expect("an answer").expect("a record");
        assert_eq!(now.version, edited.version, "the record is left alone");
        foreign.holder_identity = Some(String::new());
        store.update(&key, &edited, foreign.as_write(), &call()).expect("an edit");
        group.wait_for_shares(&["a", "b"]);
        if let Some(delete) = group.delete {
            let token = |shard| group.seen.lock().tokens[&shard];
            let tokens = [token(0), token(3)];
            delete(&format!("{}-shard-000", group.name));
            delete(&key);
            wait_within(SOON, "the shards have new owners", || token(0) > tokens[0] && token(3) > tokens[1]);
            let slot = observer.status().members[0].slot;
            delete(&format!("{}-member-{slot:02}", group.name));
            wait_until("the member has lost its term", || group.seen.lock().working.len() < SHARDS as usize);
            group.wait_for_shares(&["a", "b"]);
        }
        a.stop();
        b.stop();
    }
}

fn in_memory(shards: u32, test: impl Fn(&Group<'_>)) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    run(test, Group { name: "jobs", open: &|| Arc::clone(&store), delete: None, shards, seen: Arc::default() });
}

#[test]
fn worker_that_fails_or_returns_runs_again_and_keeps_its_shard() {
    in_memory(1, |place| {
        let (runs, stop) = (Mutex::new(Vec::new()), Stop::new());
        let (runs, group) = (&runs, &place.group("a"));
        thread::scope(|scope| {
            let worker = |shard: &Shard| {
                runs.lock().push(shard.fencing_token());
                let count = runs.lock().len();
                match count {
                    1 => Err("made up".into()),
                    2 => Ok(()),
                    _ => {
                        while shard.wait(SOON) {}
                        Ok(())
                    }
                }
            };
            let stopped = stop.clone();
            let running = scope.spawn(move || group.run_until(&stopped, worker));
            wait_until("the worker has run three times", || runs.lock().len() == 3);
            assert!(matches!(group.shards(), Err(Error::Busy)));
            stop.stop();
            running.join().expect("no panic").expect("an end");
        });
        let tokens = runs.lock().clone();
        assert!(tokens.iter().all(|token| *token == tokens[0]), "one ownership: {tokens:?}");
    });
}

#[test]
fn panic_of_a_worker_frees_all_shards_and_is_passed_on() {
    in_memory(4, |place| {
        let group = place.group("a");
        let (working, returned) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            group.run_until(&Stop::new(), |shard| {
                if working.fetch_add(1, Ordering::SeqCst) == 3 {
                    resume_unwind(Box::new("made up"));
                }
                while shard.wait(SOON) {}
                returned.fetch_add(1, Ordering::SeqCst);
                Ok(())
            })
        }));
        let panic = outcome.expect_err("the panic of the worker");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"made up"));
        assert_eq!(returned.into_inner(), 3, "the other workers have drained");
        let other = place.start("b");
        place.wait_for_shares(&["b"]);
        other.stop();
    });
}

#[test]
fn worker_that_ignores_its_end_delays_the_next_owner() {
    in_memory(1, |place| {
        let group = place.group("a");
        let shards = group.shards().expect("a member");
        let stubborn = shards.recv_timeout(SOON).expect("a shard");
        let (other, began) = (place.start("b"), Instant::now());
        let leaving = thread::spawn(move || shards.leave());
        wait_until("the shard is wanted", || stubborn.is_recalled());
        assert!(stubborn.ended().recv_timeout(SOON).is_err());
        assert!(!stubborn.is_owned() && stubborn.remaining().is_zero());
        place.wait_for_shares(&["b"]);
        // The drain timeout, and a lease duration.
        assert!(began.elapsed() >= Duration::from_secs(8), "{:?}", began.elapsed());
        leaving.join().expect("no panic").expect("a release");
        drop(stubborn);
        other.stop();
    });
}

#[test]
fn dropped_shard_moves_to_another_member() {
    in_memory(2, |place| {
        let group = place.group("a");
        let shards = group.shards().expect("a member");
        let (first, second) =
            (shards.recv_timeout(SOON).expect("a shard"), shards.recv_timeout(SOON).expect("a shard"));
        assert_ne!(first.index(), second.index());
        let other = place.start("b");
        wait_until("one shard is wanted", || first.is_recalled() || second.is_recalled());
        let (moves, stays) = if first.is_recalled() { (first, second) } else { (second, first) };
        assert!(moves.is_owned(), "until it is dropped");
        let index = moves.index();
        drop(moves);
        wait_until("the other member owns the shard", || {
            group.status().shards[index as usize].owner.as_deref() == Some("b")
        });
        assert!(stays.is_owned() && !stays.is_recalled());
        drop((stays, shards));
        place.wait_for_shares(&["b"]);
        other.stop();
    });
}

#[test]
fn observers_and_transitions_report_shards() {
    #[derive(Clone, Default)]
    struct Facts(Arc<Mutex<Vec<String>>>);

    impl Observer for Facts {
        fn on_event(&self, event: &Event) {
            self.0.lock().push(match event {
                Event::WatchOpened => "watch".to_owned(),
                Event::StartedLeading { .. } => "slot".to_owned(),
                Event::ShardStarted { shard, .. } => format!("started {shard}"),
                Event::ShardEnded { shard, reason } => format!("ended {shard}: {reason}"),
                _ => return,
            });
        }
    }

    let facts = Facts::default();
    let builder = LeaseGroup::builder("jobs").shards(1);
    let builder = builder.slot(|slot| slot.lease_duration(Duration::from_secs(6)).observer(facts.clone()));
    let group = builder.start_on(MemoryStore::new()).expect("a group");
    let transitions = group.transitions();
    let shards = group.shards().expect("a member");
    let shard = shards.recv_timeout(SOON).expect("a shard");
    let token = shard.fencing_token();
    drop(shard);
    shards.leave().expect("a release");
    wait_until("the facts arrive", || facts.0.lock().len() >= 5);
    // The elector of the slot reports its term on another thread.
    let (of_slot, of_group): (Vec<_>, Vec<_>) = facts.0.lock().drain(..).partition(|fact| fact == "slot");
    // The watch of the slot is not reported. After the slot is won, another watch of the group lists all records again.
    assert_eq!(
        (of_slot.len(), &of_group[..]),
        (1, &["watch", "watch", "started 0", "ended 0: the worker returned"].map(str::to_owned)[..])
    );
    let identity = group.identity().to_owned();
    let expected = [
        GroupTransition::NewOwner { shard: 0, identity },
        GroupTransition::ShardStarted { shard: 0, fencing_token: token },
        GroupTransition::ShardEnded { shard: 0, reason: OwnershipEnd::Returned },
    ];
    let told: Vec<_> = transitions.try_iter().take(3).collect();
    assert_eq!(told, expected);
}

#[test]
fn store_without_watches_ends_the_group() {
    let store = Wrapped::without_watch(Arc::new(MemoryStore::new()));
    let group = LeaseGroup::builder("jobs").start_on(store).expect("a group");
    let error = group.run_until(&Stop::new(), |_| Ok(())).expect_err("no watches");
    assert!(matches!(&error, Error::Store(error) if error.kind() == StoreErrorKind::Unsupported), "{error}");
}

/// Starts a group on a store with these watches. Returns the number of watches, and the group.
fn with_watches(
    watch: impl Fn(usize, &mut dyn FnMut(WatchEvent)) -> Result<(), StoreErrorKind> + Send + Sync + 'static,
    pause: Option<Duration>,
) -> (Arc<AtomicUsize>, LeaseGroup) {
    let watches = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&watches);
    let store = Wrapped::watching(Arc::new(MemoryStore::new()), move |_, _, on_event| {
        // The elector of a slot watches the same store.
        if thread::current().name() != Some("leasehold-shards") {
            return Err(StoreError::new(StoreErrorKind::Unsupported, "no watch"));
        }
        let result = watch(counted.fetch_add(1, Ordering::Relaxed), on_event);
        result.map_err(|kind| StoreError::new(kind, "made up").with_retry_after(pause))
    });
    (watches, quick("jobs", "a", 1).start_on(store).expect("a group"))
}

#[test]
fn watches_that_end_keep_their_pauses() {
    let began = Instant::now();
    let refused = |pause| with_watches(|_, _| Err(StoreErrorKind::Unavailable), pause);
    let (growing, _group) = refused(None);
    let (requested, _group) = refused(Some(Duration::from_secs(3_600)));
    let listing = |_, on_event: &mut dyn FnMut(WatchEvent)| {
        on_event(WatchEvent::Synced);
        Ok(())
    };
    let (listed, _group) = with_watches(listing, None);
    let overloaded = move |watch, on_event: &mut dyn FnMut(WatchEvent)| {
        listing(watch, on_event).and(Err(StoreErrorKind::Unavailable))
    };
    let (requested_later, _group) = with_watches(overloaded, Some(Duration::from_secs(3_600)));
    // The first watch has worked, and the later watches are refused for good.
    let (refused_later, group) = with_watches(
        move |watch, on_event| match watch {
            0 => listing(watch, on_event).and(Err(StoreErrorKind::Unavailable)),
            _ => Err(StoreErrorKind::Forbidden),
        },
        None,
    );
    let shards = group.shards().expect("no other participation");
    wait_until("twenty watches list all records", || listed.load(Ordering::Relaxed) >= 20);
    // The first pause is an eighth of the retry period. Growing pauses would need 18 s.
    let took = began.elapsed();
    assert!((Duration::from_micros(19 * 37_500)..Duration::from_secs(10)).contains(&took), "{took:?}");
    wait_until("a watch opens again", || requested.load(Ordering::Relaxed) > 1);
    let requested_later = requested_later.load(Ordering::Relaxed) as u128;
    assert!(requested_later <= 1 + began.elapsed().as_millis() / 3_000, "{requested_later}");
    let counts = [growing, refused_later].map(|watches| watches.load(Ordering::Relaxed));
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(3), "the lease duration is the longest pause: {took:?}");
    // The longest pause is four retry periods.
    for count in counts {
        assert!(count as u128 <= took.as_millis() / 1_200 + 7, "{count} in {took:?}");
    }
    // The renew deadline of 2 s has passed.
    assert!(shards.recv_timeout(A_WHILE).is_err_and(|error| error.is_timeout()), "the group has ended");
}

#[test]
fn refusals_of_a_watch_far_apart_end_no_group() {
    let watch = |watch, _: &mut dyn FnMut(WatchEvent)| match watch {
        0 | 2 => Err(StoreErrorKind::Forbidden),
        // Longer than a renew deadline, and without a listing.
        1 => {
            thread::sleep(Duration::from_millis(2_200));
            Ok(())
        }
        _ => Err(StoreErrorKind::Unavailable),
    };
    let (watches, _group) = with_watches(watch, None);
    wait_until("the group opens a fourth watch", || watches.load(Ordering::Relaxed) > 3);
}

/// A store whose answers to requests of the group panic once the flag is set.
fn panicking(place: &Group<'_>) -> (Arc<AtomicBool>, impl Store + 'static) {
    let panics = Arc::new(AtomicBool::new(false));
    let store = Wrapped::answering((place.open)(), {
        let panics = Arc::clone(&panics);
        move |_| {
            let is_of_group = thread::current().name() == Some("leasehold-group");
            if is_of_group && panics.load(Ordering::Relaxed) {
                // Without a backtrace, which can take longer than a lease duration on a busy machine.
                resume_unwind(Box::new("made up"));
            }
        }
    });
    (panics, store)
}

#[test]
fn panic_of_the_store_ends_the_group_and_frees_its_shards() {
    in_memory(4, |place| {
        let (panics, store) = panicking(place);
        let group = place.builder("a").start_on(store).expect("a group");
        let seen = Arc::clone(&place.seen);
        let first = thread::spawn(move || {
            group.run_until(&Stop::new(), |shard| {
                work("a", &seen, shard);
                Ok(())
            })
        });
        place.wait_for_shares(&["a"]);
        panics.store(true, Ordering::Relaxed);
        let other = place.start("b");
        assert!(matches!(first.join().expect("no panic"), Err(Error::Stopped)));
        place.wait_for_shares(&["b"]);
        other.stop();
    });
}

#[test]
fn slot_of_an_ended_group_or_term_is_kept_while_a_worker_hangs() {
    let ends: [fn(&AtomicBool, &Fitness); 2] =
        [|panics, _| panics.store(true, Ordering::Relaxed), |_, fitness| fitness.set(false)];
    thread::scope(|scope| {
        for (end, hangs) in ends.into_iter().flat_map(|end| [(end, true), (end, false)]) {
            scope.spawn(move || assert_eq!(slot_is_kept_after(end, hangs), hangs, "a worker hangs: {hangs}"));
        }
    });
}

/// Ends the group or the term of a member by `end` while a worker still runs, which returns unless it `hangs`.
///
/// Returns `true` if the other member waits for a lease duration.
fn slot_is_kept_after(end: fn(&AtomicBool, &Fitness), hangs: bool) -> bool {
    let (is_kept, lease_duration) = (AtomicBool::new(false), Duration::from_secs(6));
    in_memory(2, |place| {
        let (panics, store) = panicking(place);
        let fitness = Fitness::new();
        fitness.set(true);
        // The lease duration counts, although the drain timeout is shorter.
        let builder = place.builder("a").drain_timeout(Duration::from_millis(500));
        let builder = builder.slot(|slot| slot.fitness(&fitness).lease_duration(lease_duration));
        let group = builder.start_on(store).expect("a group");
        let shards = group.shards().expect("a member");
        let [first, second] = [(); 2].map(|()| shards.recv_timeout(SOON).expect("a shard"));
        let other = place.start("b");
        wait_until("one shard is wanted", || first.is_recalled() || second.is_recalled());
        let (moves, stays) = if first.is_recalled() { (first, second) } else { (second, first) };
        let began = Instant::now();
        end(&panics, &fitness);
        drop(moves);
        assert!(stays.ended().recv_timeout(SOON).is_err());
        assert!(stays.recalled().recv_timeout(AT_ONCE).is_err_and(|error| error.is_disconnected()));
        assert!(!stays.is_owned());
        let stays = Some(stays).filter(|_| hangs);
        place.wait_for_shares(&["b"]);
        is_kept.store(began.elapsed() >= lease_duration, Ordering::Relaxed);
        drop(stays);
        other.stop();
    });
    is_kept.into_inner()
}

/// The watch of the group is silent, so only the elector of the slot notices the deletion.
#[test]
fn early_end_of_a_slot_ends_its_shards_at_once() {
    let (memory, is_silent) = (Arc::new(MemoryStore::new()), Arc::new(AtomicBool::new(false)));
    let (watched, silent) = (Arc::clone(&memory), Arc::clone(&is_silent));
    let store = Wrapped::watching(Arc::clone(&memory), move |from, cancel, on_event| {
        if thread::current().name() != Some("leasehold-shards") {
            return Err(StoreError::new(StoreErrorKind::Unsupported, "no watch"));
        }
        let mut pass = |event| {
            if !silent.load(Ordering::Relaxed) {
                on_event(event)
            }
        };
        watched.watch(WatchScope::Prefix("jobs-"), from, cancel, &mut pass)
    });
    let builder = quick("jobs", "a", 1)
        .max_members(1)
        .slot(|slot| slot.lease_duration(Duration::from_secs(12)).renew_deadline(Duration::from_secs(8)));
    let group = builder.start_on(store).expect("a group");
    let shards = group.shards().expect("a member");
    let shard = shards.recv_timeout(SOON).expect("a shard");
    is_silent.store(true, Ordering::Relaxed);
    assert!(memory.delete("jobs-member-00"));
    let began = Instant::now();
    assert!(shard.ended().recv_timeout(SOON).is_err());
    assert!(began.elapsed() < Duration::from_millis(3_000), "{:?}", began.elapsed());
}

/// Starts a server with a user who may do everything, and a group of one shard on the server.
fn on_a_server(max_members: u32) -> (ApiServer, LeaseGroup) {
    let server = ApiServer::builder().user(User::admin()).start().expect("an in-memory server");
    let builder = quick("jobs", "a", 1).max_members(max_members);
    let builder = builder.slot(|slot| slot.release_timeout(Duration::from_secs(2)));
    let group = builder.start_with_client(client_of(&server.kubeconfig("admin"))).expect("a group");
    (server, group)
}

#[test]
fn metadata_of_the_slot_is_on_all_leases() {
    let server = ApiServer::builder().user(User::admin()).start().expect("an in-memory server");
    let kubeconfig = server.kubeconfig("admin");
    let builder = quick("jobs", "a", 1).max_members(1).slot(|slot| slot.label("team", "red").annotation("a/b", "c"));
    let group = builder.start_with_client(client_of(&kubeconfig)).expect("a group");
    let shards = group.shards().expect("a member");
    let _shard = shards.recv_timeout(SOON).expect("a shard");
    for lease in ["jobs-member-00", "jobs-shard-000"] {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/default/leases/{lease}");
        let lease = Api::of(&kubeconfig).request(Method::GET, &path, None).expect("a lease");
        let metadata = &lease["metadata"];
        assert_eq!((&metadata["labels"]["team"], &metadata["annotations"]["a/b"]), (&json!("red"), &json!("c")));
    }
    let events = quick("jobs", "a", 1).slot(|slot| slot.events(true)).start_with_client(client_of(&kubeconfig));
    assert!(matches!(events, Err(Error::Config(error)) if error.field() == "events"));
}

#[test]
fn campaigns_keep_the_pauses_of_a_server() {
    let refused = |status| Fault::status(status, "", "made up");
    // The requests for each campaign, and the shortest time between two campaigns. Beside a campaign, the elector repeats
    // a failed read by itself. The client repeats each request whose connection was closed.
    let (retry_period, lease_duration) = (Duration::from_millis(300), Duration::from_secs(3));
    let cases = [
        ("refuses", refused(503), 2, retry_period),
        ("asks for a pause", refused(429).retry_after(60), 1, lease_duration),
        ("hangs", Fault::hang(), 2, Duration::from_secs(1)),
        ("closes connections", Fault::drop_before(), 4, retry_period),
    ];
    thread::scope(|scope| {
        for (name, fault, requests, pause) in cases {
            scope.spawn(move || {
                let (server, group) = on_a_server(16);
                let fault = [Verb::Get, Verb::Create, Verb::Update].into_iter().fold(fault, Fault::verb);
                let fault = server.fault(fault);
                let (began, shards) = (Instant::now(), group.shards().expect("a member"));
                assert!(fault.wait_for_hits(1, SOON), "{name}");
                thread::sleep(Duration::from_millis(2_900));
                let hits = u128::from(fault.hits());
                let most = requests * (began.elapsed().as_millis() / pause.as_millis() + 1);
                assert!(hits <= most, "{name}: {hits} requests, at most {most} are due");
                server.clear_faults();
                assert!(shards.recv_timeout(SOON).is_ok(), "{name}");
                shards.leave().expect("a release");
            });
        }
    });
}

/// The watch is behind, and still shows a free slot.
#[test]
fn campaigns_for_a_held_slot_keep_a_retry_period() {
    let store = MemoryStore::new();
    store.create("jobs-member-00", held_by("other").as_write(), &call()).expect("a record");
    let reads = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&reads);
    let behind = Wrapped::watching(store, |_, cancel, on_event| {
        on_event(WatchEvent::Synced);
        while !cancel.is_cancelled() {
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    });
    let behind = behind.and_answering(move |_| _ = counted.fetch_add(1, Ordering::Relaxed));
    let group = quick("jobs", "a", 1).max_members(1).start_on(behind).expect("a group");
    let (began, _shards) = (Instant::now(), group.shards().expect("no other participation"));
    thread::sleep(Duration::from_millis(1_400));
    // A new elector may read before its campaign, which then reads again.
    let (reads, most) = (reads.load(Ordering::Relaxed) as u128, 2 * (began.elapsed().as_millis() / 300 + 1));
    assert!((2..=most).contains(&reads), "{reads} reads, at most {most} are due");
}

/// Only the elector of the campaign knows the write that won the slot.
#[test]
fn leaving_releases_a_slot_that_an_unanswered_write_won() {
    let (server, group) = on_a_server(1);
    let unanswered = server.fault(Fault::hang_after().verb(Verb::Create).first(1));
    // Neither the watch of the slot nor the next read shows the write.
    let refused = || Fault::status(503, "", "made up");
    server.fault(refused().verb(Verb::Watch).name("jobs-member-00"));
    server.fault(refused().verb(Verb::Get).skip(1).first(1));
    server.fault(Fault::delay(Duration::from_millis(300)).verb(Verb::Update));
    let shards = group.shards().expect("a member");
    assert!(unanswered.wait_for_hits(1, SOON));
    shards.leave().expect("the group has not ended");
    let slots = server.list(Resource::Leases, "default");
    let holders: Vec<_> = slots.iter().map(|slot| slot["spec"]["holderIdentity"].as_str()).collect();
    assert_eq!(holders, [Some("")]);
}

#[test]
fn rights_that_are_lost_later_end_no_group() {
    thread::scope(|scope| {
        // Without both rights to write, every campaign fails.
        let verbs =
            [&[Verb::Watch][..], &[Verb::List], &[Verb::Create], &[Verb::Update], &[Verb::Create, Verb::Update]];
        for verbs in verbs {
            scope.spawn(move || {
                let server = ApiServer::builder().user(User::admin()).start().expect("an in-memory server");
                let client = client_of(&server.kubeconfig("admin"));
                let open = || Arc::new(LeaseStore::new(client.clone(), NAMESPACE).expect("a store")) as Arc<dyn Store>;
                on_place("jobs", &open, None, |place| {
                    let process = place.start("a");
                    place.wait_for_shares(&["a"]);
                    // First, the refusal is short. Then the term ends, and new campaigns fail for a renew deadline.
                    for time in [300, 5_500].map(Duration::from_millis) {
                        let token = || place.seen.lock().tokens[&0];
                        let last = token();
                        let forbidden = Fault::status(403, "Forbidden", "made up");
                        let refused = server.fault(verbs.iter().copied().fold(forbidden, Fault::verb));
                        server.disconnect_all();
                        assert!(server.delete(Resource::Leases, NAMESPACE, "jobs-shard-000").is_some());
                        thread::sleep(time);
                        assert!(!process.thread.is_finished(), "{verbs:?}");
                        refused.remove();
                        wait_until("the shard has a new owner", || token() > last);
                        place.wait_for_shares(&["a"]);
                    }
                    process.stop();
                });
            });
        }
    });
}

#[test]
fn process_joins_after_its_probe_has_returned() {
    in_memory(1, |place| {
        let slow = || {
            thread::sleep(Duration::from_millis(50));
            true
        };
        let group = place.builder("a").slot(|slot| slot.fit_while(slow)).start_on((place.open)()).expect("a group");
        let shards = group.shards().expect("no other participation");
        drop(shards.recv_timeout(SOON).expect("a shard"));
        shards.leave().expect("a release");
    });
}

#[test]
fn missing_right_ends_the_group_and_is_named() {
    let verbs = [Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Update];
    let user = |missing: &Verb| {
        let user = User::new(format!("no-{missing:?}"), format!("token-{missing:?}"));
        verbs.iter().filter(|verb| *verb != missing).fold(user, |user, verb| user.grant(*verb, Resource::Leases))
    };
    let server = verbs.iter().map(user).fold(ApiServer::builder(), ApiServerBuilder::user);
    let server = server.start().expect("an in-memory server");
    thread::scope(|scope| {
        for verb in verbs {
            let client = client_of(&server.kubeconfig(&format!("no-{verb:?}")));
            scope.spawn(move || {
                let group =
                    quick(&format!("no-{verb:?}").to_lowercase(), "a", 1).start_with_client(client).expect("a group");
                let error = group.run_until(&Stop::new(), |_| Ok(())).expect_err("a missing right");
                let text = error.to_string();
                let is_named = text.contains(&format!("`{}`", format!("{verb:?}").to_lowercase()));
                assert!(matches!(&error, Error::Store(error) if error.kind() == StoreErrorKind::Forbidden), "{text}");
                assert!(is_named, "{verb:?}: {text}");
            });
        }
    });
}

/// Without the right to list, a member never observes a slot.
#[test]
fn refused_watch_ends_the_group_after_a_renew_deadline() {
    let store = Wrapped::watching(Arc::new(MemoryStore::new()), |_, _, _| {
        Err(StoreError::new(StoreErrorKind::Forbidden, "no `list`"))
    });
    let seconds = Duration::from_secs;
    let slot = |slot: LeaderElectorBuilder| slot.lease_duration(seconds(6)).renew_deadline(seconds(4));
    let builder = LeaseGroup::builder("jobs").slot(|it| slot(it).retry_period(seconds(1)));
    let (group, began) = (builder.start_on(store).expect("a group"), Instant::now());
    group.run_until(&Stop::new(), |_| Ok(())).expect_err("a missing right");
    // Growing pauses alone would end the group after 7.9 s.
    let took = began.elapsed();
    assert!((seconds(4)..seconds(7)).contains(&took), "{took:?}");
}

#[test]
fn another_number_of_shards_ends_the_newcomer() {
    in_memory(SHARDS, |place| {
        let first = place.start("a");
        place.wait_for_shares(&["a"]);
        let tokens = place.seen.lock().tokens.clone();
        let newcomer = quick(place.name, "b", SHARDS * 2).start_on((place.open)()).expect("a group");
        let error = newcomer.run_until(&Stop::new(), |_| Err("a shard".into())).expect_err("another number of shards");
        assert!(matches!(&error, Error::Config(error) if error.field() == "shards"), "{error}");
        assert!(error.to_string().contains("must be 9, as for member"), "{error}");
        let observer = place.group("observer");
        wait_until("the newcomer has released its slot", || {
            observer.status().members.iter().map(|member| (&*member.identity, member.shards)).eq([("a", Some(SHARDS))])
        });
        assert_eq!(place.seen.lock().tokens, tokens, "no shard moves");
        first.stop();
        // After the last member has left, another number is possible.
        let other = quick(place.name, "b", SHARDS * 2).start_on((place.open)()).expect("a group");
        let shards = other.shards().expect("a member");
        assert!(shards.recv_timeout(SOON).expect("a shard").is_owned());
        shards.leave().expect("a release");
    });
}

#[test]
fn settings_of_a_group_are_checked() {
    let builder = || LeaseGroup::builder("jobs");
    for (builder, field) in [
        (LeaseGroup::builder(""), "name"),
        (builder().shards(0), "shards"),
        (builder().shards(1025), "shards"),
        (builder().max_members(0), "max_members"),
        (builder().max_members(65), "max_members"),
        (builder().namespace("shop"), "namespace"),
        (builder().namespace("shop").slot(|_| LeaderElector::builder("slot")), "namespace"),
        (builder().slot(|slot| slot.renew_interval(Duration::from_secs(3))), "renew_interval"),
        (builder().slot(|slot| slot.progress_timeout(Duration::from_secs(60))), "progress_timeout"),
        (builder().slot(|slot| slot.identity("")), "identity"),
    ] {
        let Err(Error::Config(error)) = builder.start_on(MemoryStore::new()) else { panic!("{field}") };
        assert_eq!(error.field(), field);
    }
    let group = builder().slot(|_| LeaderElector::builder("slot")).start_on(MemoryStore::new()).expect("a group");
    assert_eq!(group.status().name, "jobs");
}
