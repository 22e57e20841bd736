//! Requests through proxies of all kinds, to servers with and without TLS.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustls::ServerConfig;

use super::certificates::trusting;
use super::server::{Connection, Script, Server, script, serve, serve_with};
use super::{LONG, get, get_until, within};
use crate::backends::kubernetes::client::{Client, ClientConfig, ClientError, ErrorKind, Method, Request};
use crate::net::calls::CallError;
use crate::net::tests::certificates::{Authority, authority, server_config};
use crate::net::tls::Verification;
use crate::net::tls::config::TlsConfig;
use crate::util::cancel::CancelToken;

const KINDS: [&str; 4] = ["http", "https", "socks5", "socks5h"];

/// Answers like a proxy of this kind, until the tunnel is open.
fn let_through(connection: &mut Connection, kind: &str) {
    match kind {
        "http" | "https" => {
            connection.request();
            connection.send("HTTP/1.1 200 Connection established\r\nX: y\r\n\r\n");
        }
        _ => {
            let [_, methods] = connection.bytes(2)[..] else { return };
            match connection.bytes(methods.into())[..] {
                [0] => connection.send_bytes(&[5, 0]),
                _ => {
                    connection.send_bytes(&[5, 2]);
                    let [_, name] = connection.bytes(2)[..] else { return };
                    let name = connection.bytes(name.into());
                    let [password] = connection.bytes(1)[..] else { return };
                    let password = connection.bytes(password.into());
                    let (name, password) = (String::from_utf8_lossy(&name), String::from_utf8_lossy(&password));
                    connection.note(format!("{name} {password}"));
                    connection.send_bytes(&[1, 0]);
                }
            }
            let [.., name] = connection.bytes(5)[..] else { return };
            let name = connection.bytes(name.into());
            let [high, low] = connection.bytes(2)[..] else { return };
            connection.note(format!("{}:{}", String::from_utf8_lossy(&name), u16::from_be_bytes([high, low])));
            connection.send_bytes(&[5, 0, 0, 1, 127, 0, 0, 1, 0, 80]);
        }
    }
}

/// Returns a script that acts as a proxy, and as the server behind the proxy.
fn tunnel(kind: &'static str, server: Option<Arc<ServerConfig>>, answer: &'static str) -> Script {
    script(move |c| {
        let_through(c, kind);
        if let Some(config) = server {
            c.start_tls(config);
        }
        while c.request().is_some() {
            c.answer("200 OK", answer);
        }
    })
}

fn proxy(kind: &str, ours: &Authority, scripts: Vec<Script>) -> Server {
    match kind {
        "https" => serve_with(Some(server_config(&ours.leaf("127.0.0.1"), None)), scripts),
        _ => serve(scripts),
    }
}

fn config(scheme: &str, ours: &Authority) -> ClientConfig {
    config_with(scheme, trusting(&ours.pem))
}

fn config_with(scheme: &str, tls: TlsConfig) -> ClientConfig {
    ClientConfig::new(&format!("{scheme}://api.invalid:6443")).unwrap().with_tls(tls)
}

fn through(config: ClientConfig, kind: &str, port: u16) -> ClientConfig {
    config.with_proxy(&format!("{kind}://me:hunter2@127.0.0.1:{port}")).unwrap()
}

/// Checks that an error names the proxy and contains no password.
fn check(error: &ClientError, kind: &ErrorKind, port: u16) {
    assert_eq!(error.kind(), kind, "{error}");
    assert!(!error.maybe_sent(), "{error}");
    let shown = format!("{error} {error:?}");
    assert!(error.to_string().contains(&format!("proxy 127.0.0.1:{port}: ")), "{error}");
    assert!(!shown.contains("hunter2") && !shown.contains("aHVudGVyMg") && !shown.contains("bWU6"), "{shown}");
}

