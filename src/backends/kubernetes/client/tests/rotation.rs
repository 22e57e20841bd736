//! Certificates in files that change while the client is in use.

use std::thread;

use crossbeam_channel::Sender;
use rustls::SupportedProtocolVersion;
use rustls::version::{TLS12, TLS13};

use super::certificates::kind;
use super::server::{Connection, Script, Server, ok, script, serve_with};
use super::{LONG, put, within};
use crate::backends::kubernetes::client::{Client, ClientConfig, ErrorKind, Method, Request};
use crate::net::calls::CallError;
use crate::net::tests::certificates::{Authority, Files, Leaf, authority, server_config, server_config_with};
use crate::net::tls::config::TlsConfig;

impl Files {
    fn config(&self, server: &Server) -> ClientConfig {
        let path = |name: &str| self.scratch.path().join(name);
        let url = format!("https://127.0.0.1:{}", server.port);
        let mut tls = TlsConfig::new().with_ca_file(path("ca.crt")).unwrap();
        if path("tls.crt").exists() {
            tls = tls.with_client_certificate_files(path("tls.crt"), path("tls.key")).unwrap();
        }
        let mut config = ClientConfig::new(&url).unwrap().with_tls(tls);
        config.tls.clock = self.clock();
        config
    }
}

/// Returns a script that answers 200 to clients with one of these certificates.
///
/// Other clients get a 401.
fn knows(welcome: &[&Leaf]) -> Script {
    let welcome: Vec<_> = welcome.iter().map(|leaf| leaf.der.to_vec()).collect();
    script(move |connection: &mut Connection| {
        while connection.request().is_some() {
            match connection.certificate().is_some_and(|shown| welcome.contains(&shown)) {
                true => connection.answer("200 OK", "{}"),
                false => connection.answer("401 Unauthorized", "{}"),
            }
        }
    })
}

/// Returns a script that answers with the index of the client's certificate in `which`.
fn tells(which: &[&Leaf]) -> Script {
    let which: Vec<_> = which.iter().map(|leaf| leaf.der.to_vec()).collect();
    script(move |connection: &mut Connection| {
        while connection.request().is_some() {
            let shown = connection.certificate();
            let number = which.iter().position(|certificate| Some(certificate) == shown.as_ref());
            connection.answer("200 OK", &format!("{number:?}"));
        }
    })
}

/// Returns a client with this certificate in files, and a server that requests a certificate.
fn identified(files: &Files, ours: &Authority, leaf: &Leaf, scripts: Vec<Script>) -> (Server, Client) {
    let server = serve_with(Some(server_config(&ours.leaf("127.0.0.1"), Some(ours))), scripts);
    files.authority(ours);
    files.identity(leaf);
    let client = Client::new(files.config(&server)).unwrap();
    (server, client)
}

#[test]
fn replaced_authority_is_trusted_at_the_first_failure() {
    let (files, old, new) = (Files::new(), authority(), authority());
    let server = serve_with(Some(server_config(&new.leaf("127.0.0.1"), None)), vec![ok("{}"), ok("{}")]);
    files.authority(&old);
    let client = Client::new(files.config(&server)).unwrap();
    files.authority(&new);
    // The client repeats even a write, because the first attempt sent nothing.
    put(&client, LONG).unwrap();
    server.next();
    put(&client, LONG).unwrap();
    server.next();
    assert!(server.no_more());
}

#[test]
fn an_authority_that_was_not_replaced_is_tried_once() {
    let (files, old, new) = (Files::new(), authority(), authority());
    // The server accepts only one connection.
    let server = serve_with(Some(server_config(&new.leaf("127.0.0.1"), None)), vec![ok("{}")]);
    files.authority(&old);
    assert_eq!(kind(files.config(&server)), Some(ErrorKind::TlsVerification));
    assert!(server.no_more());
}

#[test]
fn an_identity_that_the_server_rejects_is_read_again_at_once() {
    let (files, ours) = (Files::new(), authority());
    let (old, new) = (ours.leaf("jane"), ours.leaf("jane"));
    let (server, client) = identified(&files, &ours, &old, vec![knows(&[&new]), knows(&[&new])]);
    files.identity(&new);
    put(&client, LONG).unwrap();
    put(&client, LONG).unwrap();
    let requests: Vec<_> = (0..3).map(|_| server.next()).collect();
    assert_eq!(requests[0], requests[1], "once with the old certificate, once with the new one");
    assert!(server.no_more());
}

#[test]
fn an_identity_that_was_not_replaced_is_rejected_once() {
    let (files, ours) = (Files::new(), authority());
    let (server, client) = identified(&files, &ours, &ours.leaf("jane"), vec![knows(&[]), knows(&[])]);
    let error = put(&client, LONG).unwrap_err();
    assert_eq!(error.status().map(|status| status.code), Some(401));
    server.next();
    assert!(server.no_more());
}

