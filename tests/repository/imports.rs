//! The imports between the library's files: no cycles, and no imports from a higher layer.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{MAIN_SEPARATOR, Path};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::files::{files, read, root};

/// The folders of `src`, from the lowest layer to the highest.
///
/// A folder imports only from itself and from lower layers.
const LAYERS: [&str; 11] = [
    "util",       // clock, locks, cancellation, text
    "store",      // the trait, its types, the record, the store in memory
    "election",   // the protocol, without threads and I/O
    "leadership", // guards, campaigns and other types that a caller holds
    "observe",    // status, health, observers, metrics
    "runtime",    // threads
    "net",        // sockets, TLS, HTTP
    "backends",   // a folder for each store, without imports from another store
    "elector",    // the builder and the elector
    "group",      // groups, which divide shards over processes
    "fuzzing",    // fuzz targets
];

/// The folders of `crates`, whose modules import only each other and the public API of the library.
pub const CRATES: [&str; 2] = ["cli", "testing"];

/// The modules that each module imports.
///
/// A module has a name such as `backends::kubernetes::client`.
type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_two_files_import_each_other() {
    let imports = imports_of(&sources());
    let reaches = |from: &str| {
        let (mut found, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(module) = next.pop() {
            next.extend(imports[&module].iter().filter(|it| found.insert((*it).clone())).cloned());
        }
        found
    };
    let in_a_round: Vec<_> = imports.keys().filter(|module| reaches(module).contains(*module)).collect();
    assert!(in_a_round.is_empty(), "in rounds: {in_a_round:?}");
}

#[test]
fn no_file_has_a_forbidden_import() {
    assert_eq!(violations(&sources()), Vec::<String>::new());
}

#[test]
fn each_folder_is_in_one_layer_and_lib_stands_beside_them() {
    let entries = fs::read_dir(root().join("src")).expect("a directory").map(|it| it.expect("an entry").file_name());
    let entries: BTreeSet<_> = entries.map(|it| it.to_string_lossy().into_owned()).collect();
    assert_eq!(entries, LAYERS.iter().chain(&["lib.rs"]).map(|it| (*it).to_owned()).collect());
}

#[test]
fn a_round_and_its_files_are_found() {
    let sources = BTreeMap::from([
        ("a".to_owned(), "use crate::b::{self, c::D};".to_owned()),
        ("b".to_owned(), "pub use c::D; mod c; fn f() { crate::e::g() }".to_owned()),
        ("b::c".to_owned(), "use super::super::a; pub struct D;".to_owned()),
        ("e".to_owned(), "#[cfg(test)] mod tests { use crate::a; }".to_owned()),
    ]);
    let found = imports_of(&sources);
    let names = |module: &str| found[module].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(names("a"), ["b", "b::c"]);
    assert_eq!(names("b"), ["e"], "what is only passed on is no import");
    assert_eq!(names("b::c"), ["a"]);
    assert!(names("e").is_empty(), "tests may import anything");
}

#[test]
fn every_form_of_a_forbidden_import_is_found() {
    let found = |text: &str| {
        let files = ["backends", "backends::mysql::client", "elector::builder", "net::tls", "lib"];
        let mut sources: BTreeMap<_, _> = files.map(|it| (it.to_owned(), String::new())).into();
        sources.insert("backends::postgres::wire".to_owned(), text.to_owned());
        violations(&sources)
    };
    for text in [
        "fn f() { crate::LeaderElector::builder() }",
        "pub(crate) use crate::elector::builder::X;",
        "fn f() { self::super::super::mysql::client::x() }",
        "mod inner { use super::super::super::mysql::client; }",
        "macro_rules! m { () => { assert!($crate::elector::builder::X) } }",
        "use crate::net; fn f() { net::tls::x() }",
        "use super::super::sql::*;",
        "extern crate self as root;",
        "#[cfg_attr(unix, path = \"../mysql/client.rs\")] mod client;",
        "include!(\"../mysql/client.rs\");",
        "struct S { #[serde(with = \"crate :: elector::builder\")] it: u8 }",
        "use log::{Level, warn};",
        "fn f() { ::log::warn! {} }",
        "#[cfg(all(test_x, unix))] use crate::elector::builder::X;",
    ] {
        assert!(!found(text).is_empty(), "{text}");
    }
    let text = "//! [`crate::LeaderElector`]\n use crate::net::tls; pub(in crate::backends) use tls::X; use log::Level;
        enum Kind { A } use Kind::*; #[cfg(all(unix, test))] mod tests { use crate::*; }";
    assert_eq!(found(text), Vec::<String>::new());
}

/// Returns the forbidden imports.
///
/// A module must not import from a higher layer or from another backend. A module must not import log macros, because
/// they do not catch panics of the logger. An import must not hide the imported file.
fn violations(sources: &BTreeMap<String, String>) -> Vec<String> {
    let backend = |module: &str| {
        let name = module.strip_prefix("backends::").map(|rest| split(rest)[0].clone());
        name.filter(|name| !["sql", "notes", "password", "record_fields"].contains(&name.as_str()))
    };
    let mut violations: Vec<_> = scan(sources).into_values().flat_map(|scan| scan.refused).collect();
    for (module, imported) in imports_of(sources) {
        for other in imported {
            let is_foreign = backend(&module).zip(backend(&other)).is_some_and(|(own, other)| own != other);
            if is_foreign || layer(&other) > layer(&module) {
                violations.push(format!("{module} imports {other}"));
            }
        }
    }
    violations
}

fn layer(module: &str) -> usize {
    let folder = module.split("::").next();
    let layers = LAYERS.iter().chain(&CRATES);
    layers.copied().position(|it| Some(it) == folder).unwrap_or_else(|| panic!("{module} is in no layer"))
}

/// Returns the text of each library module except tests, by the name of the module.
pub fn sources() -> BTreeMap<String, String> {
    let folders = ["src".to_owned()].into_iter().chain(CRATES.map(|name| format!("crates/{name}/src")));
    folders.flat_map(files).filter_map(|path| Some((module_of(&path)?, read(path)))).collect()
}

/// Returns the name of the module in a source file, or `None` if the file contains no module or is a test.
///
/// The name of a module in `crates` begins with the name of the crate's folder.
fn module_of(path: &Path) -> Option<String> {
    let mut names: Vec<_> = path.to_str()?.strip_suffix(".rs")?.split(MAIN_SEPARATOR).skip(1).collect();
    names.pop_if(|name| ["mod", "main"].contains(name) || path.starts_with("crates") && *name == "lib");
    names.retain(|name| *name != "src");
    // Modules of tests may import anything.
    (!names.iter().any(|name| ["tests", "properties"].contains(name))).then(|| names.join("::"))
}

pub fn scan(sources: &BTreeMap<String, String>) -> BTreeMap<String, Scan> {
    sources.iter().map(|(module, text)| (module.clone(), Scan::of(module, text))).collect()
}

fn imports_of(sources: &BTreeMap<String, String>) -> Imports {
    let mut scans = scan(sources);
    // `lib` re-exports every layer, so its own imports do not count. `Scan` refuses paths through the re-exports.
    scans.remove("lib");
    let aliases = scans.values().flat_map(|scan| scan.aliases.clone()).collect();
    let resolved = |module: &String, scan: &Scan| {
        let found = scan.used.iter().filter_map(|path| resolve(path, &aliases, &scans));
        found.filter(|it| it != module).collect()
    };
    scans.iter().map(|(module, scan)| (module.clone(), resolved(module, scan))).collect()
}

/// Returns the module that contains the item at a path.
///
/// Follows the imports and re-exports of other modules.
fn resolve(path: &[String], aliases: &Aliases, files: &BTreeMap<String, Scan>) -> Option<String> {
    let mut starts = (1..=path.len()).map(|length| path.split_at(length));
    if let Some((target, rest)) = starts.find_map(|(start, rest)| Some((aliases.get(start)?, rest))) {
        return resolve(&[target, rest].concat(), aliases, files);
    }
    (1..=path.len()).rev().map(|length| path[..length].join("::")).find(|module| files.contains_key(module))
}

fn split(module: &str) -> Vec<String> {
    module.split("::").map(str::to_owned).collect()
}

/// Appends the tokens, including the tokens in groups. `::` is one token.
pub fn flat(tokens: TokenStream, found: &mut Vec<String>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Bracket => ("[", "]"),
                    _ => ("{", "}"),
                };
                found.push(open.to_owned());
                flat(group.stream(), found);
                found.push(close.to_owned());
            }
            TokenTree::Punct(it) if it.as_char() == ':' && found.last().is_some_and(|it| it == ":") => {
                *found.last_mut().expect("a colon") += ":";
            }
            other => found.push(other.to_string().trim_start_matches("r#").to_owned()),
        }
    }
}

