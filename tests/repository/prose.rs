//! A lint for the language of test names, rustdoc, messages, comments and documents.

use proc_macro2::TokenStream;

use crate::files::{files, lines_outside_code, read};
use crate::imports::{flat, without_tests};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Area {
    TestName,
    /// The first paragraph of the rustdoc of a public item.
    FirstLine,
    /// A string literal of several words in the library or the command.
    Message,
    /// A line of a comment in `src`, or of a document.
    Text,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Pattern {
    /// More than 60 characters in a test name, more than 90 in a first line.
    Long,
    /// The documentation of a function does not begin with a verb in the third person.
    NoVerb,
    /// A sentence, or a part after a colon, begins with a word of [`STARTS`].
    RelativeClause,
    /// A verb of speech, as if a program were a person.
    Speech,
    /// A word that modern technical English does not use.
    Archaic,
}

const STARTS: [&str; 8] = ["What", "Who", "Whoever", "Whatever", "Whom", "Of", "For", "Also"];
const SPEECH: [&str; 8] = ["told", "tell", "tells", "telling", "said", "say", "says", "saying"];
const ARCHAIC: [&str; 8] = ["anew", "for ever", "all the same", "any more", "but for", "nobody", "somebody", "befall"];

#[test]
fn no_prose_matches_a_pattern() {
    let faults = |(area, place, text): (Area, String, String)| {
        matches(area, &text).into_iter().map(move |pattern| format!("{area:?} {pattern:?}: {place}: {text}"))
    };
    let found: Vec<_> = prose().into_iter().flat_map(faults).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn prose_of_each_area_is_found() {
    let source = "\
//! What a module is.

/// Whoever calls it.
pub fn call() -> &'static str {
    // It is told.
    \"of two words\"
}

#[cfg(test)]
mod tests {
    #[test]
    FN what_is_found() {
        \"for a test\";
    }
}
";
    // The source contains `FN` instead of `fn`, so that `prose` does not find a test in the literal above.
    let mut texts = prose_of_source("a.rs", &source.replace("FN", "fn"));
    texts.sort();
    let expected = [
        (Area::TestName, "a.rs:12", "what_is_found"),
        (Area::FirstLine, "a.rs:1", "What a module is."),
        (Area::FirstLine, "a.rs:4", "fn Whoever calls it."),
        (Area::Message, "a.rs", "of two words"),
        (Area::Text, "a.rs:1", "What a module is."),
        (Area::Text, "a.rs:3", "Whoever calls it."),
        (Area::Text, "a.rs:5", "It is told."),
    ];
    assert_eq!(texts, expected.map(|(area, place, text)| (area, place.to_owned(), text.to_owned())));
    assert_eq!(matches(Area::TestName, "what_is_found"), [Pattern::RelativeClause]);
    assert_eq!(matches(Area::FirstLine, "fn Whoever calls it."), [Pattern::NoVerb, Pattern::RelativeClause]);
    assert_eq!(matches(Area::FirstLine, "fn Returns the call."), []);
    assert_eq!(matches(Area::Message, "of two words"), [Pattern::RelativeClause]);
    assert_eq!(
        matches(Area::Text, "An error: What it is. Is told for ever"),
        [Pattern::RelativeClause, Pattern::Speech, Pattern::Archaic]
    );
    assert_eq!(matches(Area::Text, "What is a lease?"), []);
}

/// Returns the area, the place and the content of every text for which the lint has rules.
fn prose() -> Vec<(Area, String, String)> {
    let mut texts = Vec::new();
    for folder in ["src", "crates", "tests", "examples", "benches", "docs", "README.md", "CONTRIBUTING.md"] {
        for path in files(folder) {
            let place = path.to_string_lossy().replace('\\', "/");
            match path.extension().and_then(|it| it.to_str()) {
                // Fuzz targets and tests may have a target directory, whose files are not part of the repository.
                _ if place.contains("/target/") => (),
                Some("rs") => {
                    let text = read(&path);
                    let found = prose_of_source(&place, &text);
                    let is_product = ["src", "crates"].contains(&folder);
                    let is_test = !is_product || place.contains("tests");
                    texts.extend(found.into_iter().filter(|it| match it.0 {
                        Area::TestName => true,
                        Area::Message => !is_test,
                        Area::FirstLine | Area::Text => is_product,
                    }));
                }
                Some("md") => texts.extend(
                    lines_outside_code(&read(&path))
                        .map(|(line, text)| (Area::Text, format!("{place}:{line}"), text.to_owned())),
                ),
                _ => (),
            }
        }
    }
    assert!(texts.len() > 5000, "{} texts", texts.len());
    texts
}

fn prose_of_source(place: &str, source: &str) -> Vec<(Area, String, String)> {
    let mut texts = Vec::new();
    let (mut attributes, mut doc) = (String::new(), Vec::new());
    let mut add = |area, line: usize, text: &str| texts.push((area, format!("{place}:{line}"), text.to_owned()));
    for (line, text) in (1..).zip(source.lines().map(str::trim)) {
        if let Some(comment) = text.strip_prefix("//") {
            let is_doc = comment.starts_with(['/', '!']);
            let comment = comment.trim_start_matches(['/', '!']).trim();
            add(Area::Text, line, comment);
            if is_doc {
                doc.push(comment);
            }
            if text.starts_with("//!") && line == 1 {
                add(Area::FirstLine, line, comment);
            }
        } else if text.starts_with("#[") {
            attributes.push_str(text);
        } else {
            let name = text.strip_prefix("fn ").and_then(|rest| rest.split(['(', '<']).next());
            if let Some(name) = name.filter(|_| attributes.contains("#[test]")) {
                add(Area::TestName, line, name);
            }
            if text.starts_with("pub ") && !doc.is_empty() {
                let is_function = text.split('(').next().is_some_and(|it| it.contains("fn "));
                let first: Vec<_> = doc.iter().copied().take_while(|it| !it.is_empty()).collect();
                add(Area::FirstLine, line, &format!("{}{}", if is_function { "fn " } else { "" }, first.join(" ")));
            }
            attributes.clear();
            doc.clear();
        }
    }
    if let Ok(tokens) = source.parse() {
        texts.extend(messages(tokens).into_iter().map(|text| (Area::Message, place.to_owned(), text)));
    }
    texts
}

/// Returns the string literals of several words, except those of rustdoc and unit tests.
fn messages(tokens: TokenStream) -> Vec<String> {
    let mut words = Vec::new();
    flat(tokens, &mut words);
    let words = without_tests(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let literals = (0..words.len()).filter(|at| !words[..*at].ends_with(&["doc", "="])).map(|at| words[at]);
    let texts = literals.filter_map(|it| it.strip_prefix('"')?.strip_suffix('"'));
    texts.filter(|it| it.trim().contains(' ') && !it.starts_with(' ')).map(str::to_owned).collect()
}

/// Replaces code in backticks and placeholders in braces by a noun.
fn without_code(text: &str) -> String {
    let text = text.split('`').enumerate().map(|(index, part)| if index % 2 == 0 { part } else { "X" });
    let text = text.collect::<String>().replace("{{", "").replace("}}", "");
    text.split('{').map(|part| part.split_once('}').map_or(part.to_owned(), |(_, rest)| format!("X{rest}"))).collect()
}

fn matches(area: Area, text: &str) -> Vec<Pattern> {
    let is_function = text.starts_with("fn ");
    let sentence = &without_code(text.strip_prefix("fn ").unwrap_or(text));
    let words: Vec<_> = match area {
        Area::TestName => text.split('_').collect(),
        _ => sentence.split(|it: char| !it.is_alphanumeric() && it != '\'').filter(|it| !it.is_empty()).collect(),
    };
    let mut patterns = Vec::new();
    let longest = if area == Area::TestName { 60 } else { 90 };
    let length = text.strip_prefix("fn ").unwrap_or(text).chars().count();
    if matches!(area, Area::TestName | Area::FirstLine) && length > longest {
        patterns.push(Pattern::Long);
    }
    if area == Area::FirstLine
        && is_function
        && !words.first().is_some_and(|it| it.ends_with('s') && it.starts_with(char::is_uppercase))
    {
        patterns.push(Pattern::NoVerb);
    }
    let starts = |part: &str| STARTS.contains(&part.split(|it: char| !it.is_alphanumeric()).next().unwrap_or_default());
    let has_clause = match area {
        Area::TestName => {
            let lower = |word: &&str| STARTS.iter().any(|it| it.to_lowercase() == *word);
            words.first().is_some_and(lower)
                || words.iter().any(|it| it.starts_with("who") && lower(it) || *it == "what")
        }
        Area::Message => sentence.split([':', ';', '.']).any(|part| {
            let mut letters = part.trim_start().chars();
            let first: String = letters.next().into_iter().flat_map(char::to_uppercase).chain(letters).collect();
            starts(&first)
        }),
        _ => {
            !sentence.contains('?')
                && sentence.split(". ").flat_map(|it| it.split(": ")).flat_map(|it| it.split("; ")).any(starts)
        }
    };
    if has_clause {
        patterns.push(Pattern::RelativeClause);
    }
    if words.iter().any(|it| SPEECH.contains(&it.to_lowercase().as_str())) {
        patterns.push(Pattern::Speech);
    }
    let text = format!(" {} ", words.join(" ").to_lowercase());
    if area != Area::TestName && ARCHAIC.iter().any(|it| text.contains(&format!(" {it} "))) {
        patterns.push(Pattern::Archaic);
    }
    patterns
}
