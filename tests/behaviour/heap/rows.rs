//! Endless rows from a database take limited memory.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use leasehold::mysql::{MySqlConfig, MySqlStore};
use leasehold::postgres::{PostgresConfig, PostgresStore};
use leasehold::store::{CallContext, CancelToken, Store, StoreErrorKind};

use crate::allocation::measure;

/// Starts a server and returns its URL.
///
/// The server sends each step, or reads where a step is `None`. Then the server sends `rows` forever.
fn url(scheme: &str, steps: Vec<Option<Vec<u8>>>, rows: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("{scheme}://me:x@{}/db", listener.local_addr().expect("an address"));
    let serve = move |mut stream: TcpStream| -> io::Result<()> {
        for step in steps {
            match step {
                Some(bytes) => stream.write_all(&bytes)?,
                None => drop(stream.read(&mut [0; 4096])?),
            }
        }
        loop {
            stream.write_all(&rows)?;
        }
    };
    thread::spawn(move || serve(listener.accept().expect("a client").0));
    url
}

fn assert_bounded(what: &str, store: &impl Store) {
    let call = CallContext::new(super::answers::SOON, CancelToken::new());
    let peak = measure(|| {
        let error = store.get("jobs", &call).expect_err("no end");
        assert_eq!(error.kind(), StoreErrorKind::Malformed, "{error}");
    })
    .peak;
    assert!(peak < 20 << 20, "{what}: {peak}");
}

#[test]
fn tiny_rows_without_end_take_less_than_20_mib() {
    for (what, columns) in
        [("no columns", vec![]), ("nulls", [255; 4].repeat(12)), ("bytes", b"\0\0\0\x01x".repeat(12))]
    {
        let count = if columns.is_empty() { 0 } else { 12 };
        let body = [&[0, count], &columns[..]].concat();
        let row = [b"D", &(4 + body.len() as u32).to_be_bytes()[..], &body].concat();
        let login = vec![None, Some(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I".to_vec()), None];
        let config = PostgresConfig::new(&url("postgres", login, row.repeat(1000))).expect("a URL");
        assert_bounded(what, &PostgresStore::new(config).expect("a store"));
    }
    let numbered = |first: usize, packets: &[&[u8]]| -> Vec<u8> {
        let number =
            |(number, packet): (usize, &&[u8])| [&[packet.len() as u8, 0, 0, (first + number) as u8], *packet].concat();
        packets.iter().enumerate().flat_map(number).collect()
    };
    let greeting = [
        b"\x0a8.0.36\0\x01\0\0\0abcdefgh\0\xff\xf7\x2d\x02\0\xff\x81\x15",
        &[0; 10][..],
        b"ijklmnopqrst\0mysql_native_password\0",
    ]
    .concat();
    let columns = numbered(1, &[b"\x02", b"a", b"b", b"\xfe\0\0\x02\0"]);
    let login =
        vec![Some(numbered(0, &[&greeting])), None, Some(numbered(2, &[b"\0\0\0\x02\0\0\0"])), None, Some(columns)];
    let config = MySqlConfig::new(&url("mysql", login, numbered(5, &[&b"\x01x\xfb"[..]; 256]))).expect("a URL");
    assert_bounded("pairs", &MySqlStore::new(config).expect("a store"));
}
