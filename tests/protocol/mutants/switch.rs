//! Combines all mutants of a source file in one text.
//!
//! Each function that a mutant changes gets an additional body for each of its mutants. At run time, the function
//! selects the body of the active mutant.
//!
//! Functions are found by their indentation, because the repository's checks guarantee that the sources are formatted.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::list::Edit;

/// The environment variable with the number of the active mutant.
///
/// If the variable is not set, no mutant is active.
pub const VARIABLE: &str = "LEASEHOLD_MUTANT";

/// The path in the copy of the module that `module` generates.
pub const MODULE: &str = "src/mutant.rs";

/// The directory in the copy that contains the bodies of the mutants.
pub const BODIES: &str = "src/mutant";

pub fn module() -> String {
    format!(
        r#"//! Which mutant is active.

use std::sync::OnceLock;

pub(crate) fn active() -> usize {{
    static ACTIVE: OnceLock<usize> = OnceLock::new();
    *ACTIVE.get_or_init(|| std::env::var({VARIABLE:?}).map_or(0, |number| number.parse().expect("a mutant's number")))
}}
"#
    )
}

/// A source file, and the changes that the mutants make in it.
pub struct Source<'a> {
    text: &'a str,
    functions: Vec<Function>,
    /// The changes, by function and by mutant.
    changes: BTreeMap<usize, BTreeMap<usize, Vec<Change<'a>>>>,
}

/// An outermost function, which includes any functions inside its body.
struct Function {
    start: usize,
    /// The text between the function's braces.
    body: Range<usize>,
}

struct Change<'a> {
    function: usize,
    span: Range<usize>,
    new: &'a str,
}

impl<'a> Source<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, functions: functions(text), changes: BTreeMap::new() }
    }

    /// Adds the edits that one mutant makes in this file.
    pub fn add(&mut self, mutant: usize, edits: impl IntoIterator<Item = &'a Edit>) -> Result<(), String> {
        let mut changes = edits.into_iter().map(|edit| self.change(edit)).collect::<Result<Vec<_>, _>>()?;
        changes.sort_by_key(|change| change.span.start);
        if let Some(pair) = changes.windows(2).find(|pair| pair[0].span.end > pair[1].span.start) {
            return Err(format!("two of its edits are of one place: {:?}", &self.text[pair[1].span.clone()]));
        }
        for change in changes {
            self.changes.entry(change.function).or_default().entry(mutant).or_default().push(change);
        }
        Ok(())
    }

    fn change(&self, Edit { file, old, new }: &'a Edit) -> Result<Change<'a>, String> {
        let times = self.text.matches(old).count();
        if times != 1 {
            let (number, line) = nearest(self.text, old);
            return Err(format!(
                "it does not apply: its text is {times} times in {file}, not once: {old:?}; most like it is line {number}: {line:?}"
            ));
        }
        if old == new {
            return Err(format!("it changes nothing: {old:?}"));
        }
        // Some edits quote unchanged text around the change, so that the quote is unique in the file. Only the change
        // itself must be inside one function.
        let before = common(old.chars(), new.chars());
        let after = common(old[before..].chars().rev(), new[before..].chars().rev());
        let at = self.text.find(old).expect("it was found");
        let span = at + before..at + old.len() - after;
        let is_around = |function: &Function| function.body.start <= span.start && span.end <= function.body.end;
        let Some(function) = self.functions.iter().position(is_around) else {
            return Err(format!("it is not inside of the body of one function: {old:?} in {file}"));
        };
        Ok(Change { function, span, new: &new[before..new.len() - after] })
    }

    /// Returns the text with all mutants in it.
    ///
    /// `put` writes the body of a mutant to a separate file and returns the path. A body that does not even parse would
    /// otherwise prevent the parsing of all others.
    pub fn switched(&self, mut put: impl FnMut(usize, String) -> String) -> String {
        let mut text = String::new();
        let mut done = 0;
        for (&function, mutants) in &self.changes {
            let Function { start, body } = &self.functions[function];
            text += &self.text[done..*start];
            // A `const` function cannot find out which mutant is active, because constants are computed at compile
            // time.
            text += &self.text[*start..body.start].replacen("const fn ", "fn ", 1);
            text += "\nmatch crate::mutant::active() {\n";
            for (&mutant, changes) in mutants {
                let mut from = body.start;
                let mut changed = String::new();
                for Change { span, new, .. } in changes {
                    changed = changed + &self.text[from..span.start] + new;
                    from = span.end;
                }
                changed += &self.text[from..body.end];
                text += &format!("{mutant} => include!({:?}),\n", put(mutant, format!("{{{changed}}}\n")));
            }
            text = text + "_ => {" + &self.text[body.clone()] + "}\n}\n";
            done = body.end;
        }
        text + &self.text[done..]
    }
}

