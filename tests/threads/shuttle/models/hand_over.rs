//! How a term that was won reaches the caller that campaigned, or is released.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use leasehold_shuttle::explore::{explore, wait_for_all_threads};
use leasehold_shuttle::faulty::{Faults, FaultyStore};
use leasehold_shuttle::{Error, channel, time};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

use crate::{check_end, check_that_nothing_stale_ended, elector, end, lead, one_in};

/// A campaign is withdrawn while its answer arrives.
///
/// After the withdrawal, another campaign can start at once. No message that remains from the first campaign may end
/// the second one.
#[test]
fn a_withdrawn_campaign_leaves_nothing_behind() {
    explore("a withdrawn campaign leaves nothing behind", 6000, || {
        time::eager_for(Duration::from_secs(1));
        let store = FaultyStore::new(if one_in(2) { Faults::Fair } else { Faults::Foul });
        let elector = elector(&store);
        let campaign = elector.campaign().expect("nobody else asks");
        assert!(matches!(elector.campaign(), Err(Error::Busy)));
        if one_in(2) {
            time::sleep(Duration::from_millis(1));
        }
        drop(campaign);
        if one_in(2) {
            store.set_faults(Faults::Fair);
            let second = elector.campaign().expect("the seat is free");
            let guard = second.receiver().recv().expect("it stays connected").expect("a term");
            store.attend(guard.leadership());
            assert!(matches!(elector.campaign(), Err(Error::Busy)), "a guard and a campaign");
            check_that_nothing_stale_ended(&guard);
            drop(guard);
            let third = elector.campaign().expect("the seat is free");
            drop(second);
            let guard = third.receiver().recv().expect("it stays connected").expect("a term");
            store.attend(guard.leadership());
            check_that_nothing_stale_ended(&guard);
            drop((third, guard));
        }
        store.set_faults(Faults::Fair);
        end(elector, &store);
    });
}

/// The callback runs only once, so it must find its message the first time.
#[test]
fn on_decided_callback_finds_its_message() {
    explore("who is called when a campaign is decided finds its message", 6000, || {
        let store = FaultyStore::new(Faults::Fair);
        let elector = elector(&store);
        let campaign = elector.campaign().expect("nobody else asks");
        let other = thread::spawn(|| one_in(2).then_some(elector));
        let (found, finds) = channel::bounded(1);
        let receiver = campaign.receiver().clone();
        campaign.on_decided(move || drop(found.try_send(receiver.try_recv()))).expect("a thread");
        // A program may drop the answer as soon as it receives it.
        let answer = finds.recv().expect("it is called").expect("its message is there");
        if let Ok(guard) = &answer {
            store.attend(guard.leadership());
        }
        drop(answer);
        drop(campaign);
        drop(other.join().expect("it ends"));
        check_end(&store);
    });
}

#[test]
fn a_campaign_that_times_out_takes_its_guard_or_gives_it_back() {
    explore("a campaign that times out takes its guard or gives it back", 6000, || {
        let store = FaultyStore::new(if one_in(2) { Faults::Fair } else { Faults::Foul });
        let elector = elector(&store);
        let timeout = Duration::from_millis(thread_rng().gen_range(0..3) * 2500);
        let won = match elector.block_until_leader_timeout(timeout) {
            // If the last request failed, the timeout returns the request's error.
            Err(Error::Store(_)) => None,
            won => won.expect("no other error"),
        };
        store.set_faults(Faults::Fair);
        if let Some(guard) = won {
            assert!(matches!(elector.campaign(), Err(Error::Busy)), "a guard and a campaign");
            store.attend(guard.leadership());
        }
        let guard = lead(&elector, &store);
        check_that_nothing_stale_ended(&guard);
        drop(guard);
        end(elector, &store);
    });
}

#[test]
fn a_drop_of_the_elector_meets_the_answer() {
    explore("a drop of the elector meets the answer", 6000, || {
        let store = FaultyStore::new(Faults::Fair);
        let elector = elector(&store);
        let campaign = elector.campaign().expect("nobody else asks");
        let dropping = thread::spawn(move || drop(elector));
        match campaign.receiver().recv().expect("it stays connected") {
            Ok(guard) => {
                store.attend(guard.leadership());
                dropping.join().unwrap();
                check_that_nothing_stale_ended(&guard);
                drop(guard);
            }
            Err(Error::Stopped) => dropping.join().unwrap(),
            Err(error) => panic!("{error}"),
        }
        drop(campaign);
        check_end(&store);
    });
}

