//! The features that the library needs to compile, and the dependencies that a feature adds.
//!
//! A build with TLS needs a feature for cryptography. Without such a feature, the compile error names the available
//! features.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::dependencies::{cargo, tree};

/// Returns the compile error of `chosen.rs`, or `None` if the file compiles.
///
/// The file contains the library's check that the features include cryptography.
fn refusal(features: &[&str]) -> Option<String> {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/net/tls/provider/chosen.rs");
    let mut compiler = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    compiler.args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "--out-dir"]).arg(scratch.path());
    for feature in features {
        compiler.args(["--cfg", &format!("feature=\"{feature}\"")]);
    }
    let output = compiler.arg(source).output().expect("a compiler");
    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn without_cryptography_the_features_to_choose_from_are_named() {
    for features in [&[][..], &["kubeconfig"]] {
        let refusal = refusal(features).unwrap_or_else(|| panic!("{features:?} will do"));
        for feature in ["`ring`", "`aws-lc-rs`", "`fips`"] {
            assert!(refusal.contains(feature), "{features:?}: {refusal}");
        }
    }
}

#[test]
fn one_kind_of_cryptography_will_do_and_so_will_both() {
    for features in [&["ring"][..], &["aws-lc-rs"], &["ring", "aws-lc-rs"]] {
        assert_eq!(refusal(features), None, "{features:?}");
    }
}

#[test]
fn another_store_than_a_cluster_needs_no_http_and_no_tls() {
    let tree = |features: &[&str]| tree(features).into_iter().map(|(name, _)| name).collect::<BTreeSet<_>>();
    let needed = ["rustls", "ureq"].map(str::to_owned);
    assert!(needed.iter().all(|it| tree(&[]).contains(it)));
    // The etcd store uses HTTP and JSON like the Kubernetes store, so both stores need the same dependencies.
    let (of_kubernetes, of_etcd) =
        (["kubernetes,ring", "etcd,ring"]).map(|it| tree(&["--no-default-features", "--features", it])).into();
    assert_eq!(of_kubernetes, of_etcd);
    // The protocol of MySQL uses TLS, but not HTTP.
    let of_mysql = tree(&["--no-default-features", "--features", "mysql,ring"]);
    assert!(of_mysql.contains("rustls") && !of_mysql.contains("ureq"));
    // Only the notes of a store need JSON.
    assert!(!tree(&["--no-default-features"]).contains("serde_json"));
    for features in [&[][..], &["--features=sqlite"]] {
        let without = tree(&[&["--no-default-features"], features].concat());
        assert!(without.contains("leasehold") && !needed.iter().any(|it| without.contains(it)), "{without:?}");
    }
}

/// Cargo builds a dependency only once if its features are the same for all packages.
///
/// Otherwise cargo would build most dependencies again for the thread models, and again for the mutants.
#[test]
fn shared_test_dependencies_have_equal_features() {
    let features = |packages: &[&str]| {
        let mut arguments = vec!["tree", "--edges=normal,build,dev", "--prefix=none", "--format={p}|{f}|"];
        arguments.extend(packages.iter().flat_map(|package| ["--package", package]));
        let text = cargo(&arguments);
        let mut features = BTreeMap::<String, BTreeSet<String>>::new();
        for line in text.lines() {
            let mut parts = line.split('|').map(str::to_owned);
            let (Some(package), Some(those)) = (parts.next(), parts.next()) else { continue };
            features.entry(package).or_default().insert(those);
        }
        features
    };
    let ours = features(&["leasehold", "leasehold-cli", "leasehold-testing"]);
    let checkers = features(&["leasehold-loom", "leasehold-shuttle"]);
    assert!(ours.len() > 50 && checkers.len() > 50, "{ours:?}, {checkers:?}");
    let both = features(&["leasehold", "leasehold-cli", "leasehold-shuttle"]);
    // A package may have two sets of features: one for build scripts, and one for the program.
    let known = |package| [&ours, &checkers].into_iter().filter_map(move |of| of.get(package)).collect::<Vec<_>>();
    for (package, those) in checkers.iter().chain(&both) {
        for of in known(package) {
            assert!(those.is_subset(of) || of.is_subset(those), "{package}: {those:?}, and {of:?}");
        }
    }
}

#[test]
fn each_feature_for_cryptography_chooses_some() {
    let manifest: toml::Table = include_str!("../../Cargo.toml").parse().expect("a manifest");
    let with = |feature: &str, what: &str| {
        manifest["features"][feature].as_array().expect("a list").iter().any(|it| it.as_str() == Some(what))
    };
    assert!(with("default", "ring") && with("ring", "rustls?/ring"));
    assert!(with("aws-lc-rs", "rustls?/aws-lc-rs"));
    assert!(with("fips", "aws-lc-rs") && with("fips", "rustls?/fips"));
}