/// Returns `true` if the condition of a `cfg` is `test` or `all(…)` with `test` in the list.
fn requires_test(condition: &[&str]) -> bool {
    match condition {
        [only] => *only == "test",
        ["all", "(", list @ .., ")"] if !list.contains(&"any") => list.split(|it| *it == ",").any(requires_test),
        _ => false,
    }
}

/// Returns `true` if the tokens begin with an import hidden in a string or an `include!`.
fn evades(words: &[&str]) -> bool {
    let text = words[0].replace(' ', "");
    match words {
        ["path", "=", file, ..] => file.ends_with(".rs\"") && *file != "\"properties.rs\"",
        _ => text == "include" || text.contains("crate::") || text.contains("super::"),
    }
}

/// The path of the imported item for each name that a module imports.
///
/// The key is the full path of that name.
type Aliases = BTreeMap<Vec<String>, Vec<String>>;

/// The paths and types in a file, found in its tokens.
///
/// A syntax tree would not contain the paths in macros.
#[derive(Default)]
pub struct Scan {
    module: Vec<String>,
    /// An entry for each open brace: the name of an inline module, or `None`.
    scopes: Vec<Option<String>>,
    used: Vec<Vec<String>>,
    aliases: Aliases,
    refused: Vec<String>,
    pub types: Vec<String>,
}

