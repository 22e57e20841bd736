//! The command-line arguments and the output that all benchmarked programs share.

use std::io::{self, Write};
use std::time::Duration;

use lexopt::prelude::*;

pub struct Arguments {
    pub kubeconfig: String,
    pub lease: String,
    pub id: String,
    pub lease_duration: Duration,
    pub renew_deadline: Duration,
    pub retry_period: Duration,
}

impl Arguments {
    pub fn read() -> Result<Self, lexopt::Error> {
        let (mut kubeconfig, mut lease, mut id) = (String::new(), String::new(), String::new());
        let [mut lease_duration, mut renew_deadline, mut retry_period] = [15, 10, 2].map(Duration::from_secs);
        let mut parser = lexopt::Parser::from_env();
        while let Some(flag) = parser.next()? {
            match flag {
                Long("kubeconfig") => kubeconfig = parser.value()?.string()?,
                Long("lease") => lease = parser.value()?.string()?,
                Long("id") => id = parser.value()?.string()?,
                Long("lease-duration") => lease_duration = duration(&mut parser)?,
                Long("renew-deadline") => renew_deadline = duration(&mut parser)?,
                Long("retry-period") => retry_period = duration(&mut parser)?,
                other => return Err(other.unexpected()),
            }
        }
        Ok(Self { kubeconfig, lease, id, lease_duration, renew_deadline, retry_period })
    }
}

fn duration(parser: &mut lexopt::Parser) -> Result<Duration, lexopt::Error> {
    parser.value()?.parse_with(humantime::parse_duration)
}

/// Returns seconds on `CLOCK_MONOTONIC`, which all processes of a host share.
pub fn mono() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}

/// Prints an event and its time as one line of JSON, and flushes stdout.
pub fn say(event: &str) -> io::Result<()> {
    let mono = mono();
    let mut stdout = io::stdout().lock();
    writeln!(stdout, r#"{{"event":"{event}","mono":{mono:.9}}}"#)?;
    stdout.flush()
}
