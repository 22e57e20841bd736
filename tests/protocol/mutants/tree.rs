//! A copy of the tree that contains all mutants.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use crate::check::{COMMAND, Checks, LIBRARY, Of, THREADS};
use crate::compile::{Bodies, compile};
use crate::list::{Check, Mutant};
use crate::switch::{self, Source};

/// The parts of the package that the copy needs.
const PARTS: [&str; 9] =
    ["Cargo.toml", "Cargo.lock", "README.md", "src", "crates", "tests", "examples", "benches", "docs"];

/// The crate roots, with the line that declares the module `mutant` in each.
///
/// The sources below a root call this module to find the active mutant.
const ROOTS: [(&str, &str); 3] = [
    ("src/lib.rs", "mod mutant;\n"),
    ("crates/cli/src/main.rs", "#[path = \"../../../src/mutant.rs\"]\nmod mutant;\n"),
    ("tests/threads/shuttle/lib.rs", "#[path = \"../../../src/mutant.rs\"]\nmod mutant;\n"),
];

/// Mutants by number.
pub type Mutants = BTreeMap<usize, &'static Mutant>;

/// Descriptions of what is wrong with a mutant, by the mutant's number.
pub type Mistakes = BTreeMap<usize, String>;

/// The contents of files, by path in the tree.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// The directories to which cargo writes.
#[derive(Clone)]
pub struct Target {
    /// The copy's own directory, for output with a fixed name such as an example.
    pub of_the_copy: PathBuf,
    /// The target directory of the package, which contains the built dependencies.
    pub shared: PathBuf,
}

pub struct Tree {
    root: PathBuf,
    target: Target,
    /// The files as they are in the package.
    files: Files,
}

/// Returns the module path of a source file: `a/b` for both `a/b.rs` and `a/b/mod.rs`.
fn module_of(path: &Path) -> PathBuf {
    if path.ends_with("mod.rs") { path.with_file_name("") } else { path.with_extension("") }
}

