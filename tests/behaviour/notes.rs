//! Addresses, requests to step down and the order of candidates, on every store.

use std::thread;
use std::time::{Duration, Instant};

use leasehold::crossbeam_channel::RecvTimeoutError;
use leasehold::store::{RecordNotes, RequestAcceptance, Store, StoreErrorKind, StoreOperation, TermNotes};
use leasehold::{Error, LeaderElector, StopReason, Transition, Transitions};

use crate::places::{Place, on_every_store};
use crate::support::cluster::brief;
use crate::support::etcd::Etcd;
use crate::support::memory::{Connection, Memory};
use crate::support::stores::call;
use crate::support::{A_WHILE, SOON, lost, wait_for, wait_until};

impl Place<'_> {
    fn notes(&self) -> RecordNotes {
        *(self.open)().get(self.key, &call()).expect("an answer").expect("a record").notes
    }

    /// Edits the notes like an operator. Repeats the edit after a conflict.
    fn edit(&self, change: impl Fn(&mut RecordNotes)) {
        let store = (self.open)();
        loop {
            let base = store.get(self.key, &call()).expect("an answer").expect("a record");
            let mut notes = base.notes.clone();
            change(&mut notes);
            match store.update(self.key, &base, base.record.with_notes(&notes), &call()) {
                Ok(_) => return,
                Err(error) if matches!(error.kind(), StoreErrorKind::Conflict | StoreErrorKind::NotApplied) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn request(&self, identity: &str) {
        self.edit(|notes| notes.step_down = Some(identity.to_owned()));
    }
}

on_every_store!("notes_", { leases Lease, config_maps ConfigMap, endpoints Endpoints }, [
    standby_receives_the_address_of_each_leader,
    notes_of_the_record_outlast_every_write,
    request_moves_the_leader_to_a_standby,
    requested_candidate_alone_leads_again_later,
    request_without_acceptance_costs_no_term,
    useless_requests_cost_no_term,
    free_lease_goes_to_the_candidate_without_delay,
]);

/// Returns the next leader with its address.
fn next_leader(transitions: &Transitions) -> (String, Option<String>) {
    loop {
        let transition = transitions.recv_timeout(SOON).expect("a transition");
        if let Transition::NewLeader { identity, address } = transition {
            return (identity, address);
        }
    }
}

fn is_leader(identity: &str, address: Option<&str>) -> (String, Option<String>) {
    (identity.to_owned(), address.map(str::to_owned))
}

fn standby_receives_the_address_of_each_leader(place: &Place<'_>) {
    let a = place.start(place.builder("a").advertise("10.0.3.7:9000"));
    let b = place.elector("b");
    let guard = a.block_until_leader().expect("a term");
    let transitions = b.transitions();
    assert_eq!(next_leader(&transitions), is_leader("a", Some("10.0.3.7:9000")));
    assert_eq!(b.status().leader_address.as_deref(), Some("10.0.3.7:9000"));
    assert_eq!(a.status().leader_address.as_deref(), Some("10.0.3.7:9000"));
    // The next renewal restores an address that another client removed.
    place.edit(|notes| notes.term.address = None);
    assert_eq!(next_leader(&transitions), is_leader("a", None));
    assert_eq!(next_leader(&transitions), is_leader("a", Some("10.0.3.7:9000")));
    assert!(guard.is_leader());
    let campaign = b.campaign().expect("a campaign");
    drop(guard);
    let guard = campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term");
    assert_eq!(next_leader(&transitions), is_leader("b", None));
    assert_eq!(place.notes().term.address, None);
    assert_eq!(b.status().leader_address, None);
    drop(guard);
}

fn notes_of_the_record_outlast_every_write(place: &Place<'_>) {
    let a = place.start(place.builder("a").accept_requests(true));
    let guard = a.block_until_leader().expect("a term");
    assert_eq!(place.notes().term.accepts_requests, Some(RequestAcceptance::After(Duration::ZERO)));
    place.edit(|notes| {
        let job = notes.job.get_or_insert_default();
        job.attempts = Some(3);
        job.last_success_host = Some("host-1".to_owned());
    });
    let kept = place.notes().job;
    let renewals = || a.status().counters.requests(StoreOperation::Update);
    let before = renewals();
    wait_until("two renewals", || renewals() >= before + 2);
    assert_eq!(place.notes().job, kept);
    drop(guard);
    let released = place.notes();
    assert_eq!((released.job, released.term), (kept.clone(), TermNotes::default()));
    let b = place.elector("b");
    let guard = b.block_until_leader().expect("a term");
    let taken = place.notes();
    assert_eq!((taken.job, taken.term.accepts_requests), (kept, Some(RequestAcceptance::Never)));
    drop(guard);
}

fn request_moves_the_leader_to_a_standby(place: &Place<'_>) {
    let (a, b) = (place.start(place.builder("a").accept_requests(true)), place.elector("b"));
    let guard = a.block_until_leader().expect("a term");
    let campaign = b.campaign().expect("a campaign");
    place.request("a");
    assert_eq!(lost(&guard, "a step-down was requested"), StopReason::Requested);
    // The lease is renewed while the guard exists.
    assert_eq!(campaign.receiver().recv_timeout(A_WHILE).err(), Some(RecvTimeoutError::Timeout));
    assert!(matches!(a.try_acquire(), Err(Error::Busy)));
    drop(guard);
    let guard = campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term");
    assert_eq!(place.notes().step_down, None, "the acquisition removes the request");
    wait_until("the former leader is fit", || a.status().is_fit);
    assert_eq!(a.status().counters.terms_lost, 0);
    let campaign = a.campaign().expect("a campaign");
    drop(guard);
    let guard = campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term");
    assert!(guard.is_leader());
}

fn requested_candidate_alone_leads_again_later(place: &Place<'_>) {
    let a = place.start(place.builder("a").accept_requests(true));
    let guard = a.block_until_leader().expect("a term");
    let began = Instant::now();
    place.request("a");
    assert_eq!(lost(&guard, "a step-down was requested"), StopReason::Requested);
    drop(guard);
    assert!(matches!(a.try_acquire(), Err(Error::Unfit)));
    let guard = a.block_until_leader().expect("another term");
    let waited = began.elapsed();
    assert!(waited >= Duration::from_secs(4), "{waited:?} is less than a lease duration");
    thread::sleep(A_WHILE);
    assert!(guard.is_leader(), "the request counts once");
}

fn request_without_acceptance_costs_no_term(place: &Place<'_>) {
    let a = place.elector("a");
    let guard = a.block_until_leader().expect("a term");
    place.request("a");
    thread::sleep(Duration::from_secs(1));
    assert!(guard.is_leader(), "{:?}", guard.check());
    assert_eq!(place.notes().step_down.as_deref(), Some("a"), "renewals keep the request");
}

fn useless_requests_cost_no_term(place: &Place<'_>) {
    let a = place.start(place.builder("a").accept_requests(true));
    let guard = a.block_until_leader().expect("a term");
    for identity in ["b", "", "a ", "A", "a\u{0}", "\u{1b}[2J\u{202e}", &"a".repeat(1_025), &"ä".repeat(20_000)] {
        place.request(identity);
    }
    // The edits are frequent enough to conflict with most renewals.
    let writes = || a.status().counters.requests(StoreOperation::Update);
    let (began, before, mut number) = (Instant::now(), writes(), 0);
    while began.elapsed() < Duration::from_secs(5) {
        number += 1;
        place.request(&format!("other-{number}"));
        thread::sleep(Duration::from_millis(10));
    }
    let (writes, intervals) = (writes() - before, began.elapsed().as_millis() as u64 / 250);
    assert!(writes <= 2 * intervals + 2, "{writes} writes in {intervals} renewal intervals with {number} edits");
    assert!(guard.is_leader(), "{:?}", guard.check());
}

fn free_lease_goes_to_the_candidate_without_delay(place: &Place<'_>) {
    let late = place.start(place.builder("late").hold_back(Duration::from_secs(2)));
    let early = place.elector("early");
    for _ in 0..3 {
        let began = Instant::now();
        let guard = late.block_until_leader().expect("a term");
        let waited = began.elapsed();
        let campaign = early.campaign().expect("a campaign");
        let again = late.transitions();
        drop(guard);
        // The former leader campaigns again at once, and is held back.
        let late_campaign = late.campaign().expect("a campaign");
        let guard = campaign.receiver().recv_timeout(SOON).expect("an answer").expect("a term");
        assert_eq!(late_campaign.receiver().try_recv().ok().map(|_| ()), None);
        let leader = wait_for("the next leader", || Some(next_leader(&again)).filter(|(leader, _)| leader == "early"));
        assert_eq!(leader.0, "early");
        drop((late_campaign, guard));
        wait_until("a release", || early.current_leader().is_none());
        assert!(waited < SOON, "{waited:?}");
    }
}

#[test]
fn store_without_notes_refuses_addresses_and_requests() {
    let builder = || LeaderElector::builder("jobs").identity("pod-7_0123");
    for (builder, field, remedy) in [
        (builder().advertise("host:1"), "advertise", "identity(\"pod-7@host:1\")"),
        (builder().accept_requests(true), "accept_requests", "must be false with"),
    ] {
        let Err(Error::Config(error)) = builder.start_on(Connection::new(&Memory::default())) else {
            panic!("{field} is refused")
        };
        assert_eq!(error.field(), field);
        assert!(error.to_string().contains(remedy), "{error}");
    }
}

/// A value of another client may be longer than a record, or valid JSON that this crate cannot represent.
#[test]
fn unreadable_notes_in_etcd_cost_no_term() {
    let Some(etcd) = Etcd::shared() else { return };
    // On a busy machine, a debug build needs seconds for the long values.
    let builder = brief("jobs", "a").lease_duration(Duration::from_secs(60)).renew_deadline(Duration::from_secs(40));
    let elector = builder.accept_requests(true).start_on(etcd.store("unreadable_notes/")).expect("an elector");
    let guard = elector.block_until_leader().expect("a term");
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for junk in [format!("\"{}\"", "x".repeat(400_000)), deep, r#""\ud800""#.to_owned(), "1e999".to_owned()] {
        for field in ["note", "stepDown"] {
            etcd.edit("unreadable_notes/jobs", |value| {
                let (before, note) = value.split_once("\"note\":").expect("the note of the holder");
                let (_, after) = note.split_once("},").expect("more fields");
                format!("{before}{},\"{field}\":{junk}}}", after.strip_suffix('}').expect("an object"))
            });
            wait_until("a renewal", || !etcd.value("unreadable_notes/jobs").expect("a value").contains(&junk));
            assert!(guard.is_leader(), "{field} {junk:.20}: {:?}", guard.check());
        }
    }
}
