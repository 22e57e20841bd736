//! Faults while a candidate leads.

use std::time::{Duration, Instant};

use leasehold::kubernetes::Client;
use leasehold::{StopReason, Transition};
use leasehold_testing::{ApiServer, Resource, User, Verb};
use serde_json::Value;

use crate::faults::kinds::{
    APPLIED, LIES, NOT_AN_API_SERVER, NOT_THE_LEASE, PAUSES, REFUSALS, REFUTED, SILENCE, STALE, each,
};
use crate::faults::place::{Place, server};
use crate::support::client_config::config_in;
use crate::support::cluster::NAMESPACE;
use crate::support::{SOON, lost, wait_until};

#[test]
fn one_bad_answer_does_not_cost_the_term() {
    let server = server();
    each(&[SILENCE, APPLIED, REFUSALS, PAUSES, REFUTED, NOT_AN_API_SERVER, NOT_THE_LEASE, STALE], |(name, fault)| {
        let place = Place::new(&server, name);
        // A hanging request costs half of the remaining term. A requested pause costs half of the rest.
        let elector = place.start(place.builder("me", 24, 16));
        let guard = place.lead(&elector, name);
        let transitions = elector.transitions();
        let fault = place.fault(Verb::Update, fault(&place.get().expect("a lease")).first(1));
        assert!(fault.wait_for_hits(1, SOON), "{name}: no renewal");
        place.wait_for_renewals(3, &format!("{name}: not renewed"));
        place.assert_shown(&elector, &guard, name);
        assert!(guard.is_leader(), "{name}: {:?}", guard.check());
        assert!(!transitions.try_iter().any(|it| matches!(it, Transition::StoppedLeading { .. })), "{name}");
    });
}

/// If a fault lasts beyond the renew deadline, the term ends before another term begins.
///
/// The rule holds even if every write was applied, because these leaders have no watch.
#[test]
fn lasting_bad_weather_ends_the_term_before_another_begins() {
    let rival = [Verb::Get, Verb::Create, Verb::Update]
        .into_iter()
        .fold(User::new("rival", "rival-token"), |user, verb| user.grant(verb, Resource::Leases));
    let server = ApiServer::builder().user(User::no_watch()).user(rival).start().expect("an in-memory server");
    each(&[SILENCE, APPLIED, REFUSALS, NOT_AN_API_SERVER, NOT_THE_LEASE, STALE, LIES], |(name, fault)| {
        let place = Place::new(&server, name);
        let elector = place.start_as("no-watch", place.short("me"));
        let rival = place.start_as("rival", place.short("rival"));
        let transitions = elector.transitions();
        let guard = place.lead(&elector, name);
        let campaign = rival.campaign().expect("a campaign");
        let fault = place.fault(Verb::Update, fault(&place.get().expect("a lease")).user("no-watch"));

        let won = campaign.receiver().recv_timeout(SOON).unwrap_or_else(|_| panic!("{name}: no other leader"));
        let rivals = won.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(!guard.is_leader() || !rivals.is_leader(), "{name}: two lead");
        assert!(rivals.fencing_token() > guard.fencing_token(), "{name}");
        lost(&guard, name);

        fault.remove();
        drop(guard);
        let token = rivals.fencing_token();
        drop(rivals);
        assert!(place.lead(&elector, name).fencing_token() > token, "{name}");
        // Each start of a term has exactly one end, and starts and ends alternate.
        drop(elector);
        let mut leading = false;
        for transition in transitions.iter() {
            match transition {
                Transition::StartedLeading { .. } => assert!(!std::mem::replace(&mut leading, true), "{name}"),
                Transition::StoppedLeading { .. } => assert!(std::mem::take(&mut leading), "{name}"),
                _ => {}
            }
        }
        assert!(!leading, "{name}: a term without an end");
    });
}

/// A GET or the watch shows the leader that the store contains the renewal.
#[test]
fn a_term_goes_on_though_no_renewal_is_confirmed() {
    let server = server();
    each(&[REFUTED, APPLIED], |(name, fault)| {
        let place = Place::new(&server, name);
        let elector = place.start(place.builder("me", 24, 6));
        let guard = place.lead(&elector, name);
        let _fault = place.fault(Verb::Update, fault(&Value::Null));
        // Without the reads, the term would end within this time.
        let until = Instant::now() + Duration::from_secs(7);
        wait_until(name, || Instant::now() > until || !guard.is_leader());
        assert!(guard.is_leader(), "{name}: {:?}", guard.check());
        place.assert_shown(&elector, &guard, name);
    });
}

#[test]
fn a_restarted_server_costs_a_short_term_and_no_long_one() {
    let server = server();
    let (patient, hasty) = (Place::new(&server, "long"), Place::new(&server, "short"));
    let patients = patient.start(patient.long("me"));
    let hastys = hasty.start(hasty.short("me"));
    let (long, short) = (patient.lead(&patients, "long"), hasty.lead(&hastys, "short"));
    server.stop();
    assert_eq!(lost(&short, "short"), StopReason::Expired);
    server.restart().expect("the port is still ours");
    patient.wait_for_renewals(2, "renewed after the restart");
    assert!(long.is_leader(), "{:?}", long.check());
    let token = short.fencing_token();
    drop(short);
    assert!(hasty.lead(&hastys, "short").fencing_token() > token);
}

#[test]
fn deleted_and_recreated_lease_ends_the_term() {
    let server = server();
    let place = Place::new(&server, "anew");
    let elector = place.start(place.long("me"));
    let guard = place.lead(&elector, "anew");
    // The new lease contains the leader's own record, as after a restore from a backup.
    let spec = place.get().expect("a lease")["spec"].clone();
    server.delete(Resource::Leases, NAMESPACE, &place.lease).expect("a lease to delete");
    place.put(spec);
    let reason = lost(&guard, "anew");
    assert_ne!(reason, StopReason::Expired, "it was lost for what stands in the store");
}

#[test]
fn rotated_tokens_do_not_cost_the_term() {
    let server = ApiServer::builder().tls(true).user(User::candidate()).start().expect("an in-memory server");
    let dir = tempfile::tempdir().expect("a scratch directory");
    let token = dir.path().join("token");
    let write = |text: &str| std::fs::write(&token, text).expect("a token file");
    write("candidate-token");
    let kubeconfig = server.kubeconfig("candidate").replace("token: \"candidate-token\"", "tokenFile: token");
    assert!(kubeconfig.contains("tokenFile"), "{kubeconfig}");
    let config = config_in(&kubeconfig, dir.path()).expect("a configuration");
    let client = Client::new(config).expect("a client");

    let place = Place::new(&server, "rotated");
    let elector = place.long("me").start_with_client(client).expect("an elector");
    let guard = place.lead(&elector, "rotated");
    for round in 0..5 {
        let new = format!("token-{round}");
        // In every second round, the server changes its token first, so the client has no valid token.
        if round % 2 == 0 {
            write(&format!("{new}\n"));
            server.set_token("candidate", &new);
        } else {
            server.clear_requests();
            server.set_token("candidate", &new);
            wait_until("it is refused", || server.requests().iter().any(|request| request.status == Some(401)));
            write(&new);
        }
        place.wait_for_renewals(2, "renewed with the new token");
    }
    assert!(guard.is_leader(), "{:?}", guard.check());
    guard.release().expect("released");
}
