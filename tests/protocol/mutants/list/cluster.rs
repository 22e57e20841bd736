//! Which cluster is found, what may be sent to it, and what an operator is told.

use super::*;

pub const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "in a pod KUBECONFIG is ignored",
        why: "candidates that find two clusters are two leaders",
        edits: &[Edit {
            file: INFER,
            old: "if !is_asked_for && in_cluster::is_inside(env, service_account) {",
            new: "if in_cluster::is_inside(env, service_account) {",
        }],
        caught_by: Unit(
            "kube::config::in_cluster::tests::what_kubeconfig_names_comes_before_the_service_account_and_that_before_the_home_directory",
        ),
    },
    Mutant {
        name: "POD_NAMESPACE is ignored",
        why: "candidates in two namespaces are two leaders",
        edits: &[Edit {
            file: IN_CLUSTER,
            old: "of_pod.filter(is_named).or_else(of_file)",
            new: "of_pod.filter(|_| false).or_else(of_file)",
        }],
        caught_by: Unit("kube::config::in_cluster::tests::a_service_account_is_enough"),
    },
    Mutant {
        name: "a context without a namespace is in default, also in a pod",
        why: "a candidate on client-go with the same kubeconfig is in that of the pod, and leads, too",
        edits: &[Edit {
            file: RESOLVE,
            old: "of_context.or_else(|| in_cluster::namespace_around(env, service_account))",
            new: "of_context.or_else(|| in_cluster::namespace_around(env, service_account).filter(|_| false))",
        }],
        caught_by: Unit("kube::config::in_cluster::tests::a_context_without_a_namespace_is_in_that_of_the_pod"),
    },
    Mutant {
        name: "secrets go in clear",
        why: "whoever is on the way has the token",
        edits: &[Edit {
            file: KUBE_CONFIG,
            old: "_ if self.endpoint.is_https() || stays_here => return Ok(()),",
            new: "_ if self.endpoint.is_https() || !stays_here => return Ok(()),",
        }],
        caught_by: Unit("kube::config::tests::no_secret_goes_in_clear_to_another_machine"),
    },
    Mutant {
        name: "secrets go in clear to a proxy",
        why: "loopback is the proxy's then, and the token is on the network",
        edits: &[Edit {
            file: KUBE_CONFIG,
            old: "let stays_here = self.endpoint.is_loopback() && self.proxy.is_none();",
            new: "let stays_here = self.endpoint.is_loopback();",
        }],
        caught_by: Unit("kube::config::tests::no_secret_goes_in_clear_to_another_machine"),
    },
    Mutant {
        name: "a server without a scheme is taken for http",
        why: "its CA is ignored, and what is sent goes in clear",
        edits: &[Edit {
            file: ENDPOINT,
            old: "true => Self::parse(&format!(\"https://{}\", url.trim()), place),",
            new: "true => Self::parse(&format!(\"http://{}\", url.trim()), place),",
        }],
        caught_by: Unit("net::endpoint::tests::a_url_without_a_scheme_is_https_or_an_error"),
    },
    Mutant {
        name: "what comes and goes is told each time",
        why: "the log fills with two lines for each retry period",
        edits: &[Edit {
            file: FAILURE_LOG,
            old: "let is_seldom = self.told_at.is_none_or(|at| now.since(at) >= SELDOM);",
            new: "let is_seldom = self.told_at.is_none_or(|at| now >= at);",
        }],
        caught_by: Unit("runtime::failure_log::tests::what_comes_and_goes_is_told_once_a_minute"),
    },
    Mutant {
        name: "what comes and goes is told once, and then never",
        why: "the last line says that it works, and it does not",
        edits: &[Edit {
            file: FAILURE_LOG,
            old: "&& (told == Level::Warn || level == Level::Debug) => {",
            new: "&& told <= Level::Debug => {",
        }],
        caught_by: Unit("runtime::failure_log::tests::what_was_told_in_a_low_voice_and_goes_on_is_told_aloud"),
    },
    Mutant {
        name: "a token file that is gone is told of at each request",
        why: "a line every two seconds hides all others",
        edits: &[Edit {
            file: TOKEN_FILE,
            old: "(Ok(value), is_new.then_some(why))",
            new: "(Ok(value), (is_new || true).then_some(why))",
        }],
        caught_by: Unit("kube::auth::token_file::tests::why_an_old_token_is_kept_is_told_once"),
    },
    Mutant {
        name: "a token that is read again counts as another one",
        why: "a token seems to rotate each minute",
        edits: &[Edit { file: TOKEN_FILE, old: "is_some_and(|(before, _)| before != value)", new: "is_some()" }],
        caught_by: Unit("kube::auth::token_file::tests::a_token_is_kept_for_a_minute_and_read_again_after_it"),
    },
    Mutant {
        name: "a warning stands when the reason has changed since",
        why: "whoever reads it believes that it fails to this day",
        edits: &[Edit {
            file: FAILURE_LOG,
            old: "if std::mem::take(&mut self.is_announced) {",
            new: "if std::mem::take(&mut self.is_announced) && self.told_at.is_none() {",
        }],
        caught_by: Unit("runtime::failure_log::tests::what_was_told_aloud_ends_aloud_though_the_reason_has_changed"),
    },
];
