//! Other hands on the lease, and on the token.

use leasehold::StopReason;
use leasehold::kubernetes::{Client, Kubeconfig};
use leasehold::testing::{ApiServer, Resource, User};

use crate::faults::place::{Place, lost, server};
use crate::support::cluster::NAMESPACE;
use crate::support::wait_until;

#[test]
fn a_lease_that_was_deleted_and_made_anew_ends_the_term() {
    let server = server();
    let place = Place::new(&server, "anew");
    let elector = place.start(place.long("me"));
    let guard = place.lead(&elector, "anew");
    // As one from a backup, with our own record in it, as if nothing had happened.
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
    let kubeconfig = Kubeconfig::from_text(&kubeconfig, dir.path()).expect("a kubeconfig");
    let client = Client::new(kubeconfig.client_config(None).expect("a configuration")).expect("a client");

    let place = Place::new(&server, "rotated");
    let elector = place.long("me").start_with_client(client).expect("an elector");
    let guard = place.lead(&elector, "rotated");
    for round in 0..5 {
        let new = format!("token-{round}");
        // Half of the time the server is first, and the client holds nothing that it takes.
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
