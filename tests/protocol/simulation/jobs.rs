//! Jobs that succeed once per period: their campaigns, their results, and the checks of their history.

use std::time::Duration;

use leasehold::election::candidate::job::JobPlan;
use leasehold::election::candidate::messages::Input;
use leasehold::store::{JobNotes, MicroTime, RecordNotes};

use crate::clock::Nanos;
use crate::node::{Command, Node, Wants};
use crate::plan::{Plan, Violation};
use crate::trace::trace;
use crate::world::World;

/// The state of a node's job.
#[derive(Debug, Default)]
pub struct NodeJob {
    /// The last campaign for a job.
    campaign: Option<u64>,
    /// `true` during the term of that campaign.
    is_in_term: bool,
    /// The exit code of the ended job.
    exit_code: Option<i32>,
    /// `true` until the result is reported.
    awaits_record: bool,
}

type Success = (Option<String>, Option<MicroTime>, Option<MicroTime>);

fn success(job: Option<&JobNotes>) -> Success {
    let fields =
        |job: &JobNotes| (job.last_success_host.clone(), job.last_success_start.clone(), job.last_success_end.clone());
    job.map(fields).unwrap_or_default()
}

impl Plan {
    /// Lets some campaigns be for a job, in half of the plans with notes.
    pub fn with_jobs(mut self, random: &mut fastrand::Rng) -> Self {
        if self.notes_every.is_some() && random.bool() {
            self.job_period = Some(Duration::from_secs(random.u64(1..120)));
        }
        self
    }

    /// Returns the input with the time of the store.
    pub fn store_time(&self, truth: Nanos) -> Option<Input> {
        self.job_period.map(|_| Input::StoreTime { unix_micros: truth / 1_000 })
    }
}

impl Node {
    /// Returns the input that starts a campaign. Every second campaign is for a job, if the node has a job.
    pub fn campaigns_for(&mut self, id: u64, wants: Wants, period: Option<Duration>) -> Input {
        match period.filter(|_| wants == Wants::Term && id.is_multiple_of(2)) {
            Some(period) => {
                self.job = NodeJob { campaign: Some(id), ..NodeJob::default() };
                let plan = JobPlan { period, max_attempts: 3, is_forced: id.is_multiple_of(8) };
                Input::JobCampaign { id, plan }
            }
            None => Input::Campaign { id, once: wants == Wants::Round },
        }
    }

    /// Returns `true` if the campaign of the user is for a job.
    pub fn campaigns_for_a_job(&self) -> bool {
        self.wants.is_some() && self.job.campaign == Some(self.campaigns)
    }

    /// Notes the term that a campaign has won.
    pub fn begins_job(&mut self, campaign: u64) {
        self.job.is_in_term = self.job.campaign == Some(campaign);
    }

    /// Notes the end of the term.
    pub fn ends_job(&mut self) {
        self.job = NodeJob::default();
    }

    /// Returns an error if a write of the node loses or invents a success.
    pub fn may_note(&self, base: Option<&JobNotes>, written: &RecordNotes) -> Result<(), Violation> {
        let NodeJob { is_in_term, exit_code, .. } = self.job;
        let (before, after) = (success(base), success(written.job.as_deref()));
        let is_own = is_in_term && exit_code == Some(0) && after.0.as_ref() == Some(&self.identity);
        let is_for_a_job = is_in_term || self.campaigns_for_a_job();
        match written.job.as_deref() {
            _ if before != after && !is_own => Err(format!("{} turns {before:?} into {after:?}", self.identity).into()),
            written if written != base && !is_for_a_job => {
                Err(format!("{} writes {written:?} instead of {base:?}", self.identity).into())
            }
            _ => Ok(()),
        }
    }
}

impl World {
    /// Ends the job of a node, half of the time with a success. Returns `false` if the user may drop the guard.
    pub fn job_ends(&mut self, index: usize) -> Result<bool, Violation> {
        let exit_code = i32::from(self.random.bool());
        let waits = self.random.u8(..4) > 0;
        let node = &mut self.nodes[index];
        if !node.job.is_in_term || node.job.exit_code.is_some() {
            return Ok(node.job.awaits_record && waits && node.valid(self.truth));
        }
        trace!(self, "the job of {} ends with {exit_code}", node.identity);
        (node.job.exit_code, node.job.awaits_record) = (Some(exit_code), true);
        self.tell(index, Command::JobEnded(exit_code))?;
        Ok(true)
    }

    /// Returns an error if the result of a job is reported although the record does not contain the result.
    pub fn job_recorded(&mut self, index: usize, is_recorded: bool) -> Result<(), Violation> {
        let node = &mut self.nodes[index];
        // The user may have dropped the guard before the report.
        let is_awaited = std::mem::take(&mut node.job.awaits_record);
        if !is_awaited || !is_recorded {
            self.count.fault("results not recorded");
            return Ok(());
        }
        let stored = self.stores[0].notes().and_then(|notes| notes.job.clone());
        let is_stored = stored.as_ref().is_some_and(|job| {
            let host = if node.job.exit_code == Some(0) { &job.last_success_host } else { &job.last_attempt_host };
            host.as_ref() == Some(&node.identity) && job.last_attempt_exit_code == node.job.exit_code
        });
        if !is_stored && !self.plan.suite.meddles() && node.holds_guard() && node.valid(self.truth) {
            return Err(format!("{} reports a result that is not stored: {stored:?}", node.identity).into());
        }
        self.count.fault("results recorded");
        Ok(())
    }
}
