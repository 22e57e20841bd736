//! Each name of a type is unique in the whole crate.

use std::collections::BTreeMap;

use crate::imports::{CRATES, scan, sources};

#[test]
fn each_type_has_a_name_of_its_own() {
    let mut modules = BTreeMap::<_, Vec<_>>::new();
    for (module, scan) in scan(&sources()) {
        for name in scan.types {
            // Each folder may define its own error type `Error`.
            let depth = if module.starts_with("backends::") { 2 } else { 1 };
            let folder = module.split("::").take(if name == "Error" { depth } else { 0 }).collect::<String>();
            let package = CRATES.into_iter().find(|package| module.starts_with(package));
            modules.entry((name, package, folder)).or_default().push(module.clone());
        }
    }
    assert!(modules.len() > 400, "{} types", modules.len());
    modules.retain(|_, modules| modules.len() > 1);
    assert!(modules.is_empty(), "names of more than one type: {modules:#?}");
}

#[test]
fn types_in_functions_and_aliases_are_found() {
    let text = "type A = u8; fn f() { struct B; } const _: () = { enum C {} };
        #[cfg(all(test_x, unix))] struct D; #[cfg(all(unix, test))] struct E;";
    let sources = BTreeMap::from([("util::names".to_owned(), text.to_owned())]);
    assert_eq!(scan(&sources)["util::names"].types, ["A", "B", "C", "D"]);
}
