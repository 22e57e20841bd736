//! Credential plugins.

use super::*;

const RUNS_ARE_COUNTED: Check =
    Unit("kube::tests::exec::runs_of_a_plugin_are_counted_and_so_are_those_that_bring_nothing");

pub const MUTANTS: &[Mutant] = &[
    // ---- one run ----
    Mutant {
        name: "the stderr of a plugin is always inherited",
        why: "tokens that a plugin prints are in the log of the program",
        edits: &[Edit {
            file: EXEC_RUN,
            old: "ExecStderr::Discard => Stdio::null(),",
            new: "ExecStderr::Discard => Stdio::inherit(),",
        }],
        caught_by: Test("exec_plugins", "stderr_of_a_plugin_is_inherited_or_discarded"),
    },
    Mutant {
        name: "the children of a plugin survive it",
        why: "each run that hangs leaves something behind",
        edits: &[Edit {
            file: EXEC_RUN,
            old: "if kill_process_group(Pid::from_child(child), Signal::KILL).is_err() {\n        let _ = child.kill();\n    }",
            new: "let _ = child.kill();",
        }],
        caught_by: Test("exec_plugins", "a_plugin_is_ended_at_its_limit_with_all_that_it_started"),
    },
    Mutant {
        name: "a plugin has no limit of its own",
        why: "one that hangs is never tried again",
        edits: &[Edit {
            file: EXEC_RUN,
            old: "let deadline = Instant::now() + self.options.limit;",
            new: "let deadline = Instant::now() + 3600 * self.options.limit;",
        }],
        caught_by: Test("exec_plugins", "a_plugin_is_ended_at_its_limit_with_all_that_it_started"),
    },
    Mutant {
        name: "a plugin is not told the server name",
        why: "it verifies another certificate than we do, and fails",
        edits: &[Edit {
            file: RESOLVE,
            old: "            info.insert(\"tls-server-name\".to_owned(), json!(name));\n",
            new: "            let _ = name;\n",
        }],
        caught_by: Unit("kube::config::kubeconfig::tests::a_credential_plugin_is_told_all_about_the_cluster"),
    },
    Mutant {
        name: "a plugin is not told the proxy",
        why: "it does not reach the cluster",
        edits: &[Edit {
            file: RESOLVE,
            old: "            info.insert(\"proxy-url\".to_owned(), json!(url.expose()));\n",
            new: "            let _ = url;\n",
        }],
        caught_by: Unit("kube::config::kubeconfig::tests::a_credential_plugin_is_told_all_about_the_cluster"),
    },
    // ---- when it is run ----
    Mutant {
        name: "a second run of a plugin begins while one goes on",
        why: "a person is asked twice at a time, and a slow plugin started for each request",
        edits: &[Edit {
            file: EXEC_SOURCE,
            old: "== Err(TryRecvError::Empty)).map(Arc::clone)",
            new: "!= run.done.try_recv()).map(Arc::clone)",
        }],
        caught_by: Unit("kube::tests::exec::all_requests_share_one_run"),
    },
    Mutant {
        name: "a plugin is not run before the end of its credential",
        why: "requests wait for the plugin each time",
        edits: &[Edit {
            file: EXEC_SCHEDULE,
            old: "came + (life / 5 * 4).min(life.saturating_sub(MARGIN).max(MARGIN))",
            new: "came + life",
        }],
        caught_by: Unit(
            "kube::auth::exec::schedule::tests::a_refresh_begins_at_80_percent_and_half_a_minute_before_the_end",
        ),
    },
    Mutant {
        name: "requests wait for a plugin while the old credential is valid",
        why: "a plugin that is slow makes renewals late while the old credential is good",
        edits: &[Edit {
            file: EXEC_SCHEDULE,
            old: "life.end.is_none_or(|end| now.wall < end))",
            new: "life.refresh.is_none_or(|end| now.wall < end))",
        }],
        caught_by: Test("exec_plugins", "a_credential_that_expires_every_few_seconds_fails_no_request"),
    },
    Mutant {
        name: "no pause follows a failure of a plugin",
        why: "a plugin that fails is started as fast as requests come",
        edits: &[Edit {
            file: EXEC_SCHEDULE,
            old: "self.paused_until = Some(now.steady + pause);",
            new: "self.paused_until = Some(now.steady).filter(|_| pause.is_zero());",
        }],
        caught_by: Unit("kube::tests::exec::a_plugin_that_fails_is_left_alone_for_a_moment"),
    },
    Mutant {
        name: "a client that nobody uses runs its plugin",
        why: "for ever",
        edits: &[Edit {
            file: EXEC_SOURCE,
            old: "if superseded.try_recv() != Err(TryRecvError::Empty) || !state.is_used {",
            new: "if superseded.try_recv() != Err(TryRecvError::Empty) {",
        }],
        caught_by: Unit(
            "kube::auth::exec::source::tests::a_refresh_needs_no_request_but_a_client_that_nobody_uses_runs_no_plugin",
        ),
    },
    Mutant {
        name: "the thread of a plugin outlives its client",
        why: "each client that was dropped leaves one behind",
        edits: &[Edit {
            file: EXEC_SOURCE,
            old: "                recv(self.abandoned) -> _ => return None,\n",
            new: "",
        }],
        caught_by: Unit("kube::auth::exec::source::tests::the_thread_that_waits_for_a_refresh_ends_with_its_client"),
    },
    Mutant {
        name: "each run of a plugin after a 401 leaves a thread behind",
        why: "they add up while a server rejects what the plugin gives",
        edits: &[Edit { file: EXEC_SOURCE, old: "                recv(superseded) -> _ => return None,\n", new: "" }],
        caught_by: Unit(
            "kube::auth::exec::source::tests::a_run_after_a_rejection_ends_the_thread_that_waited_for_a_refresh",
        ),
    },
    Mutant {
        name: "a plugin is run beside a client certificate",
        why: "client-go does not, and it may ask a person",
        edits: &[Edit {
            file: CLIENT,
            old: "Some(_) => config.auth.beside_a_certificate(),",
            new: "Some(_) => config.auth,",
        }],
        caught_by: Unit("kube::tests::exec::a_plugin_is_not_run_beside_a_client_certificate"),
    },
    Mutant {
        name: "a run of a plugin is not counted",
        why: "nobody sees that it is run for each request",
        edits: &[Edit { file: EXEC_SOURCE, old: "        self.runs += 1;\n", new: "" }],
        caught_by: RUNS_ARE_COUNTED,
    },
    Mutant {
        name: "a run of a plugin that fails is not counted as one",
        why: "nobody is alarmed while the last credential serves",
        edits: &[Edit { file: EXEC_SOURCE, old: "            self.failures += 1;\n", new: "" }],
        caught_by: RUNS_ARE_COUNTED,
    },
    // ---- what it gives ----
    Mutant {
        name: "no time of expiry, as Go writes it, is an error",
        why: "a plugin that works with client-go never logs in",
        edits: &[Edit {
            file: EXEC_CREDENTIAL,
            old: ".filter(|text| *text != NO_TIME)",
            new: ".filter(|text| *text != NO_TIME || true)",
        }],
        caught_by: Unit("kube::tests::exec::what_client_go_reads_past_in_an_answer_is_read_past"),
    },
    Mutant {
        name: "a new certificate of a plugin counts as the old one",
        why: "the old one is shown until it expires, and after that",
        edits: &[Edit {
            file: EXEC_CREDENTIAL,
            old: "if self.has_identity_of(before) { version } else { version + 1 };",
            new: "version;",
        }],
        caught_by: Test("exec_plugins", "a_new_certificate_of_a_plugin_is_shown_on_a_new_connection"),
    },
    Mutant {
        name: "connections outlive the certificate of a plugin",
        why: "the old one is shown as long as they are open",
        edits: &[Edit {
            file: CLIENT,
            old: "agent.versions.credentials >= wanted.credentials",
            new: "agent.versions.credentials > 0",
        }],
        caught_by: Test("exec_plugins", "a_new_certificate_of_a_plugin_is_shown_on_a_new_connection"),
    },
    Mutant {
        name: "the error of a plugin hides a 401",
        why: "nobody learns that the server rejects the credentials",
        edits: &[Edit {
            file: CLIENT,
            old: "&e);\n                Err(rejection)",
            new: "&e);\n                Err(e)",
        }],
        caught_by: Unit("kube::tests::exec::a_plugin_that_fails_does_not_hide_a_401"),
    },
];
