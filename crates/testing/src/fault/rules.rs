//! The active faults of a server, and their handles.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::fault::kind::{Action, Fault};
use crate::server::log::RequestLog;
use crate::util::debug_fields;
use crate::wire::signal::FlagSignal;

/// A handle to a fault that was added to a server.
///
/// Dropping the handle does not end the fault. To end the fault, call [`remove`](FaultHandle::remove) or
/// [`ApiServer::clear_faults`](crate::ApiServer::clear_faults). Clones are handles to the same fault. All
/// methods may be called from any thread.
///
/// # Examples
///
/// ```
/// use leasehold_testing::{ApiServer, Fault};
///
/// let server = ApiServer::start()?;
/// let outage = server.fault(Fault::status(503, "ServiceUnavailable", "shutting down"));
/// // … run the code under test …
/// outage.remove();
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct FaultHandle {
    rule: Arc<Rule>,
    signal: Arc<FlagSignal>,
    /// Makes requests and open streams evaluate the rules again.
    wake: Arc<dyn Fn() + Send + Sync>,
}

/// A fault, with its state.
#[derive(Debug)]
pub(crate) struct Rule {
    pub id: u64,
    pub fault: Fault,
    state: Mutex<RuleState>,
}

#[derive(Debug, Default)]
struct RuleState {
    seen: u64,
    hits: u64,
    releases: u64,
    is_removed: bool,
}

/// A request or a stream that a rule has hit. A release of the rule ends the hit.
#[derive(Clone, Debug)]
pub(crate) struct Hit {
    rule: Arc<Rule>,
    releases: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Rules {
    rules: Mutex<Vec<Arc<Rule>>>,
    next: AtomicU64,
}

impl FaultHandle {
    pub(crate) fn new(rule: Arc<Rule>, signal: Arc<FlagSignal>, wake: Arc<dyn Fn() + Send + Sync>) -> FaultHandle {
        FaultHandle { rule, signal, wake }
    }

    /// Returns the number of requests that the fault has hit. A watch fault counts streams.
    pub fn hits(&self) -> u64 {
        self.rule.state.lock().hits
    }

    /// Waits until [`hits`](FaultHandle::hits) has reached `count`.
    ///
    /// Returns `false` after `timeout`.
    pub fn wait_for_hits(&self, count: u64, timeout: Duration) -> bool {
        self.signal.wait(Instant::now().checked_add(timeout), || self.hits() >= count)
    }

    /// Releases every request and stream that the fault holds. Later requests are hit again.
    pub fn release(&self) {
        self.rule.state.lock().releases += 1;
        (self.wake)();
    }

    /// Ends the fault and releases the requests that it holds.
    pub fn remove(&self) {
        self.rule.state.lock().is_removed = true;
        (self.wake)();
    }
}

debug_fields!(impl Debug for FaultHandle { self => fault: self.rule.fault, hits: self.hits(), .. });

impl Rule {
    /// Counts a matching request. Returns a hit if the rule applies to the request.
    pub fn decide(self: &Arc<Rule>) -> Option<Hit> {
        let matcher = &self.fault.matcher;
        let mut state = self.state.lock();
        let turn = state.seen.checked_sub(matcher.skip);
        state.seen += 1;
        let hit = turn.is_some_and(|turn| matcher.every.is_none_or(|nth| turn % nth == 0))
            && matcher.first.is_none_or(|first| state.hits < first)
            && matcher.probability.is_none_or(|p| fastrand::f64() < p);
        if !hit {
            return None;
        }
        state.hits += 1;
        Some(Hit { rule: self.clone(), releases: state.releases })
    }
}

impl Hit {
    pub fn action(&self) -> &Action {
        &self.rule.fault.action
    }

    /// Returns `true` while the fault holds the request.
    pub fn holds(&self) -> bool {
        let state = self.rule.state.lock();
        !state.is_removed && state.releases == self.releases
    }
}

impl Rules {
    pub fn add(&self, fault: Fault) -> Arc<Rule> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let rule = Arc::new(Rule { id, fault, state: Mutex::default() });
        self.rules.lock().push(rule.clone());
        rule
    }

    pub fn clear(&self) {
        for rule in self.rules.lock().drain(..) {
            rule.state.lock().is_removed = true;
        }
    }

    /// Returns the faults that hit a request: any delays, and at most one other fault.
    pub fn pick(&self, request: &RequestLog) -> Vec<Hit> {
        let mut hits = Vec::new();
        for rule in self.matching(request, false) {
            if let Some(hit) = rule.decide() {
                let last = !hit.action().is_delay();
                hits.push(hit);
                if last {
                    break;
                }
            }
        }
        hits
    }

    /// Returns the rules that may hit a request: the watch faults, or all other faults.
    pub fn matching(&self, request: &RequestLog, watch_faults: bool) -> Vec<Arc<Rule>> {
        let mut rules = self.rules.lock();
        rules.retain(|rule| !rule.state.lock().is_removed);
        rules
            .iter()
            .filter(|rule| rule.fault.action.is_watch_fault() == watch_faults)
            .filter(|rule| rule.fault.matcher.matches(request))
            .cloned()
            .collect()
    }
}
