//! docs/TUTORIAL.md shows the program and the output of the example `tutorial`.

use std::collections::BTreeSet;

use leasehold_testing::ApiServer;
use rustix::process::Signal;

use crate::support::process::example;
use crate::support::run::Run;

const PAGE: &str = include_str!("../../docs/TUTORIAL.md");

#[test]
fn tutorial_has_the_program_of_the_example() {
    let shown = PAGE.split("```rust,no_run\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a program");
    let (_, program) = include_str!("../../examples/tutorial.rs").split_once("\n\n").expect("a header");
    assert_eq!(shown, program);
}

#[test]
fn tutorial_shows_the_output_of_its_program() {
    let server = ApiServer::start().expect("an in-memory server");
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let kubeconfig = scratch.path().join("kubeconfig");
    server.write_kubeconfig(&kubeconfig, "me").expect("a file");
    let start = |identity: &str| Run::of(example("tutorial").arg(identity).env("KUBECONFIG", &kubeconfig));
    let mut interrupted = start("a");
    interrupted.wait_for_error("started leading");
    let killed = start("b");
    killed.wait_for_error("standby: ");
    interrupted.signal(Signal::INT);
    assert!(interrupted.status().success());
    killed.wait_for_error("started leading");
    let last = start("a");
    last.wait_for_error("standby: ");
    let killed = killed.kill();
    // The last candidate leads when the lease expires, after the default lease duration of 15 s.
    last.wait_for_error("started leading");

    let printed = [&interrupted.errors(), &killed.errors, &last.errors(), &killed.out].map(|it| events(it)).concat();
    let printed: BTreeSet<_> = printed.into_iter().collect();
    let shown = events(PAGE);
    assert!(shown.len() > 10, "{shown:?}");
    for line in shown {
        assert!(printed.contains(&line), "docs/TUTORIAL.md shows {line:?}, but the example prints {printed:#?}");
    }
}

/// Returns the lines that show events, without times, addresses and numbers.
fn events(text: &str) -> Vec<String> {
    let line = |line: &str| {
        let line = line.strip_prefix("[20").map_or(Some(line), |line| line.split_once("] ").map(|(_, event)| event))?;
        let line = line.split(" at http").next()?;
        (line.starts_with("default/demo ") || line.starts_with("working ")).then(|| anonymous(line))
    };
    text.lines().filter_map(line).collect()
}

/// Replaces fencing tokens, and the identity that the page shows from a real cluster.
fn anonymous(line: &str) -> String {
    let word = |word: &str| match word.trim_end_matches(':') {
        number if number.parse::<u64>().is_ok() => "0".to_owned(),
        identity if identity.starts_with("vm_") => word.replace(identity, "a"),
        _ => word.to_owned(),
    };
    line.split(' ').map(word).collect::<Vec<_>>().join(" ")
}