#[test]
fn every_kind_of_proxy_leads_to_servers_with_and_without_tls() {
    let ours = authority();
    // The text is longer than any buffer between client and server.
    let long: &'static str = Box::leak(format!("\"{}\"", "x".repeat(300_000)).into_boxed_str());
    let long_body = serde_json::json!({ "long": long });
    for kind in KINDS {
        for scheme in ["http", "https"] {
            let server = (scheme == "https").then(|| server_config(&ours.leaf("api.invalid"), None));
            let proxy = proxy(kind, &ours, vec![tunnel(kind, server, long)]);
            let client = Client::new(through(config(scheme, &ours), kind, proxy.port)).unwrap();
            // The proxy accepts only one connection, so these requests prove that the connection is reused.
            for i in 0..3 {
                let body = Some(&long_body);
                let request = Request { method: Method::Put, path: "/version", query: &[], body };
                let answer = client.request(request, &within(LONG));
                assert_eq!(answer.unwrap_or_else(|e| panic!("{kind} to {scheme}: {e}")).body, long.as_bytes());
                if i == 0 && kind.starts_with("http") {
                    let head = proxy.next();
                    assert!(head.starts_with("CONNECT api.invalid:6443 HTTP/1.1\r\n"), "{head}");
                    assert!(head.contains("Proxy-Authorization: Basic bWU6aHVudGVyMg==\r\n"), "{head}");
                } else if i == 0 {
                    assert_eq!(proxy.next(), "me hunter2");
                    assert_eq!(proxy.next(), "api.invalid:6443", "the name goes to the proxy");
                }
                let request = proxy.next();
                assert!(request.starts_with("PUT /version ") && request.contains("host: api.invalid:6443\r\n"));
                assert!(!request.contains("bWU6") && request.len() > 300_000);
            }
        }
    }
}

/// Calls `check` with a client behind a proxy that stops answering, for different points, with the kind and the point.
fn with_silent_proxies(check: impl Fn(&Client, &Server, &str)) {
    fn after(n: usize, then: &'static [u8]) -> Script {
        script(move |c| {
            c.bytes(n);
            c.send_bytes(then);
            c.note("silent".to_owned());
            c.hang();
        })
    }
    let ours = authority();
    for (kind, place, script) in [
        ("http", "before its answer", after(20, b"")),
        ("http", "in its answer", after(20, b"HTTP/1.1 200 OK\r\nA:")),
        ("https", "in the tunnel", after(20, b"HTTP/1.1 200")),
        // The proxy does not start TLS.
        ("https", "in the handshake", after(20, b"")),
        ("socks5", "at the greeting", after(3, b"")),
        ("socks5", "at the login", after(4, &[5, 2])),
        ("socks5", "in its reply", after(4, &[5, 0, 5, 0])),
    ] {
        let proxy = match place {
            "in the handshake" => serve(vec![script]),
            _ => proxy(kind, &ours, vec![script]),
        };
        let client = Client::new(through(config("https", &ours), kind, proxy.port)).unwrap();
        check(&client, &proxy, &format!("{kind} {place}"));
    }
}

#[test]
fn to_cancel_ends_a_proxy_that_is_silent_at_any_point() {
    with_silent_proxies(|client, proxy, what| {
        let cancel = CancelToken::new();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| get_until(client, LONG / 3, &cancel));
            assert_eq!(proxy.next(), "silent");
            let began = Instant::now();
            cancel.cancel();
            let error = waiting.join().unwrap().unwrap_err();
            assert!(began.elapsed() < LONG / 6, "{what}: after {:?}", began.elapsed());
            proxy.wait_for_close();
            assert_eq!(error.kind(), &ErrorKind::Interrupted, "{what}: {error}");
            assert!(!error.maybe_sent());
        });
    });
}

#[test]
fn silent_proxy_ends_with_the_request_timeout() {
    with_silent_proxies(|client, proxy, _| {
        check(&get(client, Duration::from_millis(300)).unwrap_err(), &ErrorKind::Timeout, proxy.port);
    });
}

#[test]
fn surplus_bytes_of_a_proxy_are_no_server_response() {
    let ours = authority();
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    for kind in KINDS {
        let early = move || {
            script(move |c| {
                match kind {
                    "http" | "https" => {
                        c.request();
                        c.send_bytes(&[&b"HTTP/1.1 200 OK\r\n\r\n"[..], answer].concat());
                    }
                    _ => {
                        c.bytes(4);
                        c.send_bytes(&[5, 0]);
                        c.bytes(5 + 11 + 2);
                        c.send_bytes(&[&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], answer].concat());
                    }
                }
                while c.request().is_some() {}
            })
        };
        let proxy = proxy(kind, &ours, vec![early()]);
        let client = Client::new(through(config("http", &ours), kind, proxy.port)).unwrap();
        let error = get(&client, LONG).unwrap_err();
        check(&error, &ErrorKind::Connect, proxy.port);
        assert!(error.to_string().contains("more than its answer"), "{error}");
        proxy.wait_for_close();
        if kind.starts_with("http") {
            assert!(proxy.next().starts_with("CONNECT "));
        }
        assert!(proxy.no_more(), "the server gets no request");
    }
}

