//! What the README shows is what the tests prove.

/// The tests of behaviour run with the rights that docs/rbac.yaml grants; so must who reads the README.
#[test]
fn the_readme_prints_the_manifest_that_the_tests_apply() {
    let readme = include_str!("../README.md");
    let printed = readme.split("```yaml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a manifest");
    let (account, applied) = include_str!("../docs/rbac.yaml").split_once("---\n").expect("several documents");
    assert!(account.contains("kind: ServiceAccount"));
    assert_eq!(printed, applied);
}
