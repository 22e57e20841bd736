//! The mutants, which are read from the text files in `list`, one file for each topic.
//!
//! Each paragraph of a file is a mutant: its name, the harm that it does, the lines that it removes and adds, and the
//! check that catches it.
//!
//! Two mutants are not listed, because they would be equivalent to the library:
//!
//! - If several in-doubt writes match a record, the elector adopts the latest instead of the earliest. No two writes
//!   match one record, because every write changes `renewTime`.
//! - The elector closes an in-doubt write when it learns a version that equals the write's base. The base of a write is
//!   never above the known version, so no new version equals it. (A read at the base is not new. Its mutant is listed.)

use std::path::Path;
use std::sync::OnceLock;
use std::{fmt, fs};

use crate::check::{COMMAND, LIBRARY, Of, Program, THREADS};

pub struct Mutant {
    pub name: &'static str,
    pub why: &'static str,
    pub edits: &'static [Edit],
    pub caught_by: Check,
}

/// One change in the body of a function.
///
/// `old` occurs exactly once in the file. The text that `old` and `new` share at both ends makes `old` unique. This
/// text may lie outside the function.
pub struct Edit {
    pub file: &'static str,
    pub old: &'static str,
    pub new: &'static str,
}

/// A test, by its program and its name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Check {
    pub program: Program,
    pub test: &'static str,
}

impl Check {
    /// Returns `true` if the test may fail on a busy machine.
    pub fn is_delicate(&self) -> bool {
        matches!(self.program.of, Of::File(file) if !["simulation", "threads"].contains(&file))
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.program.of {
            Of::File(file) => write!(f, "{file}, {}", self.test),
            Of::Library | Of::Binary => f.write_str(self.test),
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

/// Returns the number of mutants that are not tried, because the sources no longer contain their text.
pub fn parked() -> usize {
    include_str!("parked.txt").matches("\nmutant ").count()
}

fn mutant(text: &'static str) -> Option<Mutant> {
    let (head, changes) = text.split_once("\nin ")?;
    let (name, why) = head.strip_prefix("mutant ")?.split_once("\nwhy ")?;
    let (changes, check) = changes.split_once("\ncaught by ")?;
    let edits: Vec<_> = changes.split("\nin ").map(edit).collect();
    let (kind, test) = check.trim_end().split_once(' ')?;
    let (package, of) = match kind {
        "unit" => (LIBRARY, Of::Library),
        "binary" => (COMMAND, Of::Binary),
        "simulation" => (LIBRARY, Of::File(kind)),
        "threads" => (THREADS, Of::File(kind)),
        "tests/command" => (COMMAND, Of::File("command")),
        file => (LIBRARY, Of::File(file.strip_prefix("tests/")?)),
    };
    let caught_by = Check { program: Program { package, of }, test };
    Some(Mutant { name, why, edits: edits.leak(), caught_by })
}

fn edit(text: &'static str) -> Edit {
    let lines = |sign| text.lines().skip(1).filter_map(|line| line.strip_prefix(sign)).collect::<Vec<_>>().join("\n");
    Edit { file: text.lines().next().unwrap_or_default(), old: lines('-').leak(), new: lines('+').leak() }
}
