//! The lower bound on PostgreSQL: an UPDATE with NOTIFY, a SELECT, and a second such UPDATE.
//!
//! The statements are prepared. The taker receives notifications on the connection that it uses for its statements.

use super::{FREE, HELD, Releaser, Taker, rounds};
use crate::Error;
use crate::client::Row;
use crate::client::postgres::Client;

struct A {
    client: Client,
}

struct B {
    client: Client,
    writes: String,
}

pub fn measure(address: &str) -> Result<(), Error> {
    let mut a = Client::connect(address)?;
    a.query("CREATE TABLE bare_limit (key text PRIMARY KEY, writes bigint NOT NULL, record text NOT NULL)")?;
    a.query(&format!("INSERT INTO bare_limit VALUES ('limit', 0, '{HELD}')"))?;
    a.prepare(
        "release",
        "WITH u AS (UPDATE bare_limit SET writes = writes + 1, record = $1 WHERE key = 'limit' RETURNING key) \
         SELECT pg_notify('bare_limit', key) FROM u",
    )?;
    let mut b = Client::connect(address)?;
    b.query("LISTEN bare_limit")?;
    b.prepare("read", "SELECT writes, record FROM bare_limit WHERE key = 'limit'")?;
    b.prepare(
        "take",
        "WITH u AS (UPDATE bare_limit SET writes = writes + 1, record = $1 WHERE key = 'limit' AND writes = $2 RETURNING key) \
         SELECT pg_notify('bare_limit', key) FROM u",
    )?;
    rounds(A { client: a }, B { client: b, writes: String::new() })
}

impl Releaser for A {
    fn release(&mut self) -> Result<(), Error> {
        self.client.execute("release", &[FREE]).map(drop)
    }
}

impl Taker for B {
    fn wait(&mut self) -> Result<(), Error> {
        self.client.notified()?;
        match &mut self.client.execute("read", &[])?[..] {
            [row] => self.writes = first(row).ok_or("no number")?,
            _ => return Err("no row".into()),
        }
        Ok(())
    }

    fn take(&mut self) -> Result<(), Error> {
        match self.client.execute("take", &[HELD, &self.writes])?.len() {
            1 => Ok(()),
            _ => Err("another client has written".into()),
        }
    }

    fn settle(&mut self) -> Result<(), Error> {
        self.client.notified()
    }
}

fn first(row: &mut Row) -> Option<String> {
    row.first_mut()?.take()
}
