//! A journal of the faults that a test causes, written to a file with the candidates' lines.

use std::collections::BTreeMap;
use std::path::Path;

use parking_lot::Mutex;

use super::process::{Line, mono};
use super::say_aloud;

pub struct Journal {
    test: String,
    seed: u64,
    entries: Mutex<Vec<Entry>>,
}

struct Entry {
    mono: f64,
    text: String,
    fault: Option<&'static str>,
}

impl Journal {
    pub fn new(test: &str, seed: u64) -> Journal {
        Journal { test: test.to_owned(), seed, entries: Mutex::default() }
    }

    pub fn fault(&self, kind: &'static str) {
        self.entries.lock().push(Entry { mono: mono(), text: kind.to_owned(), fault: Some(kind) });
    }

    pub fn note(&self, text: String) {
        self.entries.lock().push(Entry { mono: mono(), text, fault: None });
    }

    /// Returns the number of faults of each kind.
    pub fn faults(&self) -> BTreeMap<&'static str, usize> {
        let mut faults = BTreeMap::new();
        for kind in self.entries.lock().iter().filter_map(|entry| entry.fault) {
            *faults.entry(kind).or_default() += 1;
        }
        faults
    }

    /// Writes the journal and the candidates' lines to a file, in the order of time.
    ///
    /// The next run overwrites the file of a successful run. The file of a failed run is kept, because its name
    /// contains the seed.
    pub fn keep(&self, lines: &[Line], failed: bool) {
        let entries = self.entries.lock();
        let befell = entries.iter().map(|entry| (entry.mono, format!("        {}", entry.text)));
        let said = lines.iter().map(|line| (line.mono, format!("{line:?}")));
        let mut all: Vec<_> = befell.chain(said).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let text: String = all.iter().map(|(mono, text)| format!("{mono:.6} {text}\n")).collect();
        let Journal { test, seed, .. } = self;
        let name = if failed { format!("{test}-{seed}.log") } else { format!("{test}.log") };
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let kept = std::fs::write(&file, text);
        if failed {
            say_aloud(&format!("{test} (seed {seed}): all that happened is in {}: {kept:?}", file.display()));
        }
    }
}
