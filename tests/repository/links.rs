//! Tests of the links between documents, and of the documents in the package.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use crate::files::{files, lines_outside_code, read, root};

/// A link in a document: the number of its line, and its target as written.
type Link = (usize, String);

#[test]
fn relative_links_point_to_files_and_headings() {
    let mut checked = 0;
    let mut broken = Vec::new();
    for document in documents() {
        let text = read(&document);
        for (line, target) in links(&text).filter(|(_, target)| is_relative(target)) {
            checked += 1;
            if let Some(fault) = fault(&document, &text, &target) {
                broken.push(format!("{}:{line}: {target}: {fault}", document.display()));
            }
        }
    }
    assert!(checked > 40, "only {checked} links were found");
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
}

/// Returns the reason why a link is broken, or `None` if the link is correct.
fn fault(document: &Path, text: &str, target: &str) -> Option<String> {
    let (path, fragment) = target.split_once('#').map_or((target, None), |(path, fragment)| (path, Some(fragment)));
    let linked = if path.is_empty() { document.to_owned() } else { resolve(document, path) };
    if !root().join(&linked).exists() {
        return Some(format!("{} does not exist", linked.display()));
    }
    let fragment = fragment?;
    let text = if path.is_empty() { text.to_owned() } else { read(&linked) };
    (!anchors(&text).contains(fragment)).then(|| format!("{} has no heading #{fragment}", linked.display()))
}

#[test]
fn anchors_follow_the_rules_of_github() {
    let text = "# Exit codes\n```sh\n# no heading\n```\n## `run`: *what* it does, and [why](x.md)!\n## Exit codes\n";
    let expected = ["exit-codes", "run-what-it-does-and-why", "exit-codes-1"];
    assert_eq!(anchors(text), expected.map(str::to_owned).into());
}

#[test]
fn links_in_code_are_not_links() {
    let text = "[`a`](b.md) and ![c](d.svg), not `[e](f)`\n```rust\n[g](h)\n```\n[i]: j.md#k\n";
    let expected = [(1, "b.md"), (1, "d.svg"), (5, "j.md#k")].map(|(line, target)| (line, target.to_owned()));
    assert_eq!(links(text).collect::<Vec<_>>(), expected);
}

/// A registry shows the README of the package, so each linked file must be in the package.
#[test]
fn package_contains_each_file_that_the_readme_links() {
    let scratch = tempfile::tempdir().expect("a scratch directory");
    // This call creates the archive, because `--list` alone succeeds even if the manifest cannot be published.
    cargo_package(scratch.path(), &["--no-verify", "--quiet"]);
    let packaged = cargo_package(scratch.path(), &["--list"]);
    let packaged: BTreeSet<_> = packaged.lines().map(PathBuf::from).collect();
    let readme = Path::new("README.md");
    for (line, target) in links(&read(readme)).filter(|(_, target)| is_relative(target)) {
        let path = target.split('#').next().unwrap_or_default();
        let linked = if path.is_empty() { readme.to_owned() } else { resolve(readme, path) };
        assert!(
            packaged.iter().any(|file| file.starts_with(&linked)),
            "README.md:{line}: {target} is not in the package; see `include` in Cargo.toml"
        );
    }
}

fn cargo_package(target: &Path, flags: &[&str]) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    let cargo =
        cargo.args(["package", "--allow-dirty", "--locked", "--offline", "--package=leasehold", "--target-dir"]);
    let output = cargo.arg(target).args(flags).current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "cargo package: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Returns the Markdown files in the root of the repository and in `docs`.
fn documents() -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(root()).expect("the repository").map(|entry| entry.expect("an entry").file_name());
    let at_root = entries.map(PathBuf::from).filter(|path| root().join(path).is_file());
    at_root.chain(files("docs")).filter(|path| path.extension().is_some_and(|it| it == "md")).collect()
}

fn is_relative(target: &str) -> bool {
    !target.contains("://") && !target.starts_with("mailto:")
}

/// Returns the target of a link in `document` as a path relative to the repository.
fn resolve(document: &Path, path: &str) -> PathBuf {
    let mut resolved = document.parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::ParentDir => assert!(resolved.pop(), "{}: {path} leaves the repository", document.display()),
            Component::CurDir => {}
            part => resolved.push(part),
        }
    }
    resolved
}

fn links(text: &str) -> impl Iterator<Item = Link> {
    lines_outside_code(text).flat_map(|(number, line)| {
        let line: String = line.split('`').step_by(2).collect();
        let definition =
            line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target.trim());
        let inline = line.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
        let targets = inline.chain(definition).map(|target| (number, target.to_owned()));
        targets.collect::<Vec<_>>()
    })
}

/// Returns the anchors of the headings in a document.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut uses = BTreeMap::<String, usize>::new();
    let headings = lines_outside_code(text)
        .filter_map(|(_, line)| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    headings
        .map(|heading| {
            let anchor = anchor(heading);
            let before = uses.entry(anchor.clone()).or_default();
            *before += 1;
            if *before == 1 { anchor } else { format!("{anchor}-{}", *before - 1) }
        })
        .collect()
}

fn anchor(heading: &str) -> String {
    // If a heading contains a link, only the link text is part of the anchor.
    let mut parts = heading.trim().split("](");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    let kept = shown.chars().filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'));
    kept.map(|it| if it == ' ' { '-' } else { it }).flat_map(char::to_lowercase).collect()
}
