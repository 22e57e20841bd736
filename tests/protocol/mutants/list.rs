//! The mutants: the text files in `list`, one for each topic. A paragraph is a mutant: its name, the harm it does, the lines that
//! go and come, and the check that catches it.
//!
//! Two mutants would be equivalent to the library, and are therefore not listed:
//!
//! - The latest of several in-doubt writes that match is adopted instead of the earliest. No two of them match one record, because
//!   `renewTime` moves with every write.
//! - An in-doubt write is closed when a version at its base is learned. A write's base is never above the known version, so no new
//!   version is at the base of an in-doubt write. (A read at the base is not new, and is in the list.)

use std::path::Path;
use std::sync::OnceLock;
use std::{fmt, fs};

use Check::{Binary, Simulation, Test, Threads, Unit};

pub struct Mutant {
    pub name: &'static str,
    pub why: &'static str,
    pub edits: &'static [Edit],
    pub caught_by: Check,
}

/// Somewhere in the body of a function. `old` stands in the file exactly once; what comes before and after the change, and
/// only makes it so, may lie outside of that function.
pub struct Edit {
    pub file: &'static str,
    pub old: &'static str,
    pub new: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// A suite of the simulation.
    Simulation(&'static str),
    /// A test of the library itself.
    Unit(&'static str),
    /// A test of the command itself.
    Binary(&'static str),
    /// A test in a file of `tests`.
    Test(&'static str, &'static str),
    /// A model of the threads, in `tests/threads/shuttle`.
    Threads(&'static str),
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Simulation(test) => write!(f, "simulation, {test}"),
            Unit(test) | Binary(test) => f.write_str(test),
            Test(file, test) => write!(f, "tests/{file}, {test}"),
            Threads(model) => write!(f, "threads, {model}"),
        }
    }
}

pub fn mutants() -> &'static [Mutant] {
    static MUTANTS: OnceLock<Vec<Mutant>> = OnceLock::new();
    MUTANTS.get_or_init(|| {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protocol/mutants/list");
        let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
        let mut files: Vec<_> = entries.collect();
        files.sort();
        let texts = files.iter().map(|file| &*fs::read_to_string(file).expect("a text").leak());
        let paragraphs = texts.flat_map(|text| text.split("\n\n")).filter(|text| text.starts_with("mutant "));
        paragraphs.map(|text| mutant(text).unwrap_or_else(|| panic!("not a mutant: {text}"))).collect()
    })
}

fn mutant(text: &'static str) -> Option<Mutant> {
    let (head, changes) = text.split_once("\nin ")?;
    let (name, why) = head.strip_prefix("mutant ")?.split_once("\nwhy ")?;
    let (changes, check) = changes.split_once("\ncaught by ")?;
    let edits: Vec<_> = changes.split("\nin ").map(edit).collect();
    let (kind, test) = check.trim_end().split_once(' ')?;
    let caught_by = match kind {
        "simulation" => Simulation(test),
        "unit" => Unit(test),
        "binary" => Binary(test),
        "threads" => Threads(test),
        file => Test(file.strip_prefix("tests/")?, test),
    };
    Some(Mutant { name, why, edits: edits.leak(), caught_by })
}

fn edit(text: &'static str) -> Edit {
    let lines = |sign| text.lines().skip(1).filter_map(|line| line.strip_prefix(sign)).collect::<Vec<_>>().join("\n");
    Edit { file: text.lines().next().unwrap_or_default(), old: lines('-').leak(), new: lines('+').leak() }
}
