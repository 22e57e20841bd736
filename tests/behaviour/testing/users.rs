//! Authentication, authorization, TLS and kubeconfigs of the in-memory server.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use leasehold_testing::{ApiServer, Resource, User, Verb};
use serde_json::json;

use crate::testing::support::*;

fn server() -> ApiServer {
    ApiServer::builder()
        .user(User::admin())
        .user(User::candidate())
        .user(User::no_watch())
        .user(User::nobody())
        .start()
        .unwrap()
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

fn get_as(server: &ApiServer, path: &str, headers: &str) -> Reply {
    call_with(server, "GET", path, headers, None)
}

#[test]
fn with_users_credentials_are_needed_but_for_health() {
    let open = ApiServer::start().unwrap();
    assert_eq!((get(&open, LEASES).code, get_as(&open, LEASES, &bearer("whatever")).code), (200, 200));
    let server = server();
    assert_eq!((get(&server, "/readyz").code, get(&server, "/version").code), (200, 200));
    get(&server, LEASES).assert_status(401, "Unauthorized");
    for headers in [
        bearer("wrong"),
        "authorization: Basic !!!\r\n".to_owned(),
        "authorization: nonsense\r\n".to_owned(),
        "authorization: \u{ff}\r\n".to_owned(),
    ] {
        get_as(&server, LEASES, &headers).assert_status(401, "Unauthorized");
    }
    assert_eq!(get_as(&server, LEASES, &bearer("admin-token")).code, 200);
    let basic = BASE64_STANDARD.encode("admin:admin-token");
    let basic = format!("authorization: Basic {basic}\r\n");
    assert_eq!(get_as(&server, LEASES, &basic).code, 200);
}

#[test]
fn denial_has_the_real_servers_words() {
    let server = server();
    let nobody = bearer("nobody-token");
    let body = get_as(&server, X, &nobody).assert_status(403, "Forbidden");
    assert_eq!(
        body["message"],
        "leases.coordination.k8s.io \"x\" is forbidden: User \"nobody\" cannot get resource \
         \"leases\" in API group \"coordination.k8s.io\" in the namespace \"default\""
    );
    assert_eq!(body["details"], json!({"name": "x", "group": "coordination.k8s.io", "kind": "leases"}));
    let body = get_as(&server, "/api/v1/configmaps", &nobody).assert_status(403, "Forbidden");
    assert_eq!(
        body["message"],
        "configmaps is forbidden: User \"nobody\" cannot list resource \"configmaps\" in API \
         group \"\" at the cluster scope"
    );
}

#[test]
fn presets_have_their_documented_rights() {
    let server = server();
    let code = |token: &str, method: &str, path: &str| {
        let body = (method != "GET").then(|| lease(json!({})));
        call_with(&server, method, path, &bearer(token), body.as_ref()).code
    };
    let watch = format!("{LEASES}?watch=true&timeoutSeconds=1&fieldSelector=metadata.name=x");
    assert_eq!(code("candidate-token", "POST", LEASES), 201);
    assert_eq!(code("candidate-token", "GET", X), 200);
    assert_eq!(code("candidate-token", "PUT", X), 422);
    assert_eq!(code("candidate-token", "DELETE", X), 403);
    assert_eq!(code("candidate-token", "GET", LEASES), 403);
    assert_eq!(code("candidate-token", "GET", CONFIG_MAPS), 403);
    assert_eq!(code("no-watch-token", "GET", X), 200);
    let denied = get_as(&server, &watch, &bearer("no-watch-token"));
    let body = denied.assert_status(403, "Forbidden");
    let message = body["message"].as_str().unwrap();
    assert!(message.contains("\"x\" is forbidden: User \"no-watch\" cannot watch"));
    assert_eq!(code("admin-token", "DELETE", X), 200);
}

#[test]
fn tokens_and_rights_change_while_it_runs() {
    let server = server();
    server.set_token("admin", "second");
    get_as(&server, LEASES, &bearer("admin-token")).assert_status(401, "Unauthorized");
    assert_eq!(get_as(&server, LEASES, &bearer("second")).code, 200);
    server.set_user(User::nobody().grant(Verb::List, Resource::Leases));
    assert_eq!(get_as(&server, LEASES, &bearer("nobody-token")).code, 200);
}

#[test]
fn the_all_powerful_may_impersonate() {
    let server = server();
    let as_nobody = "impersonate-user: nobody\r\n";
    let headers = bearer("admin-token") + as_nobody;
    let body = get_as(&server, X, &headers).assert_status(403, "Forbidden");
    assert!(body["message"].as_str().unwrap().contains("User \"nobody\""));
    let stranger = bearer("admin-token") + "impersonate-user: stranger\r\n";
    get_as(&server, X, &stranger).assert_status(403, "Forbidden");
    let body = get_as(&server, X, &(bearer("candidate-token") + as_nobody)).assert_status(403, "Forbidden");
    assert!(body["message"].as_str().unwrap().contains("cannot impersonate"));
    let users = server.requests();
    assert_eq!(users[0].user.as_deref(), Some("nobody"));
    assert_eq!(users[1].user.as_deref(), Some("stranger"));
}

#[test]
fn a_kubeconfig_leads_to_the_server() {
    let server = ApiServer::builder().tls(true).user(User::new("we \"quote\"", "t:0 #ken")).start().unwrap();
    let text = server.kubeconfig("we \"quote\"");
    assert!(text.contains(&format!("    server: \"{}\"\n", server.url())));
    assert!(text.contains("    token: \"t:0 #ken\"\n"));
    assert!(text.contains("- name: \"we \\\"quote\\\"\"\n"));
    assert!(text.contains("    namespace: default\n"));
    let ca = BASE64_STANDARD.encode(server.ca_pem().unwrap());
    assert!(text.contains(&format!("    certificate-authority-data: {ca}\n")));
    let text = server.kubeconfig_with_certificate("we \"quote\"");
    assert!(text.contains("    client-key-data: ") && !text.contains("token"));

    // Other processes may read the file while the server writes it again.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("kubeconfig");
    let write = || server.write_kubeconfig(&path, "we \"quote\"").unwrap();
    write();
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (0..500).for_each(|_| write()));
        while !writer.is_finished() {
            assert_eq!(std::fs::read_to_string(&path).unwrap(), server.kubeconfig("we \"quote\""));
        }
    });
    let plain = ApiServer::start().unwrap();
    assert!(plain.kubeconfig("me").contains("  user: {}\n"));
    assert_eq!(plain.ca_pem(), None);
}

#[test]
#[should_panic(expected = "unknown user \"ghost\"")]
fn a_kubeconfig_for_a_stranger_is_a_mistake() {
    server().kubeconfig("ghost");
}
