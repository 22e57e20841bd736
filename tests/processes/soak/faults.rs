//! Tests of the proxy: each fault has the effect that the other tests rely on.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;

use crate::support::proxy::{Faults, Proxy};
use crate::support::{A_WHILE, SOON, wait_until};

/// Starts a server that returns and records every byte, behind a proxy.
fn echo() -> (Proxy, Arc<Mutex<Vec<u8>>>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let proxy = Proxy::to(listener.local_addr().expect("a bound socket"));
    let received = Arc::<Mutex<Vec<u8>>>::default();
    thread::spawn({
        let received = Arc::clone(&received);
        move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let received = Arc::clone(&received);
                thread::spawn(move || {
                    let mut byte = [0];
                    while stream.read_exact(&mut byte).is_ok() {
                        received.lock().push(byte[0]);
                        let _ = stream.write_all(&byte);
                    }
                });
            }
        }
    });
    (proxy, received)
}

fn connect(proxy: &Proxy) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, proxy.port)).expect("the proxy listens");
    stream.set_read_timeout(Some(SOON)).expect("a socket");
    stream
}

fn is_answered(stream: &mut TcpStream, byte: u8) {
    stream.write_all(&[byte]).expect("an open connection");
    expect(stream, byte);
}

fn expect(stream: &mut TcpStream, byte: u8) {
    let mut answer = [0];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer[0], byte);
}

/// Asserts that neither bytes nor the end of the connection arrive.
fn is_silent(stream: &mut TcpStream) {
    stream.set_read_timeout(Some(A_WHILE)).expect("a socket");
    let silence = stream.read(&mut [0]).expect_err("silence");
    assert!(matches!(silence.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut), "{silence}");
    stream.set_read_timeout(Some(SOON)).expect("a socket");
}

fn is_closed(stream: &mut TcpStream) {
    assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "it is closed");
}

#[test]
fn a_cut_closes_connections_old_and_new() {
    let (proxy, _) = echo();
    let mut old = connect(&proxy);
    is_answered(&mut old, 1);
    proxy.set(Faults::Cut);
    is_closed(&mut old);
    is_closed(&mut connect(&proxy));
    proxy.set(Faults::Fair);
    is_answered(&mut connect(&proxy), 2);
}

#[test]
fn each_fault_delays_or_drops_its_target() {
    // Each fault, whether the server receives a byte during the fault, and whether the client gets the response
    // afterwards.
    for (faults, is_received, arrives_later) in [
        (Faults::BlackHole, false, false),
        (Faults::RequestsHeldBack, false, true),
        (Faults::AnswersHeldBack, true, true),
        (Faults::HeldBack, false, true),
    ] {
        let (proxy, received) = echo();
        let [mut old, mut goes] = [connect(&proxy), connect(&proxy)];
        is_answered(&mut old, 1);
        is_answered(&mut goes, 2);
        proxy.set(faults);
        let mut new = connect(&proxy);
        for stream in [&mut old, &mut goes, &mut new] {
            stream.write_all(&[3]).expect("an open connection");
            is_silent(stream);
        }
        // A request arrives even if its sender has closed the connection.
        drop(goes);
        let bytes = || received.lock().iter().filter(|byte| **byte == 3).count();
        assert_eq!(bytes(), if is_received { 3 } else { 0 });
        proxy.set(Faults::Fair);
        for stream in [&mut old, &mut new] {
            if arrives_later { expect(stream, 3) } else { is_silent(stream) }
        }
        is_answered(&mut connect(&proxy), 4);
        wait_until("all arrive or are lost", || bytes() == if arrives_later { 3 } else { 0 });
    }
}

#[test]
fn closed_side_is_closed_on_the_other_side_too() {
    let (proxy, _) = echo();
    let mut stream = connect(&proxy);
    is_answered(&mut stream, 1);
    drop(proxy);
    is_closed(&mut stream);
}
