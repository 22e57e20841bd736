//! The lower bound on etcd: a transaction, its watch event, and a second transaction.
//!
//! Both clients use the JSON gateway, as leasehold does.

use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};

use super::{FREE, HELD, Releaser, Taker, rounds};
use crate::Error;
use crate::client::http::{Connection, Lines};

const KEY: &str = "limit";

struct A {
    requests: Connection,
    revision: String,
}

struct B {
    requests: Connection,
    events: Lines,
    revision: String,
}

pub fn measure(address: &str) -> Result<(), Error> {
    let mut requests = Connection::open(address)?;
    let put = requests.post("/v3/kv/put", &put(HELD))?;
    let next = put["header"]["revision"].as_str().ok_or("no revision")?.parse::<u64>()? + 1;
    let watch = json!({ "create_request": { "key": encode(KEY), "start_revision": next.to_string() } });
    let mut events = Connection::open(address)?.lines("/v3/watch", &watch.to_string())?;
    // The first line confirms the watch.
    events.next()?;
    let mut b = B { requests: Connection::open(address)?, events, revision: String::new() };
    // This read precedes the rounds, so that no round includes the first use of the connection.
    b.requests.post("/v3/kv/range", &json!({ "key": encode(KEY) }).to_string())?;
    rounds(A { requests, revision: String::new() }, b)
}

impl Releaser for A {
    fn learn(&mut self) -> Result<(), Error> {
        let found = self.requests.post("/v3/kv/range", &json!({ "key": encode(KEY) }).to_string())?;
        self.revision = found["kvs"][0]["mod_revision"].as_str().ok_or("no record")?.to_owned();
        Ok(())
    }

    fn release(&mut self) -> Result<(), Error> {
        replace(&mut self.requests, &self.revision, FREE)
    }
}

impl Taker for B {
    fn wait(&mut self) -> Result<(), Error> {
        let line = self.events.next()?;
        let revision = line["result"]["events"][0]["kv"]["mod_revision"].as_str();
        self.revision = revision.ok_or("no event")?.to_owned();
        Ok(())
    }

    fn take(&mut self) -> Result<(), Error> {
        replace(&mut self.requests, &self.revision, HELD)
    }

    fn settle(&mut self) -> Result<(), Error> {
        self.events.next().map(drop)
    }
}

/// Replaces the value of the key if the key still has the given revision.
fn replace(requests: &mut Connection, revision: &str, value: &str) -> Result<(), Error> {
    let compare = json!({ "key": encode(KEY), "target": "MOD", "result": "EQUAL", "mod_revision": revision });
    let put = json!({ "request_put": { "key": encode(KEY), "value": encode(value) } });
    let txn = json!({ "compare": [compare], "success": [put] });
    match requests.post("/v3/kv/txn", &txn.to_string())?["succeeded"] {
        Value::Bool(true) => Ok(()),
        _ => Err("another client has written".into()),
    }
}

fn put(value: &str) -> String {
    json!({ "key": encode(KEY), "value": encode(value) }).to_string()
}

fn encode(text: &str) -> String {
    BASE64_STANDARD.encode(text)
}
