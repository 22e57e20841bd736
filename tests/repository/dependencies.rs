//! Rules for the dependency tree: banned crates, allowed licenses, size and `rust-version`.
//!
//! deny.toml lists the banned crates and the allowed licenses. The `rust-version` in Cargo.toml must be the highest
//! `rust-version` of a dependency.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

/// The name and the version of a crate in the tree.
type Package = (String, String);

#[test]
fn nothing_banned_is_in_the_normal_tree() {
    let bans = deny("bans", "deny");
    let banned: BTreeSet<_> = bans.iter().map(|ban| ban["crate"].as_str().expect("a name")).collect();
    assert!(banned.contains("tokio") && banned.contains("openssl"));
    for (name, version) in tree(EACH_STORE) {
        assert!(!banned.contains(name.as_str()), "{name} {version} is banned by deny.toml");
    }
}

#[test]
fn default_normal_tree_has_at_most_62_crates() {
    let tree = tree(&[]);
    assert!(tree.len() > 20, "the tree was read: {tree:?}");
    assert!(tree.len() <= 62, "{} crates: {tree:?}", tree.len());
}

#[test]
fn every_licence_in_the_normal_tree_is_allowed() {
    let licences = deny("licenses", "allow");
    let allowed: Vec<_> = licences.iter().map(|licence| licence.as_str().expect("a name")).collect();
    let packages = packages();
    for package in tree(EACH_STORE) {
        let licence = packages[&package]["license"].as_str().unwrap_or("none");
        assert!(is_allowed(licence, &allowed), "{} {}: {licence}", package.0, package.1);
    }
}

#[test]
fn declared_rust_version_is_that_of_the_dependency_tree() {
    let packages = packages();
    let declared = rust_version(packages.iter().find(|((name, _), _)| name == "leasehold").expect("ourselves").1);
    let needed = tree(&[])
        .into_iter()
        .filter(|(name, _)| name != "leasehold")
        .map(|package| rust_version(&packages[&package]))
        .max()
        .expect("a tree");
    assert_eq!(declared, needed, "rust-version in Cargo.toml, and the greatest in the tree");
}

/// A program can link SQLite only once.
///
/// The library must therefore accept the version of the SQLite crate that sqlx and diesel use.
#[test]
fn sqlite_store_resolves_beside_sqlx_and_diesel() {
    for other in ["sqlx = { version = '0.9', features", "diesel = { version = '2.3', features"] {
        let scratch = tempfile::tempdir().expect("a scratch directory");
        let ours = format!("leasehold = {{ path = '{}', features", env!("CARGO_MANIFEST_DIR"));
        let manifest = format!(
            "package = {{ name = 'program', edition = '2024' }}\nlib.path = 'Cargo.toml'\n[dependencies]\n\
             {ours} = ['sqlite'] }}\n{other} = ['sqlite'] }}\n"
        );
        std::fs::write(scratch.path().join("Cargo.toml"), manifest).expect("a manifest");
        let mut cargo = Command::new(env!("CARGO"));
        let output = cargo.arg("generate-lockfile").current_dir(scratch.path()).output().expect("cargo runs");
        assert!(output.status.success(), "{other}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The features of every store.
const EACH_STORE: &[&str] = &["--features=etcd,kubeconfig,mysql,postgres,sqlite"];

/// Returns leasehold and its normal dependencies with these features.
pub fn tree(features: &[&str]) -> BTreeSet<Package> {
    cargo(
        &[&["tree", "-p", "leasehold", "--edges", "normal", "--prefix", "none", "--format", "{p}"], features].concat(),
    )
    .lines()
    .filter_map(|line| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.trim_start_matches('v').to_owned()))
    })
    .collect()
}

fn packages() -> BTreeMap<Package, Value> {
    // With this filter, only the packages of this platform must have been downloaded.
    let platform = ["--filter-platform", &host()];
    let metadata = cargo(&[&["metadata", "--format-version", "1"], &platform[..]].concat());
    let metadata: Value = serde_json::from_str(&metadata).expect("metadata in JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let text = |package: &Value, field: &str| package[field].as_str().expect("a text").to_owned();
    packages.iter().map(|package| ((text(package, "name"), text(package, "version")), package.clone())).collect()
}

fn rust_version(package: &Value) -> Vec<u32> {
    let version = package["rust_version"].as_str().unwrap_or("0");
    let mut numbers: Vec<u32> = version.split('.').map(|number| number.parse().expect("a number")).collect();
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    numbers
}

/// Returns `true` if the allowed licenses satisfy an SPDX expression.
///
/// The function supports expressions with `AND` between groups of alternatives. `OR` or `/` separates the alternatives.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let one = |licence: &str| {
        let licence = licence.trim_matches(['(', ')', ' ']);
        licence.split(" OR ").flat_map(|licence| licence.split('/')).any(|licence| allowed.contains(&licence.trim()))
    };
    expression.split(" AND ").all(one)
}

#[test]
fn licence_expressions_are_understood() {
    for (expression, good) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("Zlib/MIT", true),
        ("MIT AND ISC", true),
        ("MIT AND GPL-3.0", false),
        ("(GPL-3.0 OR MIT) AND ISC", true),
        ("(GPL-3.0 OR Zlib) AND ISC", false),
        ("none", false),
    ] {
        assert_eq!(is_allowed(expression, &["MIT", "ISC"]), good, "{expression}");
    }
}

/// Returns a list of deny.toml.
fn deny(section: &str, list: &str) -> toml::value::Array {
    let deny: toml::Table = include_str!("../../deny.toml").parse().expect("deny.toml in TOML");
    deny[section][list].as_array().expect("a list").clone()
}

fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().expect("rustc runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    text.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host").to_owned()
}

/// Runs cargo, and returns its output.
pub fn cargo(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--locked", "--manifest-path", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")])
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}
