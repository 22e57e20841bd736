//! `leasehold run --group`: runs one command for each owned shard.
//!
//! Each command has its own guardian, which finds all processes of its command and of no other command.

use std::ffi::OsString;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, never, select, unbounded};
use leasehold::group::{LeaseGroupBuilder, Shard};
use leasehold::store::StoreErrorKind;
use leasehold::{Event, Observer, Settings, Stop};
use parking_lot::Mutex;
use signal_hook::consts::{SIGCHLD, SIGINT, SIGTERM};

use super::command::by_signal;
use super::descendants;
use super::guardian::{Guarded, Guardian};
use super::messages::signal_name;
use super::signals::Caught;
use super::term::{self, Means, Why, WorkRight};
use super::times::Times;
use crate::election::{Error, PlaceArgs, RecordPlace};
use crate::log::COMMAND;

/// The interval between checks whether the lease was renewed.
const BETWEEN_LOOKS: Duration = Duration::from_millis(50);

/// The parts of the supervisor that the commands of all shards use.
pub struct ShardMeans {
    /// The command and its arguments.
    pub arguments: Vec<OsString>,
    pub signals: Receiver<Caught>,
    pub times: Times,
    pub settings: Settings,
    /// The time to wait for the end of killed processes.
    pub drain_timeout: Duration,
    pub failure: LastFailure,
}

/// The kind of the last failure since the last renewal. Clones share the value.
#[derive(Clone, Default)]
pub struct LastFailure(Arc<Mutex<Option<StoreErrorKind>>>);

impl Observer for LastFailure {
    fn on_event(&self, event: &Event) {
        let mut last = self.0.lock();
        match event {
            Event::Request(outcome) => *last = outcome.failure.or(*last),
            Event::Renewed { .. } => *last = None,
            _ => {}
        }
    }
}

impl LastFailure {
    fn describe(&self) -> String {
        let kind = *self.0.lock();
        kind.map_or_else(|| "no request has failed".to_owned(), |kind| format!("the last request failed ({kind:?})"))
    }
}

/// The part of the supervisor that runs on the threads of the shards.
struct ShardCommands {
    means: ShardMeans,
    /// Receives the signal that ends this process, or the error.
    orders: Sender<Result<i32, String>>,
    /// Pass signals on to the running commands.
    listeners: Mutex<Vec<Sender<Caught>>>,
}

/// Runs one command for each owned shard, until a signal ends this process.
///
/// Returns the exit code.
///
/// # Errors
///
/// Returns an error if the group cannot be started or has ended, or if a process of a command cannot be killed.
pub fn run(builder: LeaseGroupBuilder, place: &PlaceArgs, means: ShardMeans) -> Result<u8, Error> {
    let group = match place.open(None, true)? {
        RecordPlace::Cluster(client) => {
            place.namespace.iter().fold(builder, LeaseGroupBuilder::namespace).start_with_client(*client)?
        }
        RecordPlace::Store(store) => builder.start_on(store)?,
    };
    let signals = means.signals.clone();
    let (stop, (done, left), (order, orders)) = (Stop::new(), bounded(1), unbounded());
    let commands = Arc::new(ShardCommands { means, orders: order, listeners: Mutex::default() });
    // If a process of a command cannot be killed, this process exits without the end of the thread. The shards then
    // move when the slot expires.
    thread::Builder::new().name("group".into()).spawn({
        let (stop, commands) = (stop.clone(), Arc::clone(&commands));
        move || done.send(group.run_until(&stop, |shard| commands.run(shard).map_err(Into::into)))
    })?;
    let mut code = by_signal(SIGTERM);
    loop {
        let signal = select! {
            recv(left) -> left => return left?.map(|()| code).map_err(Error::from),
            recv(orders) -> order => order??,
            recv(signals) -> caught => match commands.pass_on(caught?) {
                Some(signal) => signal,
                None => continue,
            },
        };
        if !stop.is_stopped() {
            log::info!(target: COMMAND, "received {}, leaving the group", signal_name(signal));
            code = by_signal(signal);
            stop.stop();
        }
    }
}

impl ShardCommands {
    /// Passes a signal on to the running commands. Returns the signal if it ends this process.
    fn pass_on(&self, caught: Caught) -> Option<i32> {
        match caught.signal {
            SIGTERM | SIGINT => return Some(caught.signal),
            SIGCHLD => descendants::reap(&descendants::own().unwrap_or_default()),
            _ => {}
        }
        let mut listeners = self.listeners.lock();
        listeners.retain(|listener| listener.send(caught).is_ok());
        (listeners.is_empty() && caught.ends_us()).then_some(caught.signal)
    }

    /// Runs the command of the shard, until no process of the command is left.
    ///
    /// A command that was stopped because the lease was not renewed runs again after the next renewal.
    ///
    /// # Errors
    ///
    /// Returns an error if the command was not started, failed, or lost its guardian.
    fn run(&self, shard: &Shard) -> Result<(), String> {
        while matches!(self.run_once(shard)?, Some(Why::NotRenewed(_))) {
            let mut remaining = shard.remaining();
            while shard.remaining() <= remaining {
                remaining = shard.remaining();
                let _ = shard.recalled().recv_timeout(BETWEEN_LOOKS);
                if shard.is_recalled() || !shard.is_owned() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns the reason why the command was stopped, or `None` if the command has ended with success.
    fn run_once(&self, shard: &Shard) -> Result<Option<Why>, String> {
        let ShardMeans { arguments, times, settings, drain_timeout, failure, .. } = &self.means;
        let failure = failure.clone();
        let index = shard.index();
        let environment = vec![
            ("LEASEHOLD_LEASE", shard.key().to_owned()),
            ("LEASEHOLD_SHARD", index.to_string()),
            ("LEASEHOLD_IDENTITY", settings.identity.clone()),
        ];
        let guarded = Guarded { arguments: arguments.clone(), environment };
        let guardian = Guardian::start(&guarded).map_err(|error| format!("cannot start the guardian: {error}"))?;
        let (listener, signals) = unbounded();
        self.listeners.lock().push(listener);
        let mut means = Means {
            guardian,
            signals,
            renewals: never(),
            last_error: Box::new(move || failure.describe()),
            judge: None,
            times: *times,
            command: format!("command of shard {index}"),
            retry_period: settings.retry_period,
            drain_timeout: *drain_timeout,
        };
        let outcome = term::lead(WorkRight::Shard(shard), &mut means, None);
        if !outcome.is_gone {
            let _ = self.orders.send(Err(format!("shard {index}: {}", term::NOT_KILLED)));
            // The shard is not dropped, because a remaining process acts as if the shard were owned.
            loop {
                thread::park();
            }
        }
        outcome.told.into_iter().for_each(|signal| drop(self.orders.send(Ok(signal))));
        match (outcome.why, outcome.end) {
            (None, Some(end)) if end.exit_code() == 0 => Ok(None),
            (None, Some(end)) => Err(format!("command ended {end}")),
            (Some(why @ (Why::NotRenewed(_) | Why::ShardRecalled | Why::ShardLost)), _) => Ok(Some(why)),
            (Some(why), _) => Err(format!("command was stopped: {why}")),
            (None, None) => Err("command lost".to_owned()),
        }
    }
}
