//! Mutants in text files: a paragraph for each, with its name, its reason, the lines that go and come, and its test.

use std::sync::OnceLock;

use super::*;

const TEXTS: [&str; 10] = [
    include_str!("client.txt"),
    include_str!("cluster.txt"),
    include_str!("etcd.txt"),
    include_str!("exec.txt"),
    include_str!("mysql.txt"),
    include_str!("network.txt"),
    include_str!("objects.txt"),
    include_str!("schedule.txt"),
    include_str!("tls.txt"),
    include_str!("writes.txt"),
];

pub fn mutants() -> &'static [Mutant] {
    static MUTANTS: OnceLock<Vec<Mutant>> = OnceLock::new();
    let paragraphs = TEXTS.iter().flat_map(|text| text.split("\n\n")).filter(|text| text.starts_with("mutant "));
    MUTANTS
        .get_or_init(|| paragraphs.map(|text| mutant(text).unwrap_or_else(|| panic!("not a mutant: {text}"))).collect())
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
