//! Counts of what happened, for the report.

use super::plan::Fleet;

/// What has happened, for the report.
#[derive(Debug, Default)]
pub struct Count {
    pub steps: u64,
    pub terms: u64,
    pub terms_on_both: u64,
    pub terms_of_client_go: u64,
    pub losses: u64,
    pub pauses: u64,
    pub crashes: u64,
    pub step_downs: u64,
    pub withdrawals: u64,
    /// Terms that ended so.
    pub unfit: u64,
    pub without_progress: u64,
}

impl Count {
    pub fn add(&mut self, other: &Count) {
        self.steps += other.steps;
        self.terms += other.terms;
        self.terms_on_both += other.terms_on_both;
        self.terms_of_client_go += other.terms_of_client_go;
        self.losses += other.losses;
        self.pauses += other.pauses;
        self.crashes += other.crashes;
        self.step_downs += other.step_downs;
        self.withdrawals += other.withdrawals;
        self.unfit += other.unfit;
        self.without_progress += other.without_progress;
    }

    /// What must have happened in many seeds.
    pub fn missing(&self, fleet: Fleet) -> Vec<&'static str> {
        let all = [
            ("terms on both", self.terms_on_both),
            ("terms on one", self.terms - self.terms_on_both + self.terms_of_client_go),
            ("losses", self.losses),
            ("pauses", self.pauses),
            ("crashes", self.crashes),
            ("step-downs", self.step_downs),
            ("withdrawals", self.withdrawals),
            ("terms of the unfit", self.unfit),
            ("terms without progress", self.without_progress),
        ];
        let of_client_go = (fleet == Fleet::WithMultiLock).then_some(("terms of client-go", self.terms_of_client_go));
        all.into_iter().chain(of_client_go).filter(|(_, count)| *count == 0).map(|(what, _)| what).collect()
    }
}
