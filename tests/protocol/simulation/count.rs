//! Counts of what has happened, for the report.

use std::collections::BTreeMap;
use std::fmt;

use crate::clock::{Nanos, SECOND};
use crate::plan::Suite;

/// The faults that must occur in every suite on one object.
const FAULTS: [&str; 28] = [
    "answers doubled",
    "answers late",
    "answers lost",
    "changes of a clock's rate",
    "compactions",
    "connections dropped",
    "crashes",
    "cuts",
    "edits of metadata",
    "handovers after a delay",
    "handovers by request",
    "jumps of a clock",
    "pauses",
    "requests cut off",
    "requests doubled",
    "requests late",
    "requests lost",
    "servers behind",
    "steps of a wall clock",
    "terms ended by a request",
    "threads held up",
    "watches broken",
    "watches ended",
    "watches expired",
    "watches late",
    "watches refused",
    "watches stale",
    "watches stalled",
];

/// The events that must occur in every suite on two objects.
const FAULTS_ON_TWO: [&str; 8] = [
    "crashes",
    "losses",
    "pauses",
    "step-downs",
    "terms of the unfit",
    "terms on both",
    "terms without progress",
    "withdrawals",
];

/// The events that must occur in the suite of groups.
const FAULTS_OF_GROUPS: [&str; 26] = [
    "answers late",
    "changed records",
    "closes",
    "crashes",
    "cuts",
    "deletions",
    "drain timeouts",
    "edits of metadata",
    "ended terms",
    "events doubled",
    "events late",
    "foreign texts",
    "leaves",
    "lost watches",
    "pauses",
    "repairs",
    "requests late",
    "restored stores",
    "returns",
    "shorter lease durations",
    "watches broken",
    "watches reopened",
    "watches silent",
    "watches silent after a restore",
    "workers that hang",
    "workers that return by themselves",
];

#[derive(Debug, Clone, Default)]
pub struct Count {
    /// Events that were carried out, except timers that had become obsolete.
    pub steps: u64,
    pub candidates: u64,
    pub requests: u64,
    /// Events that watches delivered.
    pub events: u64,
    pub terms: u64,
    /// Graceful handovers after the faults, to a standby with an open watch.
    pub handovers: u64,
    /// The time that the slowest of these handovers took.
    pub slowest_handover: Nanos,
    /// The longest time from the last fault to a leader.
    pub slowest_recovery: Nanos,
    pub truth: Nanos,
    faults: BTreeMap<&'static str, u64>,
    /// The longest times until a group recovered, in lease durations.
    slowest: BTreeMap<&'static str, f64>,
}

impl Count {
    pub fn years(&self) -> f64 {
        self.truth as f64 / SECOND as f64 / (86_400.0 * 365.25)
    }

    /// Returns the events that must have happened in many seeds of the suite, but have not.
    ///
    /// Without these events, the suite tests less than it should.
    pub fn missing(&self, suite: Suite) -> Vec<&'static str> {
        if suite == Suite::Groups {
            return FAULTS_OF_GROUPS.into_iter().filter(|kind| !self.faults.contains_key(kind)).collect();
        }
        if suite.is_on_two() {
            let on_one = if suite == Suite::WithMultiLock { "terms of client-go" } else { "terms on one" };
            let all = FAULTS_ON_TWO.into_iter().chain([on_one]);
            return all.filter(|kind| !self.faults.contains_key(kind)).collect();
        }
        let of_the_suite: &[&str] = match suite {
            Suite::Operator => &["deletions", "edits of the record"],
            Suite::Restored => &["restored stores", "servers of a former life"],
            Suite::Fitness => &["terms of the unfit", "terms without progress", "rounds not held back"],
            _ => &["rounds not held back"],
        };
        let faults = FAULTS.iter().chain(of_the_suite).copied().filter(|kind| !self.faults.contains_key(kind));
        let others = [("terms", self.terms), ("handovers", self.handovers), ("watch events", self.events)];
        faults.chain(others.into_iter().filter(|(_, count)| *count == 0).map(|(what, _)| what)).collect()
    }

    pub fn fault(&mut self, kind: &'static str) {
        *self.faults.entry(kind).or_default() += 1;
    }

    /// Notes how long a group needed to recover, in lease durations.
    pub fn slowest(&mut self, what: &'static str, time: f64) {
        let slowest = self.slowest.entry(what).or_default();
        *slowest = slowest.max(time);
    }

    pub fn add(&mut self, other: &Count) {
        self.steps += other.steps;
        self.candidates += other.candidates;
        self.requests += other.requests;
        self.events += other.events;
        self.terms += other.terms;
        self.handovers += other.handovers;
        self.slowest_handover = self.slowest_handover.max(other.slowest_handover);
        self.slowest_recovery = self.slowest_recovery.max(other.slowest_recovery);
        self.truth += other.truth;
        for (kind, count) in &other.faults {
            *self.faults.entry(kind).or_default() += count;
        }
        other.slowest.iter().for_each(|(what, time)| self.slowest(what, *time));
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |nanos: Nanos| nanos as f64 / SECOND as f64;
        let Self { steps, candidates, requests, events, terms, handovers, .. } = self;
        writeln!(
            f,
            "  {steps} steps, {:.3} virtual years, {candidates} candidates, {terms} terms, {requests} requests, \
             {events} watch events",
            self.years()
        )?;
        writeln!(
            f,
            "  {handovers} graceful handovers to a standby whose watch stood, the slowest in {:.3} s; \
             a leader after the last fault within {:.1} s",
            seconds(self.slowest_handover),
            seconds(self.slowest_recovery)
        )?;
        let faults: Vec<_> = self.faults.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        if !self.slowest.is_empty() {
            writeln!(f, "  recovery in lease durations after the last fault: {:.2?}", self.slowest)?;
        }
        write!(f, "  faults: {}", faults.join(", "))
    }
}
