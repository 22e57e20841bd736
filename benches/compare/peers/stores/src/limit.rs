//! The lower bound of a handover: a write, its notification, and a second write.

pub mod etcd;
pub mod mysql;
pub mod postgres;
pub mod sqlite;

use std::io::{self, BufRead, Write};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use contender::mono;
use serde_json::{Value, json};

use crate::Error;

/// A record with a holder. Its length equals that of a record that leasehold writes.
const HELD: &str = concat!(
    r#"{"holderIdentity":"leasehold-12","leaseDurationSeconds":15,"leaseTransitions":12,"#,
    r#""acquireTime":"2026-01-01T00:00:00.000000Z","renewTime":"2026-01-01T00:00:00.000000Z"}"#
);
const FREE: &str = concat!(
    r#"{"holderIdentity":"","leaseDurationSeconds":1,"leaseTransitions":12,"#,
    r#""acquireTime":"2026-01-01T00:00:00.000000Z","renewTime":"2026-01-01T00:00:00.000000Z"}"#
);

/// The client that releases the record. It has its own connection, like a separate process.
trait Releaser: Send + 'static {
    /// Reads the version that the next release replaces.
    ///
    /// A real holder knows this version from its last write.
    fn learn(&mut self) -> Result<(), Error> {
        Ok(())
    }
    fn release(&mut self) -> Result<(), Error>;
}

/// The client that waits for the release and takes over.
trait Taker {
    /// Blocks until the release is noticed, and remembers the version of the released record.
    fn wait(&mut self) -> Result<(), Error>;
    /// Replaces the record if the record still has the version that `wait` remembered.
    fn take(&mut self) -> Result<(), Error>;
    /// Discards the notification of the write that `take` made.
    fn settle(&mut self) -> Result<(), Error>;
}

fn rounds(mut releaser: impl Releaser, mut taker: impl Taker) -> Result<(), Error> {
    say(json!({ "event": "ready" }))?;
    let (release, releases) = mpsc::channel::<()>();
    let (released, answers) = mpsc::channel();
    thread::spawn(move || {
        let mut learned = releaser.learn();
        for () in releases {
            // The pause is random, so that releases do not always meet the same phase of polling. The last digits of
            // the clock serve as random numbers.
            thread::sleep(Duration::from_secs_f64(mono() * 1e4 % 1.0 / 10.0));
            let sent = mono();
            let answer = learned.and_then(|()| releaser.release());
            let _ = released.send((sent, mono(), answer));
            // Meanwhile, the taker writes. `learn` then reads the version of the taker's write.
            thread::sleep(Duration::from_millis(100));
            learned = releaser.learn();
        }
    });
    for line in io::stdin().lock().lines() {
        line?;
        release.send(())?;
        taker.wait()?;
        let heard = mono();
        taker.take()?;
        let taken = mono();
        let (sent, answered, answer) = answers.recv()?;
        answer?;
        taker.settle()?;
        let (total, heard, write) = (taken - sent, heard - sent, answered - sent);
        say(json!({ "event": "limit", "total": total, "heard_after": heard, "write": write }))?;
    }
    Ok(())
}

fn say(line: Value) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{line}")?;
    stdout.flush()
}