/// Returns the number and the text of the line that is most similar to `wanted`.
///
/// The most similar line shares the most words with the longest line of `wanted`.
fn nearest<'a>(text: &'a str, wanted: &str) -> (usize, &'a str) {
    fn words(line: &str) -> BTreeSet<&str> {
        line.split(|it: char| !it.is_alphanumeric() && it != '_').filter(|word| !word.is_empty()).collect()
    }
    let wanted = words(wanted.lines().max_by_key(|line| line.len()).unwrap_or_default());
    let shared = |line: &str| words(line).intersection(&wanted).count();
    (1..).zip(text.lines()).max_by_key(|(_, line)| shared(line)).unwrap_or_default()
}

/// Returns the length in bytes of the common beginning of `one` and `other`.
fn common(one: impl Iterator<Item = char>, other: impl Iterator<Item = char>) -> usize {
    one.zip(other).take_while(|(one, other)| one == other).map(|(one, _)| one.len_utf8()).sum()
}

fn functions(text: &str) -> Vec<Function> {
    let mut offset = 0;
    let mut lines = text.split_inclusive('\n').map(|line| {
        offset += line.len();
        (offset - line.len(), line)
    });
    let mut functions = Vec::new();
    while let Some((start, first)) = lines.next() {
        if !begins_a_function(first) {
            continue;
        }
        // Only lines with the indentation of the function's first line can end its signature or its body.
        let indentation = &first[..first.len() - first.trim_start().len()];
        let own =
            |line: &&str| line.strip_prefix(indentation).is_some_and(|rest| !rest.starts_with(char::is_whitespace));
        let mut signature = std::iter::once((start, first)).chain(&mut lines);
        let Some((at, last)) = signature.find(|(_, line)| own(line) && line.trim_end().ends_with(['{', '}', ';']))
        else {
            continue;
        };
        if !last.trim_end().ends_with('{') {
            continue;
        }
        let body = at + last.trim_end().len();
        if let Some((end, _)) = lines.find(|(_, line)| own(line) && line.trim() == "}") {
            functions.push(Function { start, body: body..end + indentation.len() });
        }
    }
    functions
}

fn begins_a_function(line: &str) -> bool {
    let line = line.trim_start();
    let public = line.strip_prefix("pub(").and_then(|rest| rest.split_once(") ")).map(|(_, rest)| rest);
    let line = public.or_else(|| line.strip_prefix("pub ")).unwrap_or(line);
    line.strip_prefix("const ").unwrap_or(line).starts_with("fn ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
/// fn not_this() {
const ONE: u8 = 1;

impl Counter {
    fn empty(&self) {}

    pub(super) const fn count(
        &self,
        by: u8,
    ) -> u8 {
        fn inner() -> u8 {
            7
        }
        inner() + by
    }
}

fn last() {
    say(ONE);
}
";

    fn edit(old: &'static str, new: &'static str) -> Edit {
        Edit { file: "src/counter.rs", old, new }
    }

    #[test]
    fn text_that_cannot_be_a_mutant_is_reported() {
        let refusal = |edits: &[Edit]| {
            let why = Source::new(TEXT).add(1, edits).unwrap_err();
            why.split_once(':').expect("and where").0.to_owned()
        };
        assert_eq!(refusal(&[edit("inner()", "outer()")]), "it does not apply");
        assert_eq!(refusal(&[edit("nowhere", "")]), "it does not apply");
        assert_eq!(refusal(&[edit("7", "7")]), "it changes nothing");
        for outside in [
            edit("u8 = 1", "u8 = 2"),
            edit("by: u8,", "by: u16,"),
            edit("fn empty(&self) {}", "fn empty(&self) { panic!() }"),
            edit("+ by\n    }\n}\n\nfn last() {\n", "- by\n    }\n}\n\nfn last() {\n    return;\n"),
        ] {
            assert_eq!(refusal(&[outside]), "it is not inside of the body of one function");
        }
        assert_eq!(refusal(&[edit("() + by", ""), edit("by\n", "")]), "two of its edits are of one place");
    }

    #[test]
    fn missing_text_is_reported_with_file_and_nearest_line() {
        let mut source = Source::new("fn f() {\n    first_step(now);\n    second_step(later);\n}\n");
        let edits = [Edit { file: "src/a.rs", old: "second_step(now)", new: "" }];
        let error = source.add(1, &edits).expect_err("no such text");
        assert!(error.contains("in src/a.rs") && error.contains("line 3: \"    second_step(later);\""), "{error}");
    }
}