/// The elector must not handle the end of a campaign before the campaign itself.
#[test]
fn a_campaign_of_a_dropped_elector_acquires_nothing() {
    explore("a campaign of a dropped elector acquires nothing", 6000, || {
        time::eager_for(Duration::from_secs(1));
        let store = FaultyStore::new(Faults::Fair);
        store.give_to_another();
        let elector = elector(&store);
        let campaign = elector.campaign().expect("nobody else asks");
        drop(elector);
        // Meanwhile, the lease of the other candidate expires.
        time::sleep(Duration::from_secs(60));
        assert!(matches!(campaign.receiver().try_recv(), Ok(Err(Error::Stopped))));
        drop(campaign);
        wait_for_all_threads();
        assert_eq!(store.holder().as_deref(), Some("another"), "it was acquired, and nobody had asked for it");
    });
}

/// A round is answered once, and neither delays nor blocks the next campaign.
#[test]
fn a_round_that_does_not_win_leaves_nothing_behind() {
    explore("a round that does not win leaves nothing behind", 2000, || {
        time::eager_for(Duration::from_secs(1));
        let store = FaultyStore::new(Faults::Fair);
        store.give_to_another();
        let elector = elector(&store);
        assert!(elector.try_acquire().expect("no error").is_none(), "taken over too early");
        let guard = lead(&elector, &store);
        check_that_nothing_stale_ended(&guard);
        drop(guard);
        end(elector, &store);
    });
}

/// Two threads campaign without a pause: one in rounds, the other mostly with short timeouts.
#[test]
fn there_are_never_two_guards() {
    explore("there are never two guards", 4000, || {
        let store = FaultyStore::new(Faults::Fair);
        let elector = Arc::new(elector(&store));
        let leading = Arc::new(AtomicBool::new(false));
        let askers = [true, false].map(|in_rounds| {
            let (elector, store, leading) = (Arc::clone(&elector), store.clone(), Arc::clone(&leading));
            thread::spawn(move || {
                for _ in 0..4 {
                    let asked = match in_rounds {
                        true => elector.try_acquire(),
                        false if one_in(3) => elector.block_until_leader().map(Some),
                        false if one_in(2) => elector.block_until_leader_timeout(Duration::ZERO),
                        // The caller drops the campaign without taking its answer.
                        false => elector.campaign().map(|_campaign| {
                            time::sleep(Duration::from_millis(1));
                            None
                        }),
                    };
                    match asked {
                        Ok(None) | Err(Error::Busy) => time::sleep(Duration::from_millis(1)),
                        Ok(Some(guard)) => {
                            assert!(!leading.swap(true, Ordering::SeqCst), "two guards");
                            store.attend(guard.leadership());
                            check_that_nothing_stale_ended(&guard);
                            leading.store(false, Ordering::SeqCst);
                            drop(guard);
                        }
                        Err(error) => panic!("{error}"),
                    }
                }
            })
        });
        for asker in askers {
            asker.join().unwrap();
        }
        drop(elector.block_until_leader().expect("the seat is free"));
        end(Arc::into_inner(elector).expect("the askers have ended"), &store);
    });
}

/// The error may reach a campaign that the elector's thread has not received yet.
///
/// After the error no campaign is left, so the elector must not acquire the lease.
#[test]
fn a_campaign_that_got_an_error_acquires_nothing() {
    explore("a campaign that got an error acquires nothing", 6000, || {
        time::eager_for(Duration::ZERO);
        let store = FaultyStore::new(Faults::Forbidden);
        let elector = elector(&store);
        time::sleep(Duration::from_secs(11));
        // The elector polls and is refused. After eleven seconds, it treats the refusal as lasting.
        let refusals = store.ill_fated();
        refusals.recv().expect("a refusal");
        let refused = elector.block_until_leader();
        assert!(matches!(refused, Err(Error::Store(_))), "{refused:?}");
        store.nobody_asks(true);
        store.set_faults(Faults::Fair);
        time::sleep(Duration::from_secs(20));
        store.nobody_asks(false);
        let guard = lead(&elector, &store);
        drop(guard);
        end(elector, &store);
    });
}

/// The elector must not take the end of the first round for the end of the second.
#[test]
fn a_round_gets_its_own_answer() {
    explore("a round gets its own answer", 6000, || {
        time::eager_for(Duration::ZERO);
        let store = FaultyStore::new(Faults::Forbidden);
        let elector = elector(&store);
        time::sleep(Duration::from_secs(11));
        let refusals = store.ill_fated();
        refusals.recv().expect("a refusal");
        let refused = elector.try_acquire();
        assert!(matches!(refused, Err(Error::Store(_))), "{refused:?}");
        store.set_faults(Faults::Fair);
        let guard = elector.try_acquire().expect("nothing is forbidden").expect("nobody leads");
        store.attend(guard.leadership());
        check_that_nothing_stale_ended(&guard);
        drop(guard);
        end(elector, &store);
    });
}
