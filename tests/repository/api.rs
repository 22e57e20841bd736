//! The size of the public API, counted in rustdoc's JSON.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::files::{files, read, root};

/// All features except `_internals` and `fips`.
const FEATURES: &str = "aws-lc-rs,etcd,json,kubeconfig,metrics,mysql,postgres,ring,serde,signals,sqlite";

/// Maximum number of names at the crate root, except modules.
const ROOT_NAMES: usize = 30;

/// Maximum number of public functions and methods, except those of the module `store`.
///
/// Raise this number only together with the feature that needs the function.
const FUNCTIONS: usize = 177;

#[test]
fn public_api_does_not_grow_by_accident() {
    let api = Api::of_the_library();
    let names: Vec<_> = api.names.iter().filter(|path| !path.contains("::")).collect();
    assert!(names.len() <= ROOT_NAMES, "{}: {names:#?}", names.len());
    let functions: Vec<_> = api.functions.iter().filter(|path| !path.starts_with("store::")).collect();
    assert!(functions.len() <= FUNCTIONS, "{}: {functions:#?}", functions.len());
    for wanted in ["LeaderElector::block_until_leader", "client_go::run", "client_go::Callbacks::on_started_leading"] {
        assert!(functions.iter().any(|path| *path == wanted), "{wanted} is not counted: {functions:#?}");
    }
}

/// The modules that the feature `_internals` makes public.
const INTERNALS: [&str; 4] = ["composite", "election", "fuzzing", "util"];

/// The files that may use these modules: the simulation, the models, the thread models, and the fuzz targets with their
/// measurements of memory.
const USERS: [&str; 5] = [
    "tests/protocol",
    "tests/threads",
    "tests/behaviour/corpora.rs",
    "tests/behaviour/heap",
    "tests/support/allocation.rs",
];

#[test]
fn internals_are_used_by_models_benchmarks_and_fuzzing_alone() {
    let mut found = BTreeSet::new();
    for path in ["tests", "examples", "crates", "docs"].into_iter().flat_map(files) {
        let is_source = path.extension().is_some_and(|extension| extension == "rs" || extension == "md");
        if is_source && !path.iter().any(|folder| folder == "target") {
            let text = read(&path);
            if INTERNALS.iter().any(|module| text.contains(&format!("use leasehold::{module}"))) {
                found.insert(path);
            }
        }
    }
    let is_user = |path: &PathBuf| USERS.iter().any(|user| path.starts_with(user));
    assert!(found.iter().filter(|path| is_user(path)).count() > 20, "{found:#?}");
    found.retain(|path| !is_user(path));
    assert!(found.is_empty(), "only the files in `USERS`, `benches` and `fuzz` may use internals: {found:#?}");
}

/// The exported items, by their paths without the name of the crate.
#[derive(Default)]
struct Api {
    index: serde_json::Map<String, Value>,
    /// All items except modules.
    names: BTreeSet<String>,
    /// Functions, methods, and the methods that public traits declare.
    functions: Vec<String>,
}

impl Api {
    fn of_the_library() -> Self {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["rustdoc", "--locked", "--quiet", "--package=leasehold", "--lib", "--features", FEATURES]);
        cargo.args(["--", "-Z", "unstable-options", "--output-format", "json"]);
        cargo.env("RUSTDOC", root().join("tests/repository/rustdoc")).current_dir(root());
        let output = cargo.output().expect("cargo runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
        let json = fs::read(root().join(target).join("doc/leasehold.json")).expect("rustdoc's JSON");
        let mut json: Value = serde_json::from_slice(&json).expect("JSON");
        let Value::Object(index) = json["index"].take() else { panic!("no index") };
        let mut api = Self { index, ..Self::default() };
        api.add_items(&json["root"], "");
        api
    }

    fn item(&self, id: &Value) -> Option<Value> {
        self.index.get(&id.to_string()).cloned()
    }

    /// Adds the items of a module. Other crates' items, such as crossbeam-channel's, are counted as names alone.
    fn add_items(&mut self, module: &Value, path: &str) {
        let items = self.item(module).expect("a module")["inner"]["module"]["items"].take();
        for id in items.as_array().expect("items") {
            let Some(item) = self.item(id).filter(|item| item["visibility"] == "public") else { continue };
            let used = &item["inner"]["use"];
            let name = used["name"].as_str().or(item["name"].as_str()).expect("a name");
            let path = format!("{path}{name}");
            let target = if used.is_null() { Some(item.clone()) } else { self.item(&used["id"]) };
            match target.filter(|target| !target["inner"]["module"].is_null()) {
                Some(module) => self.add_items(&module["id"], &format!("{path}::")),
                None => self.add_item(if used.is_null() { id } else { &used["id"] }, &path),
            }
        }
    }

    fn add_item(&mut self, id: &Value, path: &str) {
        if !self.names.insert(path.to_owned()) {
            return;
        }
        let Some(item) = self.item(id) else { return };
        let (kind, inner) = item["inner"].as_object().and_then(|inner| inner.iter().next()).expect("a kind");
        if kind == "function" {
            self.functions.push(path.to_owned());
        }
        let of_trait = if kind == "trait" { inner["items"].as_array() } else { None };
        let implementations = inner["impls"].as_array().into_iter().flatten().filter_map(|id| self.item(id));
        let inherent = implementations.filter(|item| item["inner"]["impl"]["trait"].is_null());
        let methods = inherent.filter_map(|item| item["inner"]["impl"]["items"].as_array().cloned()).flatten();
        let methods: Vec<_> = methods.chain(of_trait.into_iter().flatten().cloned()).collect();
        // The methods of a trait have the visibility of the trait.
        let is_public = |method: &Value| kind == "trait" || method["visibility"] == "public";
        let methods = methods.iter().filter_map(|id| self.item(id)).filter(is_public);
        let functions = methods.filter(|method| !method["inner"]["function"].is_null());
        let paths = functions.map(|method| format!("{path}::{}", method["name"].as_str().expect("a name")));
        let paths: Vec<_> = paths.collect();
        self.functions.extend(paths);
    }
}
