//! How the library's files depend on each other: no two import each other, directly or in a round, and none imports what
//! stands on it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree, Visibility};

/// The folders of `src`, from the ground up. A folder imports only itself and folders before it.
const LAYERS: [&str; 12] = [
    "util",       // clock, locks, cancellation, text
    "store",      // the trait, its types, the record, the store in memory
    "election",   // the protocol, without threads and I/O
    "leadership", // what a caller holds
    "observe",    // status, health, observers, metrics
    "runtime",    // threads
    "net",        // sockets, TLS, HTTP
    "backends",   // a folder for each store, which names no other
    "elector",    // the builder and the elector
    "testing",    // the API server in memory, and the conformance suite
    "fuzzing",    // targets
    "cli",        // the command: the public API, and `util`
];

/// Modules by their names, as in `kubernetes::auth::exec`, and what they import.
type Imports = BTreeMap<String, BTreeSet<String>>;

#[test]
fn no_two_files_import_each_other() {
    let imports = imports();
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
fn no_import_goes_up() {
    for (module, imported) in imports() {
        for other in imported {
            assert!(layer(&other) <= layer(&module), "{module} imports {other}, which is in a higher layer");
        }
    }
}

#[test]
fn no_backend_imports_another() {
    let backend = |module: &str| {
        let name = module.strip_prefix("backends::").map(|rest| split(rest)[0].clone());
        name.filter(|name| !["sql", "password", "record_fields"].contains(&name.as_str()))
    };
    for (module, imported) in imports() {
        let Some(own) = backend(&module) else { continue };
        let foreign = imported.iter().find(|other| backend(other).is_some_and(|name| name != own));
        assert_eq!(foreign, None, "imported by {module}");
    }
}

#[test]
fn each_folder_is_in_one_layer_and_lib_stands_beside_them() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let entries = fs::read_dir(src).expect("a directory").map(|it| it.expect("an entry").file_name());
    let mut entries: Vec<_> = entries.map(|it| it.to_string_lossy().into_owned()).collect();
    let mut expected: Vec<_> = LAYERS.iter().map(|it| (*it).to_owned()).chain(["lib.rs".to_owned()]).collect();
    entries.sort();
    expected.sort();
    assert_eq!(entries, expected);
}

#[test]
fn library_logs_where_a_panic_of_the_logger_is_caught() {
    let mut sources = sources();
    // The command's logger does not panic, and the server for tests is not in a program.
    sources.retain(|module, _| !["cli", "testing"].iter().any(|it| module.starts_with(it)));
    let bare = ["error", "warn", "info", "debug", "trace", "log"].map(|level| format!("log::{level}!("));
    let is_bare = |line: &&str| !line.trim_start().starts_with("//") && bare.iter().any(|it| line.contains(it));
    for (module, text) in sources {
        assert_eq!(text.lines().find(is_bare), None, "{module} does not use `log_line!`");
    }
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

fn layer(module: &str) -> usize {
    let folder = &split(module)[0];
    LAYERS.iter().position(|it| it == folder).unwrap_or_else(|| panic!("{module} is in no layer"))
}

fn imports() -> Imports {
    let mut sources = sources();
    // The front door opens onto everything.
    sources.remove("lib");
    imports_of(&sources)
}

/// The texts of the library's modules, without the tests, by the names of the modules.
pub fn sources() -> BTreeMap<String, String> {
    let mut sources = BTreeMap::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), "", &mut sources);
    sources
}

fn read(directory: &Path, prefix: &str, sources: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let stem = path.file_stem().expect("a name").to_string_lossy().into_owned();
        // They may import anything.
        if ["tests", "properties"].contains(&stem.as_str()) {
            continue;
        }
        let module = if ["mod", "main"].contains(&&*stem) {
            prefix.trim_end_matches("::").to_owned()
        } else {
            format!("{prefix}{stem}")
        };
        match path.is_dir() {
            true => read(&path, &format!("{module}::"), sources),
            false if path.extension().is_some_and(|it| it == "rs") => {
                sources.insert(module, fs::read_to_string(&path).expect("a text"));
            }
            false => {}
        }
    }
}

fn imports_of(sources: &BTreeMap<String, String>) -> Imports {
    let mut files = BTreeMap::new();
    for (module, text) in sources {
        let mut paths = Paths { module: split(module), ..Paths::default() };
        paths.visit_file(&syn::parse_file(text).unwrap_or_else(|error| panic!("{module}: {error}")));
        files.insert(module.clone(), paths);
    }
    let resolved = |module: &String, paths: &Paths| {
        let found = paths.used.iter().filter_map(|path| resolve(path, &files));
        found.filter(|it| it != module).collect()
    };
    files.iter().map(|(module, paths)| (module.clone(), resolved(module, paths))).collect()
}

