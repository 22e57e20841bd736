//! The lower bound on MySQL: an UPDATE, a SELECT that finds the change, and a second UPDATE.
//!
//! MySQL has no notifications, so the taker repeats the SELECT at leasehold's poll interval.

use std::thread;
use std::time::Duration;

use super::{FREE, HELD, Releaser, Taker, rounds};
use crate::Error;
use crate::client::mysql::Client;

const POLLING: Duration = Duration::from_millis(50);

struct A {
    client: Client,
}

struct B {
    client: Client,
    writes: String,
}

pub fn measure(address: &str) -> Result<(), Error> {
    let mut a = Client::connect(address)?;
    a.query("CREATE TABLE bare_limit (k VARCHAR(64) PRIMARY KEY, writes BIGINT NOT NULL, record TEXT NOT NULL)")?;
    a.query(&format!("INSERT INTO bare_limit VALUES ('limit', 0, '{HELD}')"))?;
    rounds(A { client: a }, B { client: Client::connect(address)?, writes: "0".to_owned() })
}

impl Releaser for A {
    fn release(&mut self) -> Result<(), Error> {
        let sql = format!("UPDATE bare_limit SET writes = writes + 1, record = '{FREE}' WHERE k = 'limit'");
        self.client.query(&sql).map(drop)
    }
}

impl B {
    fn read(&mut self) -> Result<String, Error> {
        let rows = self.client.query("SELECT writes, record FROM bare_limit WHERE k = 'limit'")?;
        rows.into_iter().next().and_then(|row| row.into_iter().next()?).ok_or_else(|| "no row".into())
    }
}

impl Taker for B {
    fn wait(&mut self) -> Result<(), Error> {
        loop {
            let writes = self.read()?;
            if std::mem::replace(&mut self.writes, writes) != self.writes {
                return Ok(());
            }
            thread::sleep(POLLING);
        }
    }

    fn take(&mut self) -> Result<(), Error> {
        let sql = format!(
            "UPDATE bare_limit SET writes = writes + 1, record = '{HELD}' WHERE k = 'limit' AND writes = {}",
            self.writes
        );
        self.client.query(&sql).map(drop)
    }

    fn settle(&mut self) -> Result<(), Error> {
        self.writes = self.read()?;
        let rows = self.client.query("SELECT record LIKE '%leasehold%' FROM bare_limit")?;
        match rows[..] == [vec![Some("1".to_owned())]] {
            true => Ok(()),
            false => Err("another client has written".into()),
        }
    }
}
