//! Servers whose responses never end.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use leasehold::kubernetes::{ClientError, ErrorKind, LeaseStore};
use leasehold::store::{CallContext, CancelToken, Store};

use crate::faults::place::kubeconfig_for;
use crate::support::SOON;
use crate::support::cluster::client_of;
use crate::support::stores::held_by;

/// Answers one request with `head` and repeated `filler`.
///
/// Returns the number of bytes that the client accepted, up to about `at_most`.
fn pour(listener: &TcpListener, head: &str, filler: &[u8], at_most: usize) -> usize {
    let (mut stream, _) = listener.accept().expect("a client");
    stream.set_write_timeout(Some(SOON)).expect("a time-out");
    let mut request = [0; 4096];
    let _ = stream.read(&mut request);
    let mut poured = 0;
    let mut next = head.as_bytes();
    while poured < at_most {
        match stream.write(next) {
            Ok(0) | Err(_) => break,
            Ok(written) => poured += written,
        }
        next = filler;
    }
    poured
}

/// A response cannot fill the memory.
///
/// The client reads 4 MiB of a body, and less of a head. The rest of the bound is for the buffers of the operating
/// system.
#[test]
fn endless_answers_are_cut_off() {
    const BUFFERS: usize = 32 << 20;
    let spaces = vec![b' '; 64 << 10];
    let chunk = [b"10000\r\n".as_slice(), &spaces, b"\r\n"].concat();
    let headers = b"x: y\r\n".repeat(10_000);
    let continues = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(1_000);
    let (ok, no) = ("HTTP/1.1 200 OK\r\n", "HTTP/1.1 500 No\r\n");
    for (what, head, filler, kind) in [
        ("chunks", format!("{ok}transfer-encoding: chunked\r\n\r\n"), &chunk, Some(ErrorKind::BodyTooLarge)),
        ("a length", format!("{ok}content-length: 99999999999\r\n\r\n"), &spaces, Some(ErrorKind::BodyTooLarge)),
        ("until the end", format!("{ok}\r\n"), &spaces, Some(ErrorKind::BodyTooLarge)),
        ("a refusal", format!("{no}transfer-encoding: chunked\r\n\r\n"), &chunk, None),
        ("headers", ok.to_owned(), &headers, None),
        ("continues", String::new(), &continues, None),
        ("a chunk's length", format!("{ok}transfer-encoding: chunked\r\n\r\n"), &b"0".repeat(64 << 10), None),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let client = client_of(&kubeconfig_for("http", &address));
        let poured = thread::scope(|scope| {
            let pouring = scope.spawn(|| pour(&listener, &head, filler, 2 * BUFFERS));
            let leases = LeaseStore::new(client, "default").expect("a store");
            // The client may send a GET twice, so the test sends a POST.
            let call = CallContext::new(SOON, CancelToken::new());
            let error = leases.create("jobs", held_by("a").as_write(), &call).expect_err(what);
            let source = std::error::Error::source(&error).and_then(|source| source.downcast_ref::<ClientError>());
            let error = source.expect("an error of the client");
            if let Some(kind) = &kind {
                assert_eq!(error.kind(), kind, "{what}: {error}");
            }
            assert_ne!(error.kind(), &ErrorKind::Timeout, "{what}: {error}");
            drop(leases);
            pouring.join().expect("no panic")
        });
        assert!(poured < BUFFERS, "{what}: {poured} bytes were taken");
    }
}
