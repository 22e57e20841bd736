//! The files of the repository, and the text of a document without its code.

use std::fs;
use std::path::{Path, PathBuf};

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Reads a file by its path in the repository. A missing file fails the test.
pub fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("cannot read {}: {error}", path.display()))
}

/// Returns the paths of a file, or of all files in a folder, relative to the repository.
pub fn files(path: impl AsRef<Path>) -> Vec<PathBuf> {
    let path = path.as_ref();
    let full = root().join(path);
    if full.is_file() {
        return vec![path.to_owned()];
    }
    let entries = fs::read_dir(&full).unwrap_or_else(|error| panic!("cannot read {}: {error}", full.display()));
    entries.flat_map(|entry| files(path.join(entry.expect("an entry").file_name()))).collect()
}

/// Returns the lines of a document outside code blocks, with their numbers.
pub fn lines_outside_code(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}
