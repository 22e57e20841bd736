//! `leasehold run`: when a command begins, when it ends, and what has to be gone before a release.

use super::*;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "a command is killed when its term is over",
        why: "it is late for that, and others may lead",
        edits: &[Edit {
            file: TIMES,
            old: "let at_last = self.valid_until.saturating_sub(self.times.kill_margin);",
            new: "let at_last = self.valid_until;",
        }],
        caught_by: Binary("cli::run::times::tests::a_renewal_moves_both_and_one_that_comes_late_neither"),
    },
    Mutant {
        name: "a renewal that is heard late shortens the time of a command",
        why: "it is ended in the middle of its term",
        edits: &[Edit {
            file: TIMES,
            old: "self.valid_until = self.valid_until.max(valid_until);",
            new: "self.valid_until = valid_until;",
        }],
        caught_by: Binary("cli::run::times::tests::a_renewal_moves_both_and_one_that_comes_late_neither"),
    },
    Mutant {
        name: "the stop timeout goes beyond the term",
        why: "a command that ignores SIGTERM goes on beside the next",
        edits: &[Edit {
            file: TIMES,
            old: "Some(since) => at_last.min(since.saturating_add(self.times.stop_timeout)),",
            new: "Some(since) => since.saturating_add(self.times.stop_timeout),",
        }],
        caught_by: Binary("cli::run::times::tests::to_be_told_to_end_is_final_and_a_renewal_only_moves_the_end"),
    },
    Mutant {
        name: "whoever has slept past the end tells the command first",
        why: "it has until the next look, and others lead",
        edits: &[Edit {
            file: TIMES,
            old: "if self.kill_at() <= now {",
            new: "if self.is_terminated() && self.kill_at() <= now {",
        }],
        caught_by: Binary("cli::run::times::tests::who_has_slept_past_the_end_of_the_term_tells_nobody_but_ends_it"),
    },
    Mutant {
        name: "what waits to become a command does not look at the time",
        why: "it may have been stopped until its term was over",
        edits: &[Edit { file: EXEC, old: "if boot_time() >= begin.deadline {", new: "if false {" }],
        caught_by: Test("command", "run::what_waits_to_become_a_command_does_so_in_time_and_for_its_guardian_alone"),
    },
    Mutant {
        name: "what waits to become a command does not look at its parent",
        why: "one whose guardian has ended before that is killed by nobody",
        edits: &[Edit { file: EXEC, old: "if getppid() != Some(parent) {", new: "if false {" }],
        caught_by: Test("command", "run::what_waits_to_become_a_command_does_so_in_time_and_for_its_guardian_alone"),
    },
    Mutant {
        name: "a command does not die with its guardian",
        why: "nobody else is there while the supervisor is stopped",
        edits: &[Edit {
            file: EXEC,
            old: "set_parent_process_death_signal(Some(Signal::KILL))?;",
            new: "set_parent_process_death_signal(None)?;",
        }],
        caught_by: Test("command", "terms::a_command_is_killed_with_both_that_are_above_it"),
    },
    Mutant {
        name: "what a command has left behind is not killed",
        why: "it goes on beside the next, or the lease is never released",
        edits: &[Edit {
            file: GUARDIAN_PROCESS,
            old: "            // It has ended by itself: what it left behind is not its work any more.\n            running.schedule.kill();\n",
            new: "",
        }],
        caught_by: Test("command", "terms::in_memory::one_that_ends_is_followed_at_once"),
    },
    Mutant {
        name: "a command is gone when its first process is",
        why: "the lease is released beside what it has started",
        edits: &[Edit {
            file: GUARDIAN_PROCESS,
            old: "if !is_left {",
            new: "if !is_left || self.running.as_ref().is_some_and(|running| running.has_ended) {",
        }],
        caught_by: Test("command", "flags::what_is_left_behind_is_killed_aloud"),
    },
    Mutant {
        name: "the guardian does not adopt what the command's processes leave behind",
        why: "it is gone for the guardian, and the lease is released beside it",
        edits: &[Edit { file: GUARDIAN_PROCESS, old: "set_child_subreaper(Some(getpid()))?;", new: "" }],
        caught_by: Test("command", "terms::in_memory::one_that_ends_is_followed_at_once"),
    },
    Mutant {
        name: "a guardian that does not answer is not lost",
        why: "it does not end the command in time either",
        edits: &[Edit { file: GUARDIAN, old: "if self.silent >= patience {", new: "if false {" }],
        caught_by: Test("command", "terms::in_memory::one_whose_guardian_is_stopped_ends_with_all_that_it_has_started"),
    },
    Mutant {
        name: "what a lost guardian has started is left alone",
        why: "the lease is released beside it",
        edits: &[Edit {
            file: COMMAND_TERM,
            old: "term.outcome.is_gone = term.means.guardian.kill(term.means.wind_down);",
            new: "term.outcome.is_gone = true;",
        }],
        caught_by: Test("command", "terms::in_memory::one_whose_guardian_is_stopped_ends_with_all_that_it_has_started"),
    },
    Mutant {
        name: "a command whose lease is gone has the time of one that is told to stop",
        why: "another may lead at once",
        edits: &[Edit {
            file: COMMAND_TERM,
            old: "        self.kill(Why::Lost(reason))\n",
            new: "        self.stop(Why::Lost(reason), false)\n",
        }],
        caught_by: Test("command", "terms::in_memory::one_whose_lease_is_deleted_is_killed"),
    },
    Mutant {
        name: "a lease is released beside what cannot be killed",
        why: "the next command runs beside it",
        edits: &[Edit { file: SUPERVISOR, old: "if !outcome.is_gone {", new: "if false {" }],
        caught_by: Test("command", "terms::what_cannot_be_killed_is_left_alone_and_its_lease_is_never_released"),
    },
];
