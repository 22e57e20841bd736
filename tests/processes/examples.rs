//! The examples that end by themselves do, and show what they say.

#![cfg(unix)]

use crate::support::process::example;

fn output_of(name: &'static str) -> String {
    let output = example(name).output().expect("the example runs");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{name}: {}: {printed}{}", output.status, String::from_utf8_lossy(&output.stderr));
    printed
}

#[test]
fn quickstart_tells_of_three_terms() {
    let printed = output_of("quickstart");
    assert_eq!(printed.matches("fencing token").count(), 3, "{printed}");
}

#[test]
fn fenced_writes_refuses_a_leader_that_was_stopped_between_its_check_and_its_write() {
    let printed = output_of("fenced_writes");
    let refused = printed.find("its write is refused: token").unwrap_or_else(|| panic!("{printed}"));
    let stopped = printed.find("---- anna is stopped").unwrap_or_else(|| panic!("{printed}"));
    assert!(stopped < refused, "{printed}");
}