/// The file that a path leads to, also by what others pass on.
fn resolve(path: &[String], files: &BTreeMap<String, Paths>) -> Option<String> {
    let length = (1..=path.len()).rev().find(|&length| files.contains_key(&path[..length].join("::")))?;
    let module = path[..length].join("::");
    let passed_on = path.get(length).and_then(|name| files[&module].passed_on.get(name));
    match passed_on.and_then(|path| resolve(path, files)) {
        Some(other) if other != module => Some(other),
        _ => Some(module),
    }
}

fn split(module: &str) -> Vec<String> {
    module.split("::").map(str::to_owned).collect()
}

/// The paths in a file, from the root of the library.
#[derive(Default)]
struct Paths {
    module: Vec<String>,
    /// How deep in modules within the file.
    depth: usize,
    children: BTreeSet<String>,
    used: Vec<Vec<String>>,
    /// Names that the file only passes on, and where they come from.
    passed_on: BTreeMap<String, Vec<String>>,
}

impl Paths {
    fn absolute(&self, path: &[String]) -> Option<Vec<String>> {
        let supers = path.iter().take_while(|it| *it == "super").count();
        match path.first()?.as_str() {
            "crate" => Some(path[1..].to_vec()),
            "self" => Some([&self.module[..], &path[1..]].concat()),
            "super" if supers <= self.depth => None,
            "super" => {
                let up = self.module.len().checked_sub(supers - self.depth)?;
                Some([&self.module[..up], &path[supers..]].concat())
            }
            child if self.children.contains(child) => Some([&self.module[..], path].concat()),
            _ => None,
        }
    }

    fn leaves(tree: &UseTree, before: &[String], found: &mut Vec<(Vec<String>, String)>) {
        let with = |name: String| [before, &[name]].concat();
        match tree {
            UseTree::Path(it) => Self::leaves(&it.tree, &with(it.ident.to_string()), found),
            UseTree::Name(it) if it.ident == "self" => {
                found.push((before.to_vec(), before.last().cloned().unwrap_or_default()));
            }
            UseTree::Name(it) => found.push((with(it.ident.to_string()), it.ident.to_string())),
            UseTree::Rename(it) if it.ident == "self" => found.push((before.to_vec(), it.rename.to_string())),
            UseTree::Rename(it) => found.push((with(it.ident.to_string()), it.rename.to_string())),
            UseTree::Glob(_) => found.push((before.to_vec(), "*".to_owned())),
            UseTree::Group(it) => it.items.iter().for_each(|tree| Self::leaves(tree, before, found)),
        }
    }
}

/// Returns `true` if `cfg(test)` or `cfg(all(test, …))` is among the attributes.
pub fn is_for_tests(attributes: &[Attribute]) -> bool {
    let tokens = |it: &Attribute| it.meta.require_list().map(|list| list.tokens.to_string()).unwrap_or_default();
    attributes.iter().filter(|it| it.path().is_ident("cfg")).map(tokens).any(|it| {
        it == "test"
            || it.strip_prefix("all").is_some_and(|rest| rest.trim_start_matches([' ', '(']).starts_with("test"))
    })
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_file(&mut self, file: &'ast syn::File) {
        let children = file.items.iter().filter_map(|item| match item {
            Item::Mod(it) if it.content.is_none() => Some(it.ident.to_string()),
            _ => None,
        });
        self.children = children.collect();
        visit::visit_file(self, file);
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        if !is_for_tests(&module.attrs) && module.content.is_some() {
            self.depth += 1;
            visit::visit_item_mod(self, module);
            self.depth -= 1;
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if is_for_tests(&item.attrs) {
            return;
        }
        let mut found = Vec::new();
        Self::leaves(&item.tree, &[], &mut found);
        for (path, name) in found {
            let Some(path) = self.absolute(&path) else { continue };
            match item.vis {
                Visibility::Inherited => self.used.push(path),
                _ => _ = self.passed_on.insert(name, path),
            }
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<_> = path.segments.iter().map(|it| it.ident.to_string()).collect();
        if names.len() > 1 {
            self.used.extend(self.absolute(&names));
        }
        visit::visit_path(self, path);
    }
}
