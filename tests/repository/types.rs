//! Type names: a name means one type in the whole crate.

use std::collections::BTreeMap;

use syn::Item;

use crate::imports::{is_for_tests, sources};

#[test]
fn each_type_has_a_name_of_its_own() {
    let mut types = BTreeMap::new();
    for (module, text) in sources() {
        collect(&syn::parse_file(&text).expect("Rust").items, &module, &mut types);
    }
    assert!(types.len() > 400, "{} types", types.len());
    // The module of a backend says whose error this is.
    let is_own = |name: &str, modules: &[String]| {
        let elsewhere = modules.iter().filter(|module| !module.starts_with("backends::")).count();
        name == "Error" && elsewhere <= 1
    };
    types.retain(|name, modules| modules.len() > 1 && !is_own(name, modules));
    assert!(types.is_empty(), "names of more than one type: {types:#?}");
}

/// Modules by the names of the types in them.
type Types = BTreeMap<String, Vec<String>>;

fn collect(items: &[Item], module: &str, types: &mut Types) {
    for item in items {
        let (name, attributes) = match item {
            Item::Struct(it) => (&it.ident, &it.attrs),
            Item::Enum(it) => (&it.ident, &it.attrs),
            Item::Trait(it) => (&it.ident, &it.attrs),
            Item::Union(it) => (&it.ident, &it.attrs),
            Item::Mod(it) => {
                if let Some((_, items)) = it.content.as_ref().filter(|_| !is_for_tests(&it.attrs)) {
                    collect(items, module, types);
                }
                continue;
            }
            _ => continue,
        };
        if !is_for_tests(attributes) {
            types.entry(name.to_string()).or_default().push(module.to_owned());
        }
    }
}