impl Scan {
    fn of(module: &str, text: &str) -> Self {
        let mut tokens = Vec::new();
        flat(text.parse().unwrap_or_else(|error| panic!("{module}: {error}")), &mut tokens);
        let words: &[_] = &without_tests(&tokens.iter().map(String::as_str).collect::<Vec<_>>());
        let mut scan = Self { module: split(module), ..Self::default() };
        let mut at = 0;
        while at < words.len() {
            at = match &words[at..] {
                ["pub", "(", "crate" | "self" | "super" | "in", ..] => closed(words, at + 1),
                ["use", ..] => scan.tree(words, at + 1, &[], Some(at > 0 && ["pub", ")"].contains(&words[at - 1]))),
                ["crate" | "super", ..] | [_, "::", ..] if is_name(words[at]) => scan.tree(words, at, &[], None),
                ["mod", name, "{", ..] => {
                    scan.scopes.push(Some((*name).to_owned()));
                    at + 3
                }
                // Traits of other crates determine the names of these associated types.
                ["type", "Err" | "Item" | "Out" | "Output" | "Target" | "Value", "=", ..] => at + 2,
                ["struct" | "enum" | "trait" | "union" | "type", name, ..] if is_name(name) => {
                    scan.types.push((*name).to_owned());
                    at + 2
                }
                ["doc", "=", text, ..] if text.contains('"') => at + 3,
                rest => {
                    match rest[0] {
                        "{" => scan.scopes.push(None),
                        "}" => _ = scan.scopes.pop(),
                        word if evades(rest) => scan.refused.push(format!("{module}: {word}")),
                        _ => {}
                    }
                    at + 1
                }
            }
        }
        scan
    }

