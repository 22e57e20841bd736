//! On which systems the library compiles: only where a clock is known to count the time in suspend.
//!
//! Nothing is there to compile for another system, not even `core`. But the choice of the systems stands in a file that
//! needs nothing, and that the compiler takes for any target that it knows.

use std::path::Path;
use std::process::Command;

/// `compile_error!` comes from `core`, which is not there.
const WITHOUT_CORE: &str = r#"
#![feature(no_core, rustc_attrs)]
#![allow(internal_features, unused_macros)]
#![no_core]

#[rustc_builtin_macro]
macro_rules! compile_error {
    () => {};
}

#[path = "PATH"]
mod supported;
"#;

/// What the compiler says of the file for `target`; nothing if it is taken.
fn refusal(target: &str) -> Option<String> {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/util/clock/supported.rs");
    let shim = scratch.path().join("shim.rs");
    std::fs::write(&shim, WITHOUT_CORE.replace("PATH", source.to_str().expect("a path"))).expect("a file");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler)
        // The features are those of a compiler in the making.
        .env("RUSTC_BOOTSTRAP", "1")
        .args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "--target", target, "-o"])
        .args([&scratch.path().join("metadata"), &shim])
        .output()
        .expect("a compiler");
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn system_with_an_unknown_suspend_clock_is_refused() {
    for target in [
        "x86_64-unknown-freebsd",
        "x86_64-unknown-netbsd",
        "x86_64-unknown-illumos",
        "x86_64-unknown-dragonfly",
        "wasm32-wasip1",
    ] {
        let refusal = refusal(target).unwrap_or_else(|| panic!("{target} is taken"));
        assert!(
            refusal.contains("a clock that counts the time in which a machine is suspended"),
            "{target}: {refusal}"
        );
    }
}

#[test]
fn a_system_whose_clock_counts_suspend_is_taken() {
    for target in [
        "x86_64-unknown-linux-gnu",
        "aarch64-unknown-linux-musl",
        "aarch64-linux-android",
        "x86_64-unknown-openbsd",
        "aarch64-apple-darwin",
        "aarch64-apple-ios",
        "x86_64-pc-windows-msvc",
    ] {
        assert_eq!(refusal(target), None, "{target}");
    }
}
