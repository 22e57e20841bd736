//! Tests that compare whole request bodies, because etcd ignores misspelled fields.

use super::*;

mod properties;

fn kv() -> KeyValue {
    KeyValue { key: b"leasehold/jobs".to_vec(), create_revision: 2, mod_revision: 3, value: b"{}".to_vec() }
}

fn put() -> EtcdOperation {
    EtcdOperation::Put { key: b"a".to_vec(), value: b"b".to_vec() }
}

#[test]
fn a_record_is_created_where_there_is_none() {
    let body = txn(b"a", None, &[put()]);
    let expected = json!({
        "compare": [{ "key": "YQ==", "target": "CREATE", "result": "EQUAL", "create_revision": "0" }],
        "success": [{ "request_put": { "key": "YQ==", "value": "Yg==" } }],
        "failure": [{ "request_range": { "key": "YQ==" } }],
    });
    assert_eq!(body, expected);
}

#[test]
fn a_record_is_replaced_at_its_revisions_and_its_value() {
    let body = txn(b"a", Some(&kv()), &[put(), EtcdOperation::Delete { key: b"c".to_vec() }]);
    let expected = json!({
        "compare": [
            { "key": "YQ==", "target": "MOD", "result": "EQUAL", "mod_revision": "3" },
            { "key": "YQ==", "target": "CREATE", "result": "EQUAL", "create_revision": "2" },
            { "key": "YQ==", "target": "VALUE", "result": "EQUAL", "value": "e30=" },
        ],
        "success": [
            { "request_put": { "key": "YQ==", "value": "Yg==" } },
            { "request_delete_range": { "key": "Yw==" } },
        ],
        "failure": [{ "request_range": { "key": "YQ==" } }],
    });
    assert_eq!(body, expected);
}

#[test]
fn reads_are_linearizable_and_of_a_key_or_all_below_a_prefix() {
    assert_eq!(range(Keys::One(b"a")), json!({ "key": "YQ==" }));
    // In etcd, the keys with the prefix "a/" are the range from "a/" to "a0".
    assert_eq!(range(Keys::Prefix(b"a/")), json!({ "key": "YS8=", "range_end": "YTA=" }));
    assert_eq!(range(Keys::Prefix(b"")), json!({ "key": "AA==", "range_end": "AA==" }), "all keys");
    assert_eq!(end_of(b"a\xff"), b"b");
    assert_eq!(end_of(b"\xff"), b"\0");
}

#[test]
fn a_watch_begins_at_a_revision() {
    let expected = json!({ "create_request": { "key": "YQ==", "start_revision": "8" } });
    assert_eq!(watch(Keys::One(b"a"), 8), expected);
    let expected = json!({ "create_request": { "key": "YS8=", "range_end": "YTA=", "start_revision": "8" } });
    assert_eq!(watch(Keys::Prefix(b"a/"), 8), expected);
    assert_eq!(authenticate("a", "b"), json!({ "name": "a", "password": "b" }));
}

