//! Properties that parsed responses keep, even if the text was truncated or mutated.

use crate::backends::etcd::message::*;

const KEY: &[u8] = b"a";

const SEEDS: [&str; 8] = [
    r#"{"header":{"cluster_id":"1","member_id":"2","revision":"9","raft_term":"2"},"kvs":[{"key":"YQ==","create_revision":"2","mod_revision":"3","version":"2","value":"Yg=="}],"count":"1"}"#,
    r#"{"header":{"revision":"9"},"succeeded":true,"responses":[{"response_put":{"header":{"revision":"9"}}}]}"#,
    r#"{"header":{"revision":"9"},"responses":[{"response_range":{"kvs":[{"key":"YQ==","create_revision":"2","mod_revision":"3"}]}}]}"#,
    r#"{"result":{"header":{"revision":"9"},"created":true}}"#,
    r#"{"result":{"header":{"revision":"9"},"events":[{"kv":{"key":"YQ==","create_revision":"2","mod_revision":"3"}},{"type":"DELETE","kv":{"key":"YQ==","mod_revision":"4"}}]}}"#,
    r#"{"result":{"canceled":true,"compact_revision":"5","cancel_reason":"why"}}"#,
    r#"{"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader"}}"#,
    r#"{"header":{},"token":"xUitRnCmijIogpNZ.14"}"#,
];

/// Pieces of JSON, numbers and base64 that a mutation inserts into a text.
const PIECES: [&str; 16] = [
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "null",
    "-1",
    "99999999999999999999",
    "true",
    "\\u0000",
    "=",
    "\u{fffd}",
    "0",
    "1e400",
];

fn check(text: &[u8]) {
    if let Ok(Found { revision, kvs }) = read_range(text, Keys::One(KEY)) {
        assert!(revision > 0 && kvs.len() <= 1 && kvs.iter().all(is_sound));
    }
    let _ = read_range(text, Keys::Prefix(KEY));
    match read_txn(text, KEY) {
        Ok(Txn::Applied(revision)) => assert!(revision > 0),
        Ok(Txn::Beaten(found)) => assert!(found.iter().all(is_sound)),
        Err(_) => {}
    }
    match read_line(text) {
        Ok(EtcdWatchLine::Created(revision)) => assert!(revision > 0),
        Ok(EtcdWatchLine::Events(events)) => assert!(events.iter().all(|event| event.kv.mod_revision > 0)),
        Ok(EtcdWatchLine::Canceled { .. } | EtcdWatchLine::Failed(_)) | Err(_) => {}
    }
    let _ = read_refusal(text);
    assert!(read_token(text).is_ok_and(|token| !token.is_empty()) || read_token(text).is_err());
}

fn is_sound(kv: &KeyValue) -> bool {
    kv.key == KEY && 0 < kv.create_revision && kv.create_revision <= kv.mod_revision
}

#[test]
fn truncated_message_is_an_error_without_panic() {
    for seed in SEEDS {
        for end in 0..=seed.len() {
            check(&seed.as_bytes()[..end]);
            check(&seed.as_bytes()[end..]);
        }
        for end in 1..seed.len() {
            let cut = &seed.as_bytes()[..end];
            assert!(read_txn(cut, KEY).is_err() && read_line(cut).is_err(), "{end} of {seed}");
        }
    }
}

#[test]
fn mutated_message_is_sound_or_an_error() {
    let mut random = fastrand::Rng::with_seed(7);
    for round in 0..20_000 {
        let mut text = SEEDS[round % SEEDS.len()].as_bytes().to_vec();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(..text.len().max(1)).min(text.len());
            match random.u8(..4) {
                0 => text.truncate(at),
                1 => drop(text.splice(at..at, PIECES[random.usize(..PIECES.len())].bytes())),
                2 if at < text.len() => text[at] = random.u8(..),
                _ => {
                    let end = (at + random.usize(..9)).min(text.len());
                    drop(text.splice(at..end, PIECES[random.usize(..PIECES.len())].bytes()));
                }
            }
        }
        check(&text);
    }
}

#[test]
fn message_that_needs_too_much_memory_is_an_error() {
    let many =
        |kv: &str, count: usize| format!(r#"{{"header":{{"revision":"9"}},"kvs":[{}]}}"#, vec![kv; count].join(","));
    assert!(read_range(many("{}", 300_000).as_bytes(), Keys::Prefix(KEY)).is_err());
    let deep = format!(r#"{{"header":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert!(read_range(deep.as_bytes(), Keys::Prefix(KEY)).is_err());
}
