//! A hundred handovers between processes and threads of this one, which all want the same.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use leasehold::crossbeam_channel::{Receiver, Sender, bounded, select};
use leasehold::{LeaderElector, Store};
use rustix::process::Signal;

use crate::support::exclusion::History;
use crate::support::process::{Candidate, Line, Stage, mono};

/// For the processes.
pub const FLAGS: &[&str] =
    &["--lease-duration=60s", "--retry-period=250ms", "--release-timeout=20s", "--heartbeat=2ms"];

/// A candidate on a thread of this process, with a store of its own, which says what the example says.
struct Local {
    id: String,
    step_down: Sender<()>,
}

impl Local {
    fn begin<'scope>(
        threads: &'scope thread::Scope<'scope, '_>,
        stage: &'scope Stage,
        store: impl Store,
        id: &str,
    ) -> Self {
        let (step_down, told) = bounded(1);
        let builder = LeaderElector::builder("jobs").identity(id).lease_duration(Duration::from_secs(60));
        let builder = builder.retry_period(Duration::from_millis(250)).release_timeout(Duration::from_secs(20));
        let elector = builder.start_on(store).expect("an elector");
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

/// Three processes and three threads, each with a store of its own. What befalls the store at each handover is up to the caller.
pub fn are_one_after_another<S: Store>(stage: &Stage, store: impl Fn() -> S, fault: impl Fn(usize)) {
    const HANDOVERS: usize = 100;
    let history = thread::scope(|threads| {
        let mut processes: Vec<Candidate> = ["a-0", "b-0", "c-0"].map(|id| stage.candidate(id)).into();
        // On a busy machine, threads are faster than processes that start.
        stage.wait_for_leader_after(0);
        let locals = ["x", "y", "z"].map(|id| Local::begin(threads, stage, store(), id));
        let (mut token, mut handovers, mut last) = (0, 0, None);
        while handovers <= HANDOVERS {
            let leader = stage.wait_for_leader_after(token);
            token = leader.token();
            // One that has ended its term is a candidate like the others.
            if last.replace(leader.identity.clone()).as_ref() != Some(&leader.identity) {
                handovers += 1;
                fault(handovers);
            }
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
            // It may have complained of what befell the store.
            assert_eq!(end.code, Some(0), "{}", end.complaints);
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
