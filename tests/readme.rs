//! What the README and the documents show is what the tests prove.

use std::fs;
use std::path::Path;

/// The tests of behaviour run with the rights that docs/rbac.yaml grants; so must who reads the README.
#[test]
fn the_readme_prints_the_manifest_that_the_tests_apply() {
    let readme = include_str!("../README.md");
    let printed = readme.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a manifest");
    let (account, applied) = include_str!("../docs/rbac.yaml").split_once("---\n").expect("several documents");
    assert!(account.contains("kind: ServiceAccount"));
    assert_eq!(printed, applied);
}

#[test]
fn the_tests_that_safety_rests_on_are_there() {
    let mut sources = String::new();
    for directory in ["src", "tests"] {
        collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join(directory), &mut sources);
    }
    // Tests have names of several words; nothing else in backticks has.
    let named = include_str!("../docs/SAFETY.md").split('`').skip(1).step_by(2);
    let tests: Vec<_> =
        named.filter(|name| name.matches('_').count() > 2 && !name.contains(char::is_whitespace)).collect();
    assert!(tests.len() > 20, "{tests:?}");
    for test in tests {
        assert!(sources.contains(&format!("fn {test}(")), "docs/SAFETY.md names the test {test}, which is not there");
    }
}

/// The text of all Rust files below a directory.
fn collect(directory: &Path, text: &mut String) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        match path.extension().and_then(|extension| extension.to_str()) {
            None if path.is_dir() => collect(&path, text),
            Some("rs") => text.push_str(&fs::read_to_string(&path).expect("a source file")),
            _ => {}
        }
    }
}
