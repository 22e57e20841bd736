//! A handover without an election: a write, its notice, a write.

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

/// As long as one of leasehold's.
const HELD: &str = concat!(
    r#"{"holderIdentity":"leasehold-12","leaseDurationSeconds":15,"leaseTransitions":12,"#,
    r#""acquireTime":"2026-01-01T00:00:00.000000Z","renewTime":"2026-01-01T00:00:00.000000Z"}"#
);
const FREE: &str = concat!(
    r#"{"holderIdentity":"","leaseDurationSeconds":1,"leaseTransitions":12,"#,
    r#""acquireTime":"2026-01-01T00:00:00.000000Z","renewTime":"2026-01-01T00:00:00.000000Z"}"#
);

/// Whoever has it. With connections of its own, as if in a process of its own.
trait Releaser: Send + 'static {
    /// Learns what its next write is to replace, which whoever has it knows.
    fn learn(&mut self) -> Result<(), Error> {
        Ok(())
    }
    fn release(&mut self) -> Result<(), Error>;
}

/// Whoever waits for it.
trait Taker {
    /// Until it is told of the release and knows what to write onto.
    fn wait(&mut self) -> Result<(), Error>;
    /// Writes onto that and nothing else.
    fn take(&mut self) -> Result<(), Error>;
    /// What its own write has told is not for the next round.
    fn settle(&mut self) -> Result<(), Error>;
}

fn rounds(mut releaser: impl Releaser, mut taker: impl Taker) -> Result<(), Error> {
    say(json!({ "event": "ready" }))?;
    let (release, releases) = mpsc::channel::<()>();
    let (released, answers) = mpsc::channel();
    thread::spawn(move || {
        let mut learned = releaser.learn();
        for () in releases {
            // At no moment that a poller knows. The clock's last digits are as good as random.
            thread::sleep(Duration::from_secs_f64(mono() * 1e4 % 1.0 / 10.0));
            let sent = mono();
            let answer = learned.and_then(|()| releaser.release());
            let _ = released.send((sent, mono(), answer));
            // What the other has written meanwhile, long before the next round.
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
