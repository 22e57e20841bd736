//! The library compiles only on systems whose clock is known to count the time in suspend.
//!
//! Other targets are not installed, so not even `core` is available for them. The test therefore compiles only
//! `supported.rs`. This file contains the check and needs no library, so the compiler accepts any target.

use std::path::Path;
use std::process::Command;

/// A crate that contains `supported.rs`.
///
/// `core` is not installed, so the crate defines the macro `compile_error!` itself.
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

/// Returns the compile error of `supported.rs` for `target`, or `None` if the file compiles.
fn refusal(target: &str) -> Option<String> {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/util/clock/supported.rs");
    let shim = scratch.path().join("shim.rs");
    std::fs::write(&shim, WITHOUT_CORE.replace("PATH", source.to_str().expect("a path"))).expect("a file");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler)
        // The variable allows unstable features in the stable compiler.
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