    /// Reads the path, or the tree of paths, that begins at `at`.
    ///
    /// Returns the position after the last token.
    ///
    /// `passes_on` is `None` outside `use`, `Some(true)` in `pub use`, and `Some(false)` in any other `use`.
    fn tree(&mut self, words: &[&str], mut at: usize, before: &[&str], passes_on: Option<bool>) -> usize {
        let mut path = before.to_vec();
        while is_name(words[at]) || ["::", "*"].contains(&words[at]) {
            path.extend(Some(words[at]).filter(|it| *it != "::"));
            at += 1;
            if words[at - 1] != "::" && words[at] != "::" {
                break;
            }
        }
        if passes_on.is_some() && words[at] == "{" {
            at += 1;
            while words[at] != "}" {
                at = self.tree(words, at, &path, passes_on);
                at += usize::from(words[at] == ",");
            }
            return at + 1;
        }
        let mut name = path.iter().rfind(|it| **it != "self").map_or("", |it| *it);
        if passes_on.is_some() && words[at] == "as" {
            name = words[at + 1];
            at += 2;
        }
        self.leaf(&path, name, passes_on);
        at
    }

    fn leaf(&mut self, path: &[&str], name: &str, passes_on: Option<bool>) {
        let is_crate = CRATES.contains(&&*self.module[0]);
        let mut key: Vec<_> = self.module.iter().chain(self.scopes.iter().flatten()).cloned().collect();
        let mut absolute = key.clone();
        for name in path {
            match *name {
                "crate" => absolute = self.module[..usize::from(is_crate)].to_vec(),
                "super" => _ = absolute.pop(),
                "self" => {}
                _ => absolute.push((*name).to_owned()),
            }
        }
        let is_refused = match path {
            ["crate" | "super" | "self", ..]
                if !is_crate && (absolute.len() < 2 || !LAYERS.contains(&&*absolute[0])) =>
            {
                true
            }
            ["log", "Level" | "LevelFilter" | "max_level" | "log_enabled", ..] => false,
            // The logger of the command does not panic, and no program contains the test tools.
            ["log", ..] => !is_crate && self.module != ["util", "panics"],
            [.., of, "*"] => !of.starts_with(char::is_uppercase),
            _ => path.contains(&"include"),
        };
        if is_refused {
            self.refused.push(format!("{}: {}", self.module.join("::"), path.join("::")));
        }
        if passes_on != Some(true) || !absolute.starts_with(&self.module) {
            self.used.push(absolute.clone());
        }
        key.push(name.to_owned());
        if passes_on.is_some() && !absolute.starts_with(&key) {
            self.aliases.insert(key, absolute);
        }
    }
}

fn is_name(word: &str) -> bool {
    word.starts_with(|it: char| it == '_' || it.is_alphabetic())
}

/// Returns the position after the group that opens at `at`.
pub fn closed(words: &[&str], at: usize) -> usize {
    end_of_group(words, at).expect("a closed group")
}

/// Returns the position after the group that opens at `at`, or `None` if the group does not end.
pub fn end_of_group(words: &[&str], at: usize) -> Option<usize> {
    let mut depth = 0;
    let is_last = |word: &&str| {
        depth += i32::from(["(", "[", "{"].contains(word)) - i32::from([")", "]", "}"].contains(word));
        depth == 0
    };
    words[at..].iter().position(is_last).map(|length| at + 1 + length)
}

/// Returns the end of the item or field that begins at `at`.
///
/// The result may be too early, for example at a comma inside a type.
fn item_end(words: &[&str], at: usize) -> usize {
    let end = at + words[at..].iter().position(|it| [";", ",", "{", "}"].contains(it)).expect("an end");
    if words[end] == "{" { closed(words, end) } else { end }
}

/// Returns the words without the items that are compiled for unit tests only.
pub fn without_tests<'a>(words: &[&'a str]) -> Vec<&'a str> {
    let (mut left, mut at) = (Vec::new(), 0);
    while at < words.len() {
        match &words[at..] {
            ["#", "[", "cfg", ..] if requires_test(&words[at + 4..closed(words, at + 3) - 1]) => {
                at = item_end(words, closed(words, at + 1));
            }
            [word, ..] => {
                left.push(*word);
                at += 1;
            }
            [] => {}
        }
    }
    left
}