impl Tree {
    pub fn new() -> Self {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| package.join("target"), PathBuf::from);
        let shared = package.join(target);
        let mutants = shared.join("mutants");
        let mut files = Files::new();
        for part in PARTS.iter().filter(|part| package.join(part).exists()) {
            read(package, Path::new(part), &mut files).expect("the package can be read");
        }
        // Cargo distinguishes the package from its copy only by their profiles.
        let manifest = files.get_mut(Path::new("Cargo.toml")).expect("a manifest");
        for package in [LIBRARY, COMMAND, THREADS] {
            manifest.extend(format!("\n[profile.dev.package.{package}]\ndebug = false\n").bytes());
        }
        let target = Target { of_the_copy: mutants.join("target"), shared };
        Self { root: mutants.join("tree"), target, files }
    }

    /// Applies each mutant alone, and returns those that do not fit the sources.
    pub fn mistakes(&self, mutants: &Mutants) -> Mistakes {
        let alone = |(&number, &mutant)| Some((number, self.sources(&Mutants::from([(number, mutant)])).err()?));
        mutants.iter().filter_map(alone).collect()
    }

    /// Returns `true` if a file in which the check may be has a function with the check's name.
    pub fn has(&self, check: &Check) -> bool {
        let root = Path::new(match check.program.of {
            Of::Library => "src",
            Of::Binary => "crates/cli/src",
            Of::File(_) => "tests",
        });
        let (module, name) = check.test.rsplit_once("::").unwrap_or(("", check.test));
        let (module, wanted) =
            (PathBuf::from(module.replace("::", "/")), [format!("fn {name}("), format!("\n    {name},\n")]);
        self.files.iter().any(|(path, text)| {
            let Ok(path) = path.strip_prefix(root) else { return false };
            let is_there = root == Path::new("tests") || module.starts_with(module_of(path));
            // A test is either a function, or a name in a list from which a macro generates the function.
            is_there && wanted.iter().any(|wanted| String::from_utf8_lossy(text).contains(wanted))
        })
    }

    /// Builds the checks of all mutants, and returns what is wrong with the faulty mutants.
    ///
    /// The built programs contain all other mutants.
    pub fn build(&self, mutants: &Mutants) -> (Checks, Mistakes) {
        let mut mistakes = self.mistakes(mutants);
        let programs: BTreeSet<_> = mutants.values().map(|mutant| mutant.caught_by.program).collect();
        // The compiler may report more errors after the first ones have been removed.
        loop {
            let mut sound = mutants.clone();
            sound.retain(|number, _| !mistakes.contains_key(number));
            let bodies = self.write(&sound);
            match compile(&self.root, &self.target, &programs, &bodies) {
                Ok(programs) => return (Checks::new(&self.root, &self.target, programs), mistakes),
                Err(wrong) => mistakes.extend(wrong),
            }
        }
    }

    /// Returns the source files that the mutants edit, with the edits added.
    fn sources(&self, mutants: &Mutants) -> Result<BTreeMap<&'static str, Source<'_>>, String> {
        let mut sources = BTreeMap::new();
        for (&number, mutant) in mutants {
            for edit in mutant.edits {
                if !sources.contains_key(edit.file) {
                    sources.insert(edit.file, Source::new(self.source(edit.file)?));
                }
            }
            for (file, source) in &mut sources {
                source.add(number, mutant.edits.iter().filter(|edit| edit.file == *file))?;
            }
        }
        Ok(sources)
    }

    fn source(&self, file: &str) -> Result<&str, String> {
        let text = self.files.get(Path::new(file)).filter(|_| file.starts_with("src/") || file.starts_with("crates/"));
        text.and_then(|text| str::from_utf8(text).ok()).ok_or_else(|| format!("{file} is no source of the library"))
    }

    /// Writes the copy.
    ///
    /// Files that are already correct stay untouched, because cargo rebuilds files by their modification time.
    fn write(&self, mutants: &Mutants) -> Bodies {
        let mut files = self.files.clone();
        let mut bodies = Bodies::new();
        for (file, source) in self.sources(mutants).expect("each was tried alone") {
            let switched = source.switched(|number, body| {
                let path = PathBuf::from(format!("{}/{number}-{}.rs", switch::BODIES, bodies.len()));
                let absolute = self.root.join(&path).display().to_string();
                files.insert(path.clone(), format!("// {}\n{body}", mutants[&number].name).into_bytes());
                bodies.insert(path, number);
                absolute
            });
            files.insert(PathBuf::from(file), switched.into_bytes());
        }
        for (file, line) in ROOTS {
            let library = files.get_mut(Path::new(file)).expect("a library");
            // A mutant may leave items unused.
            library.splice(0..0, *b"#![allow(warnings)]\n");
            library.extend(line.bytes());
        }
        files.insert(PathBuf::from(switch::MODULE), switch::module().into_bytes());
        let mut old = Files::new();
        if self.root.exists() {
            read(&self.root, Path::new(""), &mut old).expect("the last copy can be read");
        }
        for file in old.keys().filter(|file| !files.contains_key(*file)) {
            fs::remove_file(self.root.join(file)).expect("the last copy can be changed");
        }
        for (file, text) in files.iter().filter(|(file, text)| old.get(*file) != Some(text)) {
            let path = self.root.join(file);
            fs::create_dir_all(path.parent().expect("a directory")).expect("a place for the copy");
            fs::write(path, text).expect("the package can be copied");
        }
        bodies
    }
}

/// Reads the file at `path`, or all files below `path` if it is a directory.
fn read(root: &Path, path: &Path, files: &mut Files) -> io::Result<()> {
    let full = root.join(path);
    if !full.is_dir() {
        files.insert(path.to_owned(), fs::read(full)?);
        return Ok(());
    }
    for entry in fs::read_dir(full)? {
        read(root, &path.join(entry?.file_name()), files)?;
    }
    Ok(())
}
