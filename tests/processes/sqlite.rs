//! Candidates on one file, in processes of their own and in this one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use leasehold::crossbeam_channel::{Receiver, Sender, bounded, select};
use leasehold::{LeaderElector, SqliteStore};
use rusqlite::Connection;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::leader_election::{LONG, SHORT, hands_over, is_followed_when_killed, knows_when_it_wakes};
use crate::support::exclusion::History;
use crate::support::process::{Candidate, Line, Stage, mono};

struct Place {
    _scratch: TempDir,
    path: PathBuf,
}

impl Place {
    fn new() -> Self {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let path = scratch.path().join("election.db");
        Self { _scratch: scratch, path }
    }

    fn stage(&self, flags: &[&str]) -> Stage {
        Stage::on_store(&format!("sqlite://{}", self.path.display()), "jobs", flags)
    }

    fn holder(&self) -> Option<String> {
        let operator = Connection::open(&self.path).expect("a connection");
        let holder = "SELECT holder_identity FROM leasehold WHERE key = 'jobs'";
        let holder: Option<String> = operator.query_row(holder, [], |row| row.get(0)).expect("a row");
        holder.filter(|holder| !holder.is_empty())
    }
}

#[test]
fn sigterm_hands_a_file_over() {
    let place = Place::new();
    hands_over(&place.stage(LONG), Signal::TERM, || place.holder());
}

#[test]
fn a_killed_leader_by_a_file_is_followed_when_its_lease_ran_out() {
    is_followed_when_killed(&Place::new().stage(SHORT));
}

#[test]
fn a_leader_by_a_file_that_was_stopped_past_its_lease_knows_when_it_wakes() {
    knows_when_it_wakes(&Place::new().stage(SHORT));
}

/// A candidate on a thread of this process, with a store of its own, which says what the example says.
struct Local {
    id: String,
    step_down: Sender<()>,
}

impl Local {
    fn begin<'scope>(threads: &'scope thread::Scope<'scope, '_>, stage: &'scope Stage, path: &Path, id: &str) -> Self {
        let (step_down, told) = bounded(1);
        let store = SqliteStore::open(path).expect("a store");
        let builder = LeaderElector::builder("jobs").identity(id).lease_duration(Duration::from_secs(60));
        let elector = builder.retry_period(Duration::from_millis(250)).start_on(store).expect("an elector");
        threads.spawn(move || while lead(&elector, stage, &told) {});
        Self { id: id.to_owned(), step_down }
    }
}

/// One term, until it is told. False when there is to be no other.
fn lead(elector: &LeaderElector, stage: &Stage, told: &Receiver<()>) -> bool {
    let campaign = elector.campaign().expect("a campaign");
    let guard = select! {
        recv(campaign.receiver()) -> won => won.expect("an answer").expect("a term"),
        recv(told) -> told => {
            assert!(told.is_err(), "who does not lead is not told to end");
            return false;
        }
    };
    let say = |event: &str, mono: f64| {
        let token = Some(guard.fencing_token());
        let (event, identity) = (event.to_owned(), elector.identity().to_owned());
        stage.say(Line { event, identity, mono, fencing_token: token, leader: None, reason: None });
    };
    say("started_leading", mono());
    loop {
        let stamp = mono();
        assert!(guard.is_leader(), "nobody takes it away");
        say("leading", stamp);
        select! {
            recv(told) -> told => return told.is_ok(),
            default(Duration::from_millis(2)) => {}
        }
    }
}

/// Three processes and three threads, each with connections of its own.
#[test]
fn a_hundred_handovers_among_threads_and_processes_are_one_after_another() {
    const HANDOVERS: usize = 100;
    let place = Place::new();
    let flags = ["--lease-duration=60s", "--retry-period=250ms", "--heartbeat=2ms"];
    let stage = place.stage(&flags);
    let history = thread::scope(|threads| {
        let locals = ["x", "y", "z"].map(|id| Local::begin(threads, &stage, &place.path, id));
        let mut processes: Vec<Candidate> = ["a-0", "b-0", "c-0"].map(|id| stage.candidate(id)).into();
        let (mut token, mut handovers, mut last) = (0, 0, None);
        while handovers <= HANDOVERS {
            let leader = stage.wait_for_leader_after(token);
            token = leader.token();
            // One that has ended its term is a candidate like the others.
            handovers += usize::from(last.replace(leader.identity.clone()).as_ref() != Some(&leader.identity));
            let leads = |line: &Line| line.event == "leading" && line.token() == token;
            stage.wait_for("it leads", leads);
            if let Some(local) = locals.iter().find(|local| local.id == leader.identity) {
                local.step_down.send(()).expect("it runs");
                continue;
            }
            let index = processes.iter().position(|it| it.id == leader.identity).expect("one of ours");
            let process = processes.swap_remove(index);
            process.signal(Signal::TERM);
            processes.push(stage.candidate(&format!("{}-{token}", &leader.identity[..1])));
            let end = process.end();
            assert_eq!((end.code, &*end.complaints), (Some(0), ""));
        }
        stage.wait_for_leader_after(token);
        drop(locals);
        History::of(&stage.lines())
    });
    assert!(history.overlaps.is_empty(), "two led at a time: {:?}", history.overlaps);
    assert!(history.disorder.is_empty(), "tokens do not grow: {:?}", history.disorder);
    assert!(history.handovers() >= HANDOVERS, "{:?}", history.terms);
    let led: BTreeSet<_> = history.terms.iter().map(|term| &term.identity[..1]).collect();
    assert!(led.iter().any(|it| *it < "x") && led.iter().any(|it| *it >= "x"), "both kinds have led: {led:?}");
    let mut gaps: Vec<_> = history.terms.windows(2).map(|pair| pair[1].first - pair[0].last).collect();
    gaps.sort_by(f64::total_cmp);
    println!("{} handovers, {:.1} ms between two in the middle", history.handovers(), gaps[gaps.len() / 2] * 1000.0);
}
