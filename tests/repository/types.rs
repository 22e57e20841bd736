//! Type names: a name means one type in the whole crate.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use syn::{Attribute, Item};

#[test]
fn each_type_has_a_name_of_its_own() {
    let mut types = BTreeMap::new();
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut types);
    assert!(types.len() > 400, "{} types", types.len());
    // The folder of a backend says whose error this is.
    let is_own = |name: &str, files: &[String]| {
        let elsewhere = files.iter().filter(|file| !file.contains("/src/backends/")).count();
        name == "Error" && elsewhere <= 1
    };
    types.retain(|name, files| files.len() > 1 && !is_own(name, files));
    assert!(types.is_empty(), "names of more than one type: {types:#?}");
}

/// Files by the names of the types in them.
type Types = BTreeMap<String, Vec<String>>;

fn read(directory: &Path, types: &mut Types) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.file_stem().is_some_and(|stem| stem == "tests" || stem == "properties") {
            continue;
        }
        if path.is_dir() {
            read(&path, types);
        } else if path.extension().is_some_and(|it| it == "rs") {
            let text = fs::read_to_string(&path).expect("a text");
            collect(&syn::parse_file(&text).expect("Rust").items, &path.display().to_string(), types);
        }
    }
}

fn collect(items: &[Item], file: &str, types: &mut Types) {
    for item in items {
        let (name, attributes) = match item {
            Item::Struct(it) => (&it.ident, &it.attrs),
            Item::Enum(it) => (&it.ident, &it.attrs),
            Item::Trait(it) => (&it.ident, &it.attrs),
            Item::Union(it) => (&it.ident, &it.attrs),
            Item::Mod(it) => {
                if let Some((_, items)) = it.content.as_ref().filter(|_| !is_for_tests(&it.attrs)) {
                    collect(items, file, types);
                }
                continue;
            }
            _ => continue,
        };
        if !is_for_tests(attributes) {
            types.entry(name.to_string()).or_default().push(file.to_owned());
        }
    }
}

/// Whether `cfg(test)` or `cfg(all(test, …))` is among them.
fn is_for_tests(attributes: &[Attribute]) -> bool {
    let tokens = |it: &Attribute| it.meta.require_list().map(|list| list.tokens.to_string()).unwrap_or_default();
    attributes.iter().filter(|it| it.path().is_ident("cfg")).map(tokens).any(|it| {
        it == "test"
            || it.strip_prefix("all").is_some_and(|rest| rest.trim_start_matches([' ', '(']).starts_with("test"))
    })
}