#[test]
fn refusing_or_absent_proxy_is_named_without_its_password() {
    let ours = authority();
    // A free port could become the port of another test.
    let closed = 1;
    for kind in KINDS {
        let client = Client::new(through(config("https", &ours), kind, closed)).unwrap();
        check(&get(&client, LONG).unwrap_err(), &ErrorKind::Connect, closed);
        let refusing = script(move |c| match kind {
            "http" | "https" => {
                c.request();
                c.send("HTTP/1.1 407 me:hunter2\r\nA: bWU6aHVudGVyMg==\r\n\r\n");
            }
            _ => {
                c.bytes(4);
                c.send_bytes(&[5, 2]);
                c.bytes(12);
                c.send_bytes(&[1, 1]);
            }
        });
        let proxy = proxy(kind, &ours, vec![refusing]);
        let client = Client::new(through(config("https", &ours), kind, proxy.port)).unwrap();
        check(&get(&client, LONG).unwrap_err(), &ErrorKind::Connect, proxy.port);
    }
}

#[test]
fn proxy_certificate_needs_its_own_name_and_an_authority() {
    let (ours, other) = (authority(), authority());
    let server = server_config(&ours.leaf("api.invalid"), None);
    for (authority, name, expected) in [
        (&ours, "127.0.0.1", None),
        (&other, "127.0.0.1", Some(ErrorKind::TlsVerification)),
        // The configured server name does not apply to the certificate of the proxy.
        (&ours, "kube.example", Some(ErrorKind::TlsVerification)),
    ] {
        for insecure in [false, true] {
            let tls = server_config(&authority.leaf(name), None);
            let proxy = serve_with(Some(tls), vec![tunnel("https", Some(server.clone()), "{}")]);
            let tls = trusting(&ours.pem).with_server_name(if insecure { "kube.example" } else { "api.invalid" });
            let mut config = through(config_with("https", tls), "https", proxy.port);
            if insecure {
                config.tls.verification = Verification::Nothing;
            }
            let result = get(&Client::new(config).unwrap(), LONG);
            match expected.as_ref().filter(|_| !insecure) {
                None => assert!(result.is_ok(), "{name}: {}", result.unwrap_err()),
                Some(kind) => check(&result.unwrap_err(), kind, proxy.port),
            }
        }
    }
}

#[test]
fn proxy_is_verified_by_cluster_and_system_authorities() {
    let ours = authority();
    let system = rustls_native_certs::load_native_certs().certs;
    let usable = system.iter().filter(|certificate| rustls::RootCertStore::empty().add((*certificate).clone()).is_ok());
    let tls = config("https", &ours).tls.for_proxy();
    let vouching = tls.authorities(tls.ca.as_ref().unwrap()).unwrap();
    assert_eq!(vouching.len(), 1 + usable.count());
    assert!(vouching.contains(&ours.der));
    // If the cluster has no authorities, the client checks the proxy with the authorities of the system.
    assert!(ClientConfig::new("https://a").unwrap().tls.for_proxy().ca.is_none());
}

#[test]
fn client_certificate_is_shown_to_the_server_not_the_proxy() {
    let (ours, users) = (authority(), authority());
    let leaf = users.leaf("jane");
    let asks = server_config(&ours.leaf("127.0.0.1"), Some(&users));
    let server = server_config(&ours.leaf("api.invalid"), Some(&users));
    let identified = |port| {
        let tls = trusting(&ours.pem).with_client_certificate_pem(leaf.pem.as_str(), leaf.key.serialize_pem()).unwrap();
        through(config_with("https", tls), "https", port)
    };
    let proxy = proxy("https", &ours, vec![tunnel("https", Some(server.clone()), "{}")]);
    get(&Client::new(identified(proxy.port)).unwrap(), LONG).unwrap();
    let proxy = serve_with(Some(asks), vec![tunnel("https", Some(server), "{}")]);
    let error = get(&Client::new(identified(proxy.port)).unwrap(), LONG).unwrap_err();
    // The TCP reset after the TLS alert may arrive before the client reads the alert.
    assert!(matches!(error.kind(), ErrorKind::Tls | ErrorKind::Connect), "{error:?}");
    assert!(!error.maybe_sent());
}
