//! The README shows the role that the tests use, and the documents name tests that exist.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use crate::files::{read, root};

/// The documents that name tests.
const DOCUMENTS: [&str; 2] = ["docs/internals/TESTING.md", "docs/WHY.md"];

/// The behavior tests use the role in docs/rbac.yaml, so the README must show the same role.
#[test]
fn readme_shows_the_role_that_the_tests_use() {
    let readme = include_str!("../../README.md");
    let printed = readme.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a manifest");
    let (account, applied) = include_str!("../../docs/rbac.yaml").split_once("---\n").expect("several documents");
    assert!(account.contains("kind: ServiceAccount"));
    let role = applied.split("---\n").next().expect("a role");
    assert!(role.contains("kind: Role\n"));
    assert_eq!(printed, role);
}

/// `tests/run --all` builds the program as a dependent crate does.
#[test]
fn first_program_of_the_readme_is_an_example() {
    let readme = include_str!("../../README.md");
    let printed = readme.split("```rust,no_run\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a program");
    assert_eq!(printed, include_str!("../../examples/programs/src/bin/quick_start.rs"));
    assert!(printed.lines().count() <= 16);
}

#[test]
fn tests_named_in_documents_exist() {
    let tests = tests();
    assert!(tests.contains("tests_named_in_documents_exist"), "this test is not found");
    assert!(!tests.contains("tests_of"), "a function without #[test] is taken for a test");
    for document in DOCUMENTS {
        let text = read(document);
        // In these documents, only tests have names with three underscores.
        let is_test = |code: &&str| code.matches('_').count() > 2 && !code.contains(char::is_whitespace);
        let named: Vec<_> = in_backticks(&text).filter(is_test).collect();
        assert!(named.len() > 4, "{document} names only these tests: {named:?}");
        for name in named {
            assert!(tests.contains(name), "{document} names the test {name}, which does not exist");
        }
    }
}

#[test]
fn test_files_named_in_documents_exist() {
    for document in DOCUMENTS {
        let text = read(document);
        for code in in_backticks(&text).filter(|code| code.starts_with("tests/") || code.starts_with("src/")) {
            let path = code.split(' ').next().unwrap_or_default();
            assert!(root().join(path).exists(), "{document} names {path}, which does not exist");
        }
    }
}

/// Returns the inline code of a document, and its code blocks.
fn in_backticks(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the names of all tests in the library and in the test programs.
fn tests() -> HashSet<String> {
    let package = root();
    let manifest: toml::Table = include_str!("../../Cargo.toml").parse().expect("a manifest");
    let programs = manifest["test"].as_array().expect("programs of tests");
    let mut roots: Vec<_> = programs.iter().map(|it| package.join(it["path"].as_str().expect("a path"))).collect();
    let others =
        ["src/lib.rs", "tests/command/main.rs", "tests/threads/loom/lib.rs", "tests/threads/shuttle/models/main.rs"];
    roots.extend(others.map(|path| package.join(path)));
    let mut tests = HashSet::new();
    for root in roots {
        let directory = root.parent().expect("a directory").to_owned();
        let text = fs::read_to_string(&root).unwrap_or_else(|error| panic!("{}: {error}", root.display()));
        collect(&text, &directory, &mut tests);
    }
    tests
}

/// Collects the names of the tests in a file and in its modules.
///
/// `directory` contains the files of the modules.
fn collect(text: &str, directory: &Path, tests: &mut HashSet<String>) {
    let mut attributes = String::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        if line.starts_with("#[") {
            attributes.push_str(line);
            continue;
        }
        if let Some(module) = line.strip_suffix(';').and_then(|line| line.rsplit_once("mod ")) {
            // Modules with a `path` attribute are skipped: support code has no tests, and `src` is collected
            // separately.
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

/// Returns the names of the tests that a macro defines for each server or store.
fn tests_of(text: &str) -> impl Iterator<Item = &str> {
    let lists = ["\non_both_servers! {", "\non_every_database! {", "\non_real_stores! {", "\ntest_client! {"];
    let list = lists.iter().find_map(|list| text.split_once(list)?.1.split_once('}'));
    list.map_or("", |(list, _)| list).split([',', ':', ';']).map(str::trim).filter(|name| !name.is_empty())
}
