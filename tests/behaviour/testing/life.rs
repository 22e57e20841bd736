//! Start, stop, pause and restore of the in-memory server, and its request log.

use std::io::Read;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leasehold_testing::{ApiServer, Fault, Resource, Verb};
use serde_json::json;

use crate::testing::support::*;

#[cfg(target_os = "linux")]
/// Returns the number of listening or connected sockets on a port.
fn sockets_on(port: u16) -> usize {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let local = format!("0100007F:{port:04X}");
    table
        .lines()
        .filter_map(|line| {
            let mut fields = line.split_whitespace().skip(1);
            Some((fields.next()?, fields.nth(1)?))
        })
        // Sockets in other states, such as TIME_WAIT, belong to the kernel.
        .filter(|(address, state)| *address == local && matches!(*state, "01" | "0A"))
        .count()
}

#[cfg(target_os = "linux")]
fn port(server: &ApiServer) -> u16 {
    address(server).split(':').nth(1).unwrap().parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn dropping_ends_everything_at_once() {
    let server = server();
    let port = port(&server);
    server.fault(Fault::hang().verb(Verb::Create));
    server.fault(Fault::delay(Duration::from_secs(3600)).verb(Verb::Update));
    server.fault(Fault::endless_body().verb(Verb::List));
    let idle = connect(&server);
    let mut watch = WatchClient::on_x(&server, "");
    let mut held = Vec::new();
    for (method, path) in [("POST", LEASES), ("PUT", X), ("GET", LEASES)] {
        let mut socket = connect(&server);
        send(&mut socket, method, path, "", b"{}");
        held.push(socket);
    }
    wait_until("all requests have arrived", || server.requests().len() == 4);
    let begun = Instant::now();
    drop(server);
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert_eq!(watch.next(), Next::Cut);
    for mut socket in held.into_iter().chain([idle]) {
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
    }
    assert_eq!(sockets_on(port), 0);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
}

#[test]
fn it_restarts_on_the_same_port_with_the_same_store() {
    let server = server();
    let x = create_x(&server);
    let mut watch = WatchClient::on_x(&server, "");
    watch.event();
    server.stop();
    server.stop();
    assert_eq!(watch.next(), Next::Cut);
    assert!(TcpStream::connect(address(&server)).is_err());
    #[cfg(target_os = "linux")]
    {
        use rustix::net::{AddressFamily, SocketType, bind, socket};
        let other = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let port: std::net::SocketAddr = address(&server).parse().unwrap();
        assert!(bind(&other, &port).is_err(), "the port is reserved meanwhile");
    }
    server.restart().unwrap();
    assert_eq!(get(&server, X).json(), x);
    server.restart().unwrap();
    assert_eq!(get(&server, X).json(), x);
}

#[test]
fn all_connections_can_be_cut() {
    let server = server();
    let mut idle = connect(&server);
    let mut watch = WatchClient::on_x(&server, "");
    let mut known = connect(&server);
    send(&mut known, "GET", "/healthz", "", b"");
    receive(&mut known).unwrap();
    // The server accepted the idle connection before the watch.
    server.disconnect_all();
    assert_eq!(watch.next(), Next::Cut);
    assert!(matches!(idle.read(&mut [0]), Ok(0) | Err(_)));
    assert!(matches!(known.read(&mut [0]), Ok(0) | Err(_)));
    assert_eq!(get(&server, "/healthz").code, 200);
}

#[test]
fn a_paused_server_hangs_until_resumed() {
    let server = server();
    let mut watch = WatchClient::on_x(&server, "");
    server.pause();
    let mut socket = request(&server, "POST", LEASES, "", Some(&lease(json!({}))));
    assert_silent(&socket);
    assert_eq!(server.get(Resource::Leases, "default", "x"), None);
    server.put(Resource::Leases, "default", "x", json!({}));
    assert_eq!(watch.peek_silence(), Next::Silent);
    server.resume();
    assert_eq!(receive(&mut socket).unwrap().code, 409);
    assert_eq!(watch.event().0, "ADDED");
}

#[test]
fn paused_server_can_stop() {
    let server = server();
    server.pause();
    let held = request(&server, "GET", X, "", None);
    assert_silent(&held);
    let begun = Instant::now();
    drop(server);
    assert!(begun.elapsed() < Duration::from_secs(3));
    drop(held);
}

#[test]
fn a_restored_store_goes_back_in_time() {
    let server = server();
    let old = create_x(&server);
    let snapshot = server.snapshot();
    let mut watch = WatchClient::on_x(&server, &format!("resourceVersion={}", version(&old)));
    call(&server, "DELETE", X, None);
    assert_eq!(watch.event().0, "DELETED");
    server.restore(&snapshot);
    assert_eq!(watch.next(), Next::Cut);
    assert_eq!(get(&server, X).json(), old);
    assert_eq!(server.revision(), version(&old));
}

#[test]
fn requests_are_logged() {
    let server = server();
    let mut socket = connect(&server);
    let agent = "user-agent: me/1\r\n";
    send(&mut socket, "GET", &format!("{X}?a=b"), agent, b"");
    receive(&mut socket).unwrap();
    let body = lease(json!({})).to_string();
    send(&mut socket, "POST", LEASES, "", body.as_bytes());
    receive(&mut socket).unwrap();
    let watch = WatchClient::on_x(&server, "");
    get(&server, "/version");
    let log = server.requests();
    let seen = log.iter().map(|it| (it.verb, it.path.as_str(), it.name.as_deref(), it.status)).collect::<Vec<_>>();
    let expected = [
        (Some(Verb::Get), X, Some("x"), Some(404)),
        (Some(Verb::Create), LEASES, Some("x"), Some(201)),
        (Some(Verb::Watch), LEASES, Some("x"), Some(200)),
        (None, "/version", None, Some(200)),
    ];
    assert_eq!(seen, expected);
    let first = &log[0];
    assert_eq!((first.method.as_str(), first.query.as_str(), first.resource), ("GET", "a=b", Some(Resource::Leases)));
    assert_eq!((first.namespace.as_deref(), first.user.as_deref()), (Some("default"), None));
    assert_eq!(first.user_agent.as_deref(), Some("me/1"));
    assert_eq!(log[0].connection, log[1].connection);
    assert_ne!(log[1].connection, log[2].connection);
    assert!(log[0].at <= log[1].at);
    drop(watch);
    server.clear_requests();
    assert!(server.requests().is_empty());
}

#[cfg(target_os = "linux")]
#[test]
fn it_listens_on_the_loopback_interface_only() {
    let server = server();
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let listening = format!(":{:04X} 00000000:0000 0A", port(&server));
    let lines = table.lines().filter(|line| line.contains(&listening)).collect::<Vec<_>>();
    assert_eq!(lines.len(), 1);
    assert!(lines[0].contains("0100007F:"));
}

/// A process that starts holds a copy of the listening socket for a moment.
#[test]
fn stopped_server_refuses_connections_while_processes_start() {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                Command::new("true").uid(rustix::process::getuid().as_raw()).status().expect("a process");
            }
        });
        let accepted = (0..200).find(|_| {
            let server = server();
            server.stop();
            TcpStream::connect(address(&server)).is_ok()
        });
        is_over.store(true, Ordering::Relaxed);
        assert_eq!(accepted, None);
    });
}
