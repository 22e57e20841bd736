//! A leader that hangs or becomes unfit on a command from standard input.
//!
//! Usage: `hangs --kubeconfig FILE --lease NAME --id ID --lease-duration 5s --renew-deadline 3s --retry-period 500ms
//! [--progress-timeout 3s]`
//!
//! The program leads for one term and prints JSON lines. After the line `hang`, the worker hangs and keeps the guard.
//! After the line `unfit`, the fitness probe returns `false`, the term ends, and the worker drops the guard.

use std::collections::HashMap;
use std::error::Error;
use std::io::{self, BufRead};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use leasehold::kubernetes::{Client, ClientConfig};
use leasehold::{LeaderElector, LeaderGuard};
use lexopt::prelude::*;

/// The duration of one unit of work.
const UNIT: Duration = Duration::from_millis(20);

static HANGS: AtomicBool = AtomicBool::new(false);

fn main() -> Result<(), Box<dyn Error>> {
    let is_fit = Arc::new(AtomicBool::new(true));
    let probed = Arc::clone(&is_fit);
    let mut flags = HashMap::new();
    let mut arguments = lexopt::Parser::from_env();
    while let Some(flag) = arguments.next()? {
        match flag {
            Long(name) => flags.insert(name.to_owned(), arguments.value()?.string()?),
            other => return Err(other.unexpected().into()),
        };
    }
    let text = |name: &str| flags.get(name).ok_or(format!("--{name} is missing"));
    let duration = |name: &str| -> Result<Duration, Box<dyn Error>> { Ok(humantime::parse_duration(text(name)?)?) };
    let mut builder = LeaderElector::builder(text("lease")?)
        .identity(text("id")?)
        .lease_duration(duration("lease-duration")?)
        .renew_deadline(duration("renew-deadline")?)
        .retry_period(duration("retry-period")?)
        .fit_while(move || probed.load(Ordering::SeqCst));
    if flags.contains_key("progress-timeout") {
        builder = builder.progress_timeout(duration("progress-timeout")?);
    }
    let config = ClientConfig::from_kubeconfig(Some(text("kubeconfig")?.as_ref()), None)?;
    let elector = builder.start_with_client(Client::new(config)?)?;
    thread::spawn(move || {
        for line in io::stdin().lock().lines().map_while(Result::ok) {
            if line == "hang" {
                HANGS.store(true, Ordering::SeqCst);
            } else {
                let now = mono();
                is_fit.store(false, Ordering::SeqCst);
                say("unfit", now);
            }
        }
    });
    let guard = elector.block_until_leader()?;
    say("started_leading", mono());
    work(&guard);
    drop(guard);
    say("released", mono());
    loop {
        thread::park();
    }
}

fn work(guard: &LeaderGuard) {
    loop {
        // The clock must be read before the progress report. A later reading would make the measured delay too short.
        let now = mono();
        if !guard.report_progress() {
            return;
        }
        if HANGS.load(Ordering::SeqCst) {
            say("hangs", now);
            loop {
                thread::park();
            }
        }
        let _ = guard.ended().recv_timeout(UNIT);
    }
}

fn say(event: &str, mono: f64) {
    println!(r#"{{"event":"{event}","mono":{mono}}}"#);
}

/// Returns the seconds of `CLOCK_MONOTONIC`, which all processes of a host share.
fn mono() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}
