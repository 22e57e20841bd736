//! The lower bound on SQLite: an UPDATE, an inotify event, a SELECT, and a second UPDATE.
//!
//! After each UPDATE, the client touches the write-ahead log. The touch causes the inotify event.

use std::path::{Path, PathBuf};

use rusqlite::{Connection, params};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_NOW, utimensat};

use super::{FREE, HELD, Releaser, Taker, rounds};
use crate::Error;

struct A {
    connection: Connection,
    log: PathBuf,
}

struct B {
    connection: Connection,
    log: PathBuf,
    changes: OwnedFd,
    writes: i64,
}

pub fn measure(file: &Path) -> Result<(), Error> {
    let a = open(file)?;
    a.execute_batch(
        "CREATE TABLE bare_limit (key TEXT PRIMARY KEY, writes INTEGER NOT NULL, record TEXT NOT NULL) STRICT",
    )?;
    a.execute("INSERT INTO bare_limit VALUES ('limit', 0, ?1)", [HELD])?;
    let b = open(file)?;
    let mut log = file.as_os_str().to_owned();
    log.push("-wal");
    let log = PathBuf::from(log);
    let changes = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&changes, &log, WatchFlags::ATTRIB)?;
    rounds(A { connection: a, log: log.clone() }, B { connection: b, log, changes, writes: 0 })
}

fn open(file: &Path) -> Result<Connection, Error> {
    let connection = Connection::open(file)?;
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    connection.execute_batch("PRAGMA synchronous = FULL")?;
    Ok(connection)
}

impl Releaser for A {
    fn release(&mut self) -> Result<(), Error> {
        let mut update = self
            .connection
            .prepare_cached("UPDATE bare_limit SET writes = writes + 1, record = ?1 WHERE key = 'limit'")?;
        update.execute([FREE])?;
        touch(&self.log)
    }
}

impl Taker for B {
    fn wait(&mut self) -> Result<(), Error> {
        self.changed()?;
        let mut select = self.connection.prepare_cached("SELECT writes, record FROM bare_limit WHERE key = 'limit'")?;
        let (writes, record): (i64, String) = select.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        if record != FREE {
            return Err("notified too early".into());
        }
        self.writes = writes;
        Ok(())
    }

    fn take(&mut self) -> Result<(), Error> {
        let mut update = self.connection.prepare_cached(
            "UPDATE bare_limit SET writes = writes + 1, record = ?1 WHERE key = 'limit' AND writes = ?2",
        )?;
        match update.execute(params![HELD, self.writes])? {
            1 => touch(&self.log),
            _ => Err("another client has written".into()),
        }
    }

    fn settle(&mut self) -> Result<(), Error> {
        self.changed()
    }
}

impl B {
    fn changed(&self) -> Result<(), Error> {
        poll(&mut [PollFd::new(&self.changes, PollFlags::IN)], None)?;
        rustix::io::read(&self.changes, &mut [0; 4096])?;
        Ok(())
    }
}

fn touch(log: &Path) -> Result<(), Error> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    Ok(utimensat(CWD, log, &times, AtFlags::empty())?)
}