/// Parses responses in the exact format of etcd 3.6.8.
#[test]
fn answers_are_read() {
    let key = b"a";
    let header = r#""header":{"cluster_id":"10144879847569953045", "member_id":"12428976124636271536", "revision":"2", "raft_term":"2"}"#;
    let stands = r#"[{"key":"YQ==", "create_revision":"2", "mod_revision":"2", "version":"1", "value":"Yg=="}]"#;
    let expected = || KeyValue { key: key.to_vec(), create_revision: 2, mod_revision: 2, value: b"b".to_vec() };
    let range = |text: &str| read_range(text.as_bytes(), Keys::One(key)).unwrap();
    assert_eq!(range(&format!("{{{header}}}")), Found { revision: 2, kvs: Vec::new() });
    let text = format!(r#"{{{header}, "kvs":{stands}, "count":"1"}}"#);
    assert_eq!(range(&text), Found { revision: 2, kvs: vec![expected()] });
    let applied = format!(r#"{{{header}, "succeeded":true, "responses":[{{"response_put":{{}}}}]}}"#);
    assert_eq!(read_txn(applied.as_bytes(), key).unwrap(), Txn::Applied(2));
    let beaten = |kvs: &str| format!(r#"{{{header}, "responses":[{{"response_range":{{{kvs}}}}}]}}"#);
    let text = beaten(&format!(r#""kvs":{stands}"#));
    assert_eq!(read_txn(text.as_bytes(), key).unwrap(), Txn::Beaten(Some(expected())));
    assert_eq!(read_txn(beaten("").as_bytes(), key).unwrap(), Txn::Beaten(None));
}

#[test]
fn foreign_response_is_an_error_not_an_absent_key() {
    for text in [
        "",
        "{}",
        "[]",
        "[[1]]",
        "null",
        r#"{"header":{}}"#,
        r#"{"header":{"revision":"-1"}}"#,
        r#"{"header":{"revision":"0"}}"#,
    ] {
        assert!(read_range(text.as_bytes(), Keys::One(b"a")).is_err(), "{text}");
        assert!(read_txn(text.as_bytes(), b"a").is_err(), "{text}");
    }
    let of = |kv: &str| format!(r#"{{"header":{{"revision":"9"}},"kvs":[{kv}]}}"#);
    for kv in [
        "{}",
        r#"{"key":"YQ==","create_revision":"2"}"#,
        r#"{"key":"YQ==","create_revision":"3","mod_revision":"2"}"#,
        r#"{"key":"Yg==","create_revision":"2","mod_revision":"2"}"#,
        r#"{"key":"**","create_revision":"2","mod_revision":"2"}"#,
        r#"{"key":"YQ==","create_revision":"2","mod_revision":"99999999999999999999"}"#,
        r#"{"key":"YQ==","create_revision":"2","mod_revision":"+2"}"#,
    ] {
        assert!(read_range(of(kv).as_bytes(), Keys::One(b"a")).is_err(), "{kv}");
    }
    let undecided = r#"{"header":{"revision":"9"},"responses":[]}"#;
    assert!(read_txn(undecided.as_bytes(), b"a").is_err(), "the outcome is missing");
}

#[test]
fn the_lines_of_a_watch_are_read() {
    let line = |text: &str| read_line(text.as_bytes()).unwrap();
    assert_eq!(line(r#"{"result":{"header":{"revision":"2"},"created":true}}"#), EtcdWatchLine::Created(2));
    let put = r#"{"kv":{"key":"YQ==","create_revision":"2","mod_revision":"3","version":"2","value":"Yg=="}}"#;
    let deletion = r#"{"type":"DELETE","kv":{"key":"YQ==","mod_revision":"4"}}"#;
    let text = format!(r#"{{"result":{{"header":{{"revision":"4"}},"events":[{put},{deletion}]}}}}"#);
    let kv = |create_revision, mod_revision, value: &[u8]| KeyValue {
        key: b"a".to_vec(),
        create_revision,
        mod_revision,
        value: value.to_vec(),
    };
    let expected =
        vec![EtcdEvent { kv: kv(2, 3, b"b"), is_deletion: false }, EtcdEvent { kv: kv(0, 4, b""), is_deletion: true }];
    assert_eq!(line(&text), EtcdWatchLine::Events(expected));
    assert_eq!(line(r#"{"result":{"header":{"revision":"9"}}}"#), EtcdWatchLine::Events(Vec::new()), "progress");
    let compacted = r#"{"result":{"header":{"revision":"9"},"canceled":true,"compact_revision":"5"}}"#;
    assert_eq!(line(compacted), EtcdWatchLine::Canceled { is_compacted: true, reason: String::new() });
    let refused = r#"{"result":{"header":{"revision":"2"},"watch_id":"-1","created":true,"canceled":true,"cancel_reason":"why"}}"#;
    assert_eq!(line(refused), EtcdWatchLine::Canceled { is_compacted: false, reason: "why".to_owned() });
    let refusal = EtcdRefusal { code: 14, message: "etcdserver: no leader".to_owned() };
    for text in [
        r#"{"error":{"code":14,"message":"etcdserver: no leader","details":[]}}"#,
        r#"{"error":{"grpc_code":14,"http_code":503,"message":"etcdserver: no leader","http_status":"x"}}"#,
    ] {
        assert_eq!(line(text), EtcdWatchLine::Failed(refusal.clone()));
    }
    assert_eq!(
        read_refusal(br#"{"error":"etcdserver: no leader","code":14,"message":"etcdserver: no leader"}"#),
        Some(refusal)
    );
    for text in ["{}", "", r#"{"result":{"created":true}}"#, r#"{"result":{"events":[{"type":"X","kv":{}}]}}"#] {
        assert!(read_line(text.as_bytes()).is_err(), "{text}");
    }
}

#[test]
fn a_token_that_is_not_read_is_not_quoted() {
    assert_eq!(read_token(br#"{"header":{},"token":"xUitRnCmijIogpNZ.14"}"#).unwrap(), "xUitRnCmijIogpNZ.14");
    for text in [r#"{"token":["hunter2"]}"#, r#"{"token":"hunter2"} x"#, r#"{"token":""}"#, "hunter2"] {
        let wrong = read_token(text.as_bytes()).unwrap_err();
        assert!(!wrong.to_string().contains("hunter2"), "{wrong}");
    }
}