/// Returns a server that ends the TLS session of a client with the old certificate.
///
/// The authority of the old certificate is not the server's authority for clients.
fn refuses_the_session(version: &'static SupportedProtocolVersion) -> (Files, Server, Client, Sender<()>) {
    let (files, ours, strangers) = (Files::new(), authority(), authority());
    let tls = server_config_with(&ours.leaf("127.0.0.1"), Some(&ours), &[version]);
    let (end, ended) = crossbeam_channel::bounded::<()>(0);
    let first = script(move |connection| {
        connection.request();
        // Keeps the connection open. After an immediate close, a TCP reset may arrive before the client reads the TLS
        // alert.
        let _ = ended.recv();
    });
    let server = serve_with(Some(tls), vec![first, ok("{}"), ok("{}")]);
    files.authority(&ours);
    files.identity(&strangers.leaf("jane"));
    let client = Client::new(files.config(&server)).unwrap();
    files.identity(&ours.leaf("jane"));
    (files, server, client, end)
}

#[test]
fn identity_refused_before_a_send_is_replaced_and_retried() {
    let (_files, server, client, _end) = refuses_the_session(&TLS12);
    put(&client, LONG).unwrap();
    server.next();
    assert!(server.no_more());
}

#[test]
fn identity_refused_after_a_send_is_replaced_without_repeat() {
    // With TLS 1.3, the server rejects the certificate after the client has started to send.
    let (_files, server, client, _end) = refuses_the_session(&TLS13);
    let error = put(&client, LONG).unwrap_err();
    assert!(error.kind() == &ErrorKind::Tls && error.maybe_sent(), "{error:?}");
    assert!(server.no_more());
    put(&client, LONG).unwrap();
}

#[test]
fn replaced_identity_is_used_after_a_minute_and_watches_go_on() {
    let (files, ours) = (Files::new(), authority());
    let (old, new) = (ours.leaf("jane"), ours.leaf("jane"));
    let (go, told) = crossbeam_channel::bounded::<()>(0);
    let watch = script(move |connection| {
        connection.request();
        connection.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        told.recv().unwrap();
        connection.send("9\r\n{\"late\":1\r\n2\r\n}\n\r\n");
        connection.hang();
    });
    let (_server, client) = identified(&files, &ours, &old, vec![watch, tells(&[&old, &new]), tells(&[&old, &new])]);
    let request = Request { method: Method::Get, path: "/watch", query: &[], body: None };
    let mut stream = client.stream(request, LONG, &within(LONG)).unwrap();
    let shown = || String::from_utf8(put(&client, LONG).unwrap().body).unwrap();
    assert_eq!(shown(), "Some(0)");
    files.identity(&new);
    files.wait(59);
    assert_eq!(shown(), "Some(0)");
    files.wait(1);
    assert_eq!(shown(), "Some(1)");
    go.send(()).unwrap();
    assert_eq!(stream.next_line().unwrap().unwrap(), b"{\"late\":1}");
}

#[test]
fn files_that_stay_as_they_are_keep_the_connection() {
    let (files, ours) = (Files::new(), authority());
    let jane = ours.leaf("jane");
    // The server accepts only one connection.
    let (_server, client) = identified(&files, &ours, &jane, vec![knows(&[&jane])]);
    for _ in 0..4 {
        put(&client, LONG).unwrap();
        files.wait(60);
        files.identity(&jane);
    }
}

#[test]
fn a_rotation_is_counted_once_and_so_is_one_that_cannot_be_used() {
    let (files, ours) = (Files::new(), authority());
    let (_server, client) = identified(&files, &ours, &ours.leaf("jane"), vec![ok("{}"), ok("{}"), ok("{}")]);
    let counted = || {
        // Each request reads the files, because the last read is too old.
        for _ in 0..2 {
            files.wait(60);
            put(&client, LONG).unwrap();
        }
        (client.counters().certificate_reloads, client.counters().certificate_reload_failures)
    };
    assert_eq!(counted(), (0, 0));
    files.identity(&ours.leaf("jane"));
    assert_eq!(counted(), (1, 0));
    files.scratch.file("ca.crt", "-----BEGIN CERTIFICATE-----\n");
    assert_eq!(counted(), (1, 1));
    files.scratch.file("ca.crt", format!("{}{}", ours.pem, authority().pem));
    assert_eq!(counted(), (2, 1));
}

#[test]
fn a_rotation_that_server_and_proxy_share_is_counted_once() {
    let files = Files::new();
    for url in ["https://127.0.0.1:1", "http://127.0.0.1:1"] {
        files.authority(&authority());
        let tls = TlsConfig::new().with_ca_file(files.scratch.path().join("ca.crt")).unwrap();
        let mut config = ClientConfig::new(url).unwrap().with_tls(tls);
        config.tls.clock = files.clock();
        // No server listens at this address. The client reads the files before it connects.
        let client = Client::new(config.with_proxy("https://127.0.0.1:1").unwrap()).unwrap();
        files.authority(&authority());
        files.wait(60);
        put(&client, LONG).unwrap_err();
        assert_eq!(client.counters().certificate_reloads, 1, "{url}");
    }
}

#[test]
fn requests_of_many_threads_meet_a_rotation() {
    let (files, ours) = (Files::new(), authority());
    let (old, new) = (ours.leaf("jane"), ours.leaf("jane"));
    let (_server, client) = identified(&files, &ours, &old, (0..16).map(|_| knows(&[&new])).collect());
    files.identity(&new);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| put(&client, LONG).unwrap());
        }
    });
}
