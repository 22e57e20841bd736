//! Faults while a candidate campaigns.

use leasehold::Error;
use leasehold_testing::{Fault, Verb};
use serde_json::Value;

use crate::faults::kinds::{
    APPLIED, Case, HTML, LIES, NOT_AN_API_SERVER, NOT_THE_LEASE, REFUSALS, REFUTED, SILENCE, STALE, each, redirect,
};
use crate::faults::place::{Place, free, server, some_lease};
use crate::support::wait_until;

#[test]
fn a_campaign_survives_bad_answers() {
    for verb in [Verb::Get, Verb::Create, Verb::Update] {
        let server = server();
        let tables = [SILENCE, APPLIED, REFUSALS, REFUTED, NOT_AN_API_SERVER, NOT_THE_LEASE, STALE, LIES];
        each(&tables, |(name, fault)| {
            let what = format!("{verb}: {name}");
            let place = Place::new(&server, name);
            let object = match verb {
                Verb::Update => place.put(free()),
                _ => some_lease(&place.lease),
            };
            let fault = place.fault(verb, fault(&object));
            let elector = place.start(place.builder("me", 8, 6));

            // Waits until the request was sent again, or until the campaign was answered.
            let campaign = elector.campaign().expect("a campaign");
            wait_until(&format!("{what}: not tried again"), || fault.hits() >= 2 || !campaign.receiver().is_empty());
            match campaign.receiver().try_recv() {
                Ok(Ok(guard)) => place.assert_shown(&elector, &guard, &what),
                Ok(Err(Error::Store(_))) | Err(_) => {}
                Ok(Err(error)) => panic!("{what}: {error}"),
            }
            drop(campaign);
            fault.remove();

            let guard = place.lead(&elector, &what);
            place.wait_for_renewals(2, &format!("{what}: not renewed"));
            guard.release().unwrap_or_else(|error| panic!("{what}: {error}"));
            assert_eq!(place.holder(), None, "{what}");
        });
    }
}

/// A permanent error ends a campaign with a message that names the remedy.
#[test]
fn permanent_error_reaches_the_caller() {
    let server = server();
    const PERMANENT: &[Case] = &[
        ("403: grant the verb `get`", |_| {
            Fault::status(
                403,
                "Forbidden",
                "leases is forbidden: User \"a\" cannot get resource \"leases\" in API group \"x\"",
            )
        }),
        ("being terminated)", |_| {
            Fault::status(403, "Forbidden", "unable to create new content: it is being terminated")
        }),
        ("401: credentials", |_| Fault::status(401, "Unauthorized", "made up")),
        ("404: namespace", |_| Fault::replace_bytes(404, "text/html", HTML)),
        ("302: redirects are not followed", |_| redirect(302, "http://127.0.0.1:1/")),
    ];
    each(&[PERMANENT], |(name, fault)| {
        let place = Place::new(&server, name);
        let _fault = place.fault(Verb::Get, fault(&Value::Null));
        let elector = place.start(place.short("me"));
        let error = elector.block_until_leader().expect_err(name);
        assert!(matches!(&error, Error::Store(error) if !error.is_transient()), "{name}: {error:?}");
        for word in name.split(": ") {
            assert!(error.to_string().contains(word), "{name}: {error}");
        }
        assert_eq!(error.to_string().contains("grant"), name.contains("grant"), "{name}: {error}");
        assert_eq!(error.to_string().lines().count(), 1, "{name}: {error}");
        assert!(error.to_string().matches("the credentials").count() <= 1, "{name}: said once: {error}");
    });
}
