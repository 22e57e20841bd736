//! Servers with several addresses for one name.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::certificates::trusting;
use super::server::{ok, raw, serve, serve_on, silent};
use super::{LONG, get, put};
use crate::backends::kubernetes::client::{Client, ClientConfig, ErrorKind};
use crate::net::dial::{Cancelled, Network, System};
use crate::net::tests::certificates::{authority, server_config};

/// Listens on `address`. Returns `None` if this machine lacks the address.
///
/// Tests skip an address that this machine lacks.
fn listen(address: &str) -> Option<TcpListener> {
    let listener = std::net::ToSocketAddrs::to_socket_addrs(&(address, 0)).and_then(|mut all| match all.next() {
        Some(address) => TcpListener::bind(address),
        None => Err(io::ErrorKind::NotFound.into()),
    });
    listener.inspect_err(|e| eprintln!("no test with {address}: {e}")).ok()
}

/// Returns a link-local address of this machine, with its zone.
fn link_local() -> Option<(String, String)> {
    let interfaces = std::fs::read_to_string("/proc/net/if_inet6").ok()?;
    interfaces.lines().find_map(|line| {
        let words: Vec<_> = line.split_whitespace().collect();
        let bits = u128::from_str_radix(words.first()?, 16).ok()?;
        let is_link_local = bits >> 118 == 0xfe80 >> 6;
        is_link_local.then(|| (std::net::Ipv6Addr::from(bits).to_string(), words[5].to_owned()))
    })
}

#[test]
fn ipv6_is_reached_with_and_without_tls_and_zones_stay_local() {
    let ours = authority();
    // The system ignores a zone of an address that needs none, and the client does not send the zone to the server.
    let mut cases = vec![("::1".to_owned(), None), ("::1".to_owned(), Some("1".to_owned()))];
    cases.extend(link_local().map(|(address, zone)| (address, Some(zone))));
    for (address, zone) in cases {
        let bound = format!("{address}{}", zone.as_ref().map(|zone| format!("%{zone}")).unwrap_or_default());
        let host = format!("[{address}{}]", zone.as_ref().map(|zone| format!("%25{zone}")).unwrap_or_default());
        for tls in [false, true] {
            let Some(listener) = listen(&bound) else { continue };
            let certificate = tls.then(|| server_config(&ours.leaf(&address), None));
            let server = serve_on(listener, certificate, vec![ok("{}")]);
            let scheme = if tls { "https" } else { "http" };
            let config = ClientConfig::new(&format!("{scheme}://{host}:{}", server.port)).unwrap();
            assert_eq!(config.server(), format!("{scheme}://{host}:{}", server.port));
            let client = Client::new(config.with_tls(trusting(&ours.pem))).unwrap();
            for _ in 0..2 {
                put(&client, LONG).unwrap_or_else(|e| panic!("{host}: {e}"));
                let head = server.next();
                assert!(head.contains(&format!("host: [{address}]:{}\r\n", server.port)), "{head}");
            }
        }
    }
}

/// A network in which each address leads to its own port of this machine.
struct Several {
    ports: Vec<(IpAddr, u16)>,
    tried: Arc<Mutex<Vec<IpAddr>>>,
}

impl Network for Several {
    fn look_up(&self, _: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(self.ports.iter().map(|(ip, _)| SocketAddr::new(*ip, port)).collect())
    }

    fn connect(&self, address: SocketAddr, timeout: Duration, cancelled: &Cancelled) -> io::Result<TcpStream> {
        self.tried.lock().push(address.ip());
        let (_, port) = self.ports.iter().find(|(ip, _)| *ip == address.ip()).unwrap();
        System.connect(([127, 0, 0, 1], *port).into(), timeout, cancelled)
    }
}

#[test]
fn last_answering_address_is_tried_first() {
    // A free port could become the port of another test.
    let refused = 1;
    // This server accepts connections and never answers.
    let mute = serve((0..20).map(|_| silent()).collect());
    // This server closes a connection after one answer, so each request needs its own connection.
    let good = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
    let good = serve((0..20).map(|_| raw(good)).collect());
    let ips: Vec<IpAddr> = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse().unwrap()).to_vec();
    let tried = Arc::new(Mutex::new(Vec::new()));
    let client = |first, second| {
        let network = Several { ports: vec![(ips[0], first), (ips[1], second)], tried: Arc::clone(&tried) };
        Client::with_network(ClientConfig::new("http://api.invalid").unwrap(), network).unwrap()
    };
    let first_tried = || std::mem::take(&mut *tried.lock())[0];

    let one = client(refused, good.port);
    get(&one, LONG).unwrap();
    assert_eq!(first_tried(), ips[0]);
    get(&one, LONG).unwrap();
    assert_eq!(first_tried(), ips[1]);

    let one = client(refused, mute.port);
    for _ in 0..2 {
        let error = put(&one, Duration::from_secs(1)).unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Timeout);
        assert_eq!(first_tried(), ips[0], "no address has answered yet");
    }
}
