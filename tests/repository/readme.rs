//! What the README and the documents show is what the tests prove.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// The tests of behaviour run with the rights that docs/rbac.yaml grants; so must who reads the README.
#[test]
fn the_readme_prints_the_role_that_the_tests_apply() {
    let readme = include_str!("../../README.md");
    let printed = readme.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a manifest");
    let (account, applied) = include_str!("../../docs/rbac.yaml").split_once("---\n").expect("several documents");
    assert!(account.contains("kind: ServiceAccount"));
    let role = applied.split("---\n").next().expect("a role");
    assert!(role.contains("kind: Role\n"));
    assert_eq!(printed, role);
}

#[test]
fn the_tests_that_the_documents_name_are_tests() {
    let tests = tests();
    assert!(tests.contains("the_tests_that_the_documents_name_are_tests"), "this one is");
    assert!(!tests.contains("tests_of"), "a function is none");
    // Tests have names of several words; nothing else in backticks has.
    for (document, text) in [
        ("SAFETY", include_str!("../../docs/SAFETY.md")),
        ("LATENCY", include_str!("../../docs/LATENCY.md")),
        ("CLUSTERS", include_str!("../../docs/CLUSTERS.md")),
        ("STORES", include_str!("../../docs/STORES.md")),
        ("CLIENT-GO", include_str!("../../docs/CLIENT-GO.md")),
    ] {
        let named = text.split('`').skip(1).step_by(2);
        let named: Vec<_> =
            named.filter(|name| name.matches('_').count() > 2 && !name.contains(char::is_whitespace)).collect();
        assert!(named.len() > 4, "{named:?}");
        for name in named {
            assert!(
                tests.contains(name),
                "docs/{document}.md names the test {name}, which is not there, or is no test"
            );
        }
    }
}

/// The names of all tests in code that is compiled: in the library, and in each program of tests.
fn tests() -> HashSet<String> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest: toml::Table = include_str!("../../Cargo.toml").parse().expect("a manifest");
    let programs = manifest["test"].as_array().expect("programs of tests");
    let mut roots: Vec<_> = programs.iter().map(|it| package.join(it["path"].as_str().expect("a path"))).collect();
    let others = ["src/lib.rs", "tests/threads/loom/lib.rs", "tests/threads/shuttle/models/main.rs"];
    roots.extend(others.map(|path| package.join(path)));
    let mut tests = HashSet::new();
    for root in roots {
        let directory = root.parent().expect("a directory").to_owned();
        let text = fs::read_to_string(&root).unwrap_or_else(|error| panic!("{}: {error}", root.display()));
        collect(&text, &directory, &mut tests);
    }
    tests
}

/// The tests in a file whose modules are in `directory`, and in those.
fn collect(text: &str, directory: &Path, tests: &mut HashSet<String>) {
    let mut attributes = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        if line.starts_with("#[") {
            attributes.push_str(line);
            continue;
        }
        if let Some(module) = line.strip_suffix(';').and_then(|line| line.rsplit_once("mod ")) {
            // What lies elsewhere is the library's, or what tests share.
            if !attributes.contains("path = ") {
                collect_module(module.1, directory, tests);
            }
        } else if let Some(name) = line.strip_prefix("fn ").and_then(|rest| rest.split(['(', '<']).next())
            && attributes.contains("#[test]")
            && !attributes.contains("#[ignore")
        {
            tests.insert(name.to_owned());
        }
        attributes.clear();
    }
    tests.extend(tests_of(text).map(str::to_owned));
}

fn collect_module(name: &str, directory: &Path, tests: &mut HashSet<String>) {
    let inside = directory.join(name);
    for file in [directory.join(format!("{name}.rs")), inside.join("mod.rs")] {
        if let Ok(text) = fs::read_to_string(file) {
            collect(&text, &inside, tests);
        }
    }
}

/// What is made a test of by being listed.
fn tests_of(text: &str) -> impl Iterator<Item = &str> {
    let lists = ["\non_both_servers! {", "\non_every_database! {", "\non_real_stores! {"];
    let list = lists.iter().find_map(|list| text.split_once(list)?.1.split_once('}'));
    list.map_or("", |(list, _)| list).split([',', ':', ';']).map(str::trim).filter(|name| !name.is_empty())
}
