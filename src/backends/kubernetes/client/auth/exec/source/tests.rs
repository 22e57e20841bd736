use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::*;
use crate::backends::kubernetes::client::auth::exec::{DEFAULT_LIMIT, ExecStderr};
use crate::net::interrupt::Interrupter;
use crate::net::tests::{Scratch, wait_until};

const LONG: Duration = Duration::from_secs(30);

/// Returns a source whose plugin prints tokens that expire `life` after this call.
fn source(scratch: &Scratch, life: Duration) -> ExecSource {
    let expires = humantime::format_rfc3339_micros(SystemTime::now() + life);
    let script = format!(
        "echo x >> {}\necho '{{\"apiVersion\":\"v\",\"kind\":\"ExecCredential\",\"status\":{{\"token\":\"t\",\
         \"expirationTimestamp\":\"{expires}\"}}}}'\n",
        scratch.path().join("log").display()
    );
    let script = scratch.file("plugin.sh", script);
    ExecSource::new(ExecPlugin {
        api_version: "v".to_owned(),
        command: PathBuf::from("/bin/sh"),
        args: vec![script.display().to_string()],
        env: Vec::new(),
        install_hint: None,
        cluster_info: None,
        limit: DEFAULT_LIMIT,
        stderr: ExecStderr::default(),
    })
}

fn limits(interrupter: &Interrupter) -> Limits<'_> {
    Limits { deadline: Instant::now() + LONG, interrupter }
}

fn use_it(source: &ExecSource) {
    source.current(limits(&Interrupter::default())).map_err(|e| e.to_string()).expect("credentials");
}

fn starts(scratch: &Scratch) -> usize {
    scratch.lines("log")
}

#[test]
fn the_thread_that_waits_for_a_refresh_ends_with_its_client() {
    let scratch = Scratch::new();
    let source = source(&scratch, Duration::from_secs(3600));
    use_it(&source);
    let shared = Arc::downgrade(&source.shared);
    wait_until("the thread waits", || source.shared.state.lock().waits.is_some());
    assert!(shared.strong_count() > 1, "the thread exists");
    drop(source);
    wait_until("the thread is gone", || shared.strong_count() == 0);
}

#[test]
fn run_after_a_rejection_ends_the_waiting_refresh_thread() {
    let scratch = Scratch::new();
    let source = source(&scratch, Duration::from_secs(3600));
    let interrupter = Interrupter::default();
    let mut credentials = source.current(limits(&interrupter)).map_err(|e| e.to_string()).unwrap();
    for run in 2..5 {
        let renewed = source.after_rejection(&credentials, limits(&interrupter));
        credentials = renewed.map_err(|e| e.to_string()).unwrap();
        assert_eq!(starts(&scratch), run);
    }
    wait_until("one thread is left", || Arc::strong_count(&source.shared) == 2);
}

#[test]
fn refresh_needs_no_request_but_an_unused_client_runs_no_plugin() {
    let scratch = Scratch::new();
    let source = source(&scratch, Duration::from_secs(4));
    use_it(&source);
    wait_until("the refresh begins by itself", || starts(&scratch) == 2);
    // No request has used the credentials of the second run.
    wait_until("the thread is gone", || Arc::strong_count(&source.shared) == 1);
    assert_eq!(starts(&scratch), 2);
}

#[test]
fn a_newer_credential_than_the_rejected_one_saves_a_run() {
    let scratch = Scratch::new();
    let source = source(&scratch, Duration::from_secs(3600));
    use_it(&source);
    // These are the credentials of a request that began before the run ended.
    let older = Credentials::default();
    let newer = source.after_rejection(&older, limits(&Interrupter::default())).map_err(|e| e.to_string()).unwrap();
    assert!(newer.authorization.is_some());
    assert_eq!(starts(&scratch), 1);
}
