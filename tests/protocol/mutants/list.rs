//! What is broken, why that is deadly, and which check catches it. `list` has a file for each topic.
//!
//! Equivalent, and therefore not here:
//!
//! - the latest of several open writes that match is adopted instead of the earliest: no two of them match one record,
//!   for `renewTime` moves with every write;
//! - an open write is closed when a version at its base is learned: a write's base is never above what is known, so
//!   nothing that is news is at the base of an open write. (A read at the base is no news, and is here.)

mod both;
mod command;
mod elector;
mod fitness;
mod handles;
mod heads;
mod order;
mod postgres;
mod sqlite;
mod terms;
mod texts;
mod threads;
mod watches;

use std::fmt;

use Check::{Binary, Simulation, Test, Threads, Unit};

pub use texts::mutants;

pub const MUTANTS: &[&[Mutant]] = &[
    terms::MUTANTS,
    order::MUTANTS,
    watches::MUTANTS,
    elector::MUTANTS,
    handles::MUTANTS,
    threads::MUTANTS,
    both::MUTANTS,
    command::MUTANTS,
    fitness::MUTANTS,
    heads::MUTANTS,
    postgres::MUTANTS,
    sqlite::MUTANTS,
];

const CALLBACKS: &str = "src/elector/callbacks.rs";
const CAMPAIGN: &str = "src/leadership/campaign/mod.rs";
const CLIENT: &str = "src/backends/kubernetes/client/http_client.rs";
const COMMAND_TERM: &str = "src/cli/run/term.rs";
const CONFIG: &str = "src/election/settings.rs";
const DEADLINE: &str = "src/election/deadline.rs";
const DEDICATED: &str = "src/runtime/dedicated.rs";
const STATE: &str = "src/runtime/state.rs";
const PAIR: &str = "src/election/candidate/pair/mod.rs";
const ECHO: &str = "src/net/echo.rs";
const ELECTION: &str = "src/election/mod.rs";
const ELECTOR: &str = "src/elector/leader_elector.rs";
const ENDING: &str = "src/election/ending.rs";
const EVENTS: &str = "src/backends/kubernetes/events.rs";
const EXEC: &str = "src/cli/run/exec.rs";
const FAILURES: &str = "src/election/candidate/failures.rs";
const FITNESS_POLICY: &str = "src/election/candidate/fitness.rs";
const FITNESS: &str = "src/leadership/fitness.rs";
const PROBING: &str = "src/runtime/probing.rs";
const GUARD: &str = "src/leadership/guard/mod.rs";
const GUARDIAN: &str = "src/cli/run/guardian/mod.rs";
const GUARDIAN_PROCESS: &str = "src/cli/run/guardian/process.rs";
const HANDLE: &str = "src/leadership/handle.rs";
const HEALTH: &str = "src/observe/health.rs";
const JSON: &str = "src/net/json.rs";
const LINES: &str = "src/net/lines.rs";
const MASK: &str = "src/net/redact.rs";
const OBJECT: &str = "src/backends/kubernetes/object.rs";
const OBSERVING: &str = "src/runtime/observing.rs";
const OUTGOING: &str = "src/net/outgoing.rs";
const PROGRESS: &str = "src/election/progress.rs";
const REQUESTS: &str = "src/election/requests.rs";
const REQUEST_LOG: &str = "src/backends/kubernetes/client/request_log.rs";
const RESPONSES: &str = "src/election/responses.rs";
const ROUND_TRIP: &str = "src/election/round_trip.rs";
const SCOPE: &str = "src/leadership/guard/scope.rs";
const SESSION: &str = "src/election/candidate/session/mod.rs";
const SLOT: &str = "src/leadership/campaign/slot.rs";
const STATUS: &str = "src/backends/kubernetes/client/status/mod.rs";
const STOP_REASON: &str = "src/election/stop_reason.rs";
const SUPERVISOR: &str = "src/cli/run/supervisor.rs";
const TERM: &str = "src/leadership/term.rs";
const TIMES: &str = "src/cli/run/times.rs";
const TRANSITION: &str = "src/observe/transition.rs";
const TRANSPORT: &str = "src/net/transport.rs";
const WORK: &str = "src/leadership/progress.rs";
const WATCH: &str = "src/election/watch.rs";
const WATCHER: &str = "src/runtime/watcher.rs";
const WATCHING: &str = "src/election/watching.rs";
const WATCH_PLAN: &str = "src/election/candidate/watch_plan.rs";

pub struct Mutant {
    pub name: &'static str,
    pub why: &'static str,
    pub edits: &'static [Edit],
    pub caught_by: Check,
}

/// Somewhere in the body of a function. `old` stands in the file exactly once; what comes before and after the change, and
/// only makes it so, may lie outside of that function.
pub struct Edit {
    pub file: &'static str,
    pub old: &'static str,
    pub new: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// A suite of the simulation.
    Simulation(&'static str),
    /// A test of the library itself.
    Unit(&'static str),
    /// A test of the command itself.
    Binary(&'static str),
    /// A test in a file of `tests`.
    Test(&'static str, &'static str),
    /// A model of the threads, in `tests/threads/shuttle`.
    Threads(&'static str),
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Simulation(test) => write!(f, "simulation, {test}"),
            Unit(test) | Binary(test) => f.write_str(test),
            Test(file, test) => write!(f, "tests/{file}, {test}"),
            Threads(model) => write!(f, "threads, {model}"),
        }
    }
}
