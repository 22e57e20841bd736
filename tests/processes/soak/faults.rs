//! The proxy does what its faults says: else the faults would be none.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

use parking_lot::Mutex;

use crate::support::proxy::{Faults, Proxy};
use crate::support::{A_WHILE, SOON, wait_until};

/// A server that answers every byte with itself, and remembers all of them.
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

/// Neither bytes nor the end of the connection.
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
fn what_was_in_a_black_hole_stays_silent_for_ever() {
    let (proxy, received) = echo();
    let mut old = connect(&proxy);
    is_answered(&mut old, 1);
    proxy.set(Faults::BlackHole);
    let mut new = connect(&proxy);
    for lost in [&mut old, &mut new] {
        lost.write_all(&[2]).expect("an open connection");
        is_silent(lost);
    }
    proxy.set(Faults::Fair);
    for lost in [&mut old, &mut new] {
        lost.write_all(&[3]).expect("an open connection");
        is_silent(lost);
    }
    is_answered(&mut connect(&proxy), 4);
    assert_eq!(*received.lock(), [1, 4]);
}

#[test]
fn requests_that_are_held_back_arrive_even_from_who_has_gone() {
    let (proxy, received) = echo();
    let (mut waits, mut goes) = (connect(&proxy), connect(&proxy));
    is_answered(&mut waits, 1);
    is_answered(&mut goes, 2);
    proxy.set(Faults::RequestsHeldBack);
    waits.write_all(&[3]).expect("an open connection");
    is_silent(&mut waits);
    goes.write_all(&[4]).expect("an open connection");
    drop(goes);
    thread::sleep(A_WHILE);
    assert_eq!(*received.lock(), [1, 2]);
    proxy.set(Faults::Fair);
    expect(&mut waits, 3);
    wait_until("both arrive", || received.lock().len() == 4);
}

#[test]
fn answers_that_are_held_back_were_given() {
    let (proxy, received) = echo();
    let mut stream = connect(&proxy);
    is_answered(&mut stream, 1);
    proxy.set(Faults::AnswersHeldBack);
    stream.write_all(&[2]).expect("an open connection");
    wait_until("it arrives", || *received.lock() == [1, 2]);
    is_silent(&mut stream);
    proxy.set(Faults::Fair);
    expect(&mut stream, 2);
}

#[test]
fn what_is_held_back_both_ways_arrives_later_both_ways() {
    let (proxy, received) = echo();
    let (mut asks, mut waits) = (connect(&proxy), connect(&proxy));
    is_answered(&mut asks, 1);
    is_answered(&mut waits, 2);
    proxy.set(Faults::AnswersHeldBack);
    waits.write_all(&[3]).expect("an open connection");
    wait_until("it arrives", || *received.lock() == [1, 2, 3]);
    proxy.set(Faults::HeldBack);
    asks.write_all(&[4]).expect("an open connection");
    is_silent(&mut asks);
    is_silent(&mut waits);
    assert_eq!(*received.lock(), [1, 2, 3]);
    proxy.set(Faults::Fair);
    expect(&mut asks, 4);
    expect(&mut waits, 3);
}

#[test]
fn who_goes_away_is_gone_on_the_other_side_too() {
    let (proxy, _) = echo();
    let mut stream = connect(&proxy);
    is_answered(&mut stream, 1);
    drop(proxy);
    is_closed(&mut stream);
}
