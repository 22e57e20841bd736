//! docs/OPERATIONS.md lists exactly the `warn` and `error` lines that the library can log.
//!
//! The test finds the log lines in the sources. A log line is a list of arguments with a level and then a text. The
//! list belongs to a log macro, to a `Notice` or to a tuple. If the level is a variable, the test reads the expression
//! that sets the variable. The expression contains a level, or calls a method of `FailureLog`.

use std::collections::BTreeSet;

use crate::imports::{closed, end_of_group, flat, sources, without_tests};

/// The placeholder for a value in a log line.
const ANY: char = '…';

/// The minimum number of letters and digits in the text of a log line.
///
/// A shorter text, such as `{name}: {error}`, consists of values, whose texts are elsewhere in the sources.
const SHORTEST: usize = 4;

/// The mark of an `error` line in docs/OPERATIONS.md.
///
/// Lines without the mark are `warn` lines.
const ERROR: &str = "**E**";

/// The level and the text of a log line.
type Line = (&'static str, String);

#[test]
fn operations_page_lists_every_warning_and_error() {
    let page = page_lines(include_str!("../../docs/OPERATIONS.md"));
    assert!(page.len() > 30, "{page:#?}");
    let mut found = Found::default();
    for (module, text) in sources() {
        // No program contains the test tools.
        if !module.starts_with("testing") {
            found.add(&module, &text);
        }
    }
    assert!(found.lines.len() > 30, "{:#?}", found.lines);
    let (missing, superfluous) = compare(&page, &found);
    let rows = |lines: &[&Line]| lines.iter().map(|line| row(line)).collect::<String>();
    assert!(
        missing.is_empty() && superfluous.is_empty(),
        "docs/OPERATIONS.md, Log lines\nmissing, as the sources print:\n{}superfluous, as no source prints:\n{}",
        rows(&missing),
        rows(&superfluous)
    );
}

#[test]
fn lines_in_every_form_are_found() {
    let text = r#"
        fn f() {
            log_line!(warn, target: TLS, "tls: {ignored} of the \
                      certificates");
            log::error!(target: COMMAND, "cannot start: {error}");
            log_with!(Level::Warn, fields, event = "x"; "an observer missed {missed}");
            log::info!("all is well");
            let line = format!("waiting: '{why}'");
            self.log(None, Notice::new(Level::Warn, line));
            let line = "never";
            push(Effect::Log(Notice::new(Level::Debug, line)));
            let notice = log.failed(now, kind).map(|level| Notice::of_error(level, format_args!("{name} fails"), error));
            let level = if seldom { log::Level::Error } else { log::Level::Debug };
            log_line!(log, target: CLIENT, level, "refused: {why}");
            let (level, text) = match change {
                No => {
                    let level = log.failed(now, kind).unwrap_or(Level::Debug);
                    (level, format!("unfit: {why}"))
                }
                Yes => {
                    let level = log.works(now).map_or(Level::Info, |works| works.level);
                    (level, "fit")
                }
            };
            log_line!(warn, target: CLIENT, "{error}");
        }
        fn e() { send(Trouble(Level::Warn, format!("{why}; retrying"))) }
        fn g(level: Level) { Notice::new(level, "not known") }
        fn h(Works { level, failed }: &Works) { Notice::new(*level, format!("{failed} works again")) }
        #[cfg(test)]
        mod tests { fn f() { log::warn!("in a test") } }
        impl Display for Error { fn fmt(&self) { write!(f, "the plugin {name} has failed") } }
    "#;
    let mut found = Found::default();
    found.add("net", text);
    let lines: Vec<_> = found.lines.iter().map(|(level, text)| format!("{level} {text}")).collect();
    assert_eq!(
        lines,
        [
            "error cannot start: …",
            "error refused: …",
            "warn an observer missed …",
            "warn tls: … of the certificates",
            "warn unfit: …",
            "warn waiting: …",
            "warn … fails",
            "warn …; retrying",
        ]
    );
    assert_eq!(found.places, 1, "the text of an error");

    let compared = |page: &str| {
        let page = page_lines(&format!("## Log lines\n{page}\n## Next\n| `none` | |"));
        let (missing, superfluous) = compare(&page, &found);
        (missing.len(), superfluous.into_iter().map(|(_, text)| text.clone()).collect::<Vec<_>>())
    };
    let all = "| **E** `cannot start: …` | x |\n| **E** `refused: …`<br>**E** `cannot start: the plugin …` | x |
        | `an observer`<br>`tls: … of the certificates` | x |\n| `unfit: …`<br>`waiting: …` | x |
        | `… fails: …`<br>`…; retrying`<br>``the plugin `…` has failed`` | x |";
    assert_eq!(compared(all), (0, vec![]));
    assert_eq!(compared(&all.replace("`unfit: …`<br>", "")), (1, vec![]));
    assert_eq!(compared(&all.replace("`…; retrying`<br>", "")), (1, vec![]));
    assert_eq!(compared(&all.replace("unfit", "fit")), (1, vec!["fit: …".to_owned()]));
    assert_eq!(compared(&all.replace("**E** `refused", "`refused")).0, 1, "the level counts");
    assert_eq!(compared(&all.replace("has failed``", "is gone``")), (0, vec!["the plugin … is gone".to_owned()]));
    assert_eq!(compared(&all.replace("start: the plugin …", "start: a plugin")).1, ["cannot start: a plugin"]);
}

/// Returns the log lines that the page lists.
///
/// The level is `error` if [`ERROR`] precedes the text, and `warn` otherwise.
fn page_lines(page: &str) -> Vec<Line> {
    let section = page.split("## Log lines\n").nth(1).expect("the section").split("\n## ").next().expect("its text");
    let cells = section.lines().filter_map(|row| row.trim().strip_prefix('|')?.split('|').next());
    let line = |text: &str| {
        let text = text.trim();
        let (level, code) = text.strip_prefix(ERROR).map_or(("warn", text), |code| ("error", code.trim()));
        Some((level, normalized(code.strip_prefix('`')?.strip_suffix('`')?.trim_matches('`'))))
    };
    cells.flat_map(|cell| cell.split("<br>").filter_map(line)).collect()
}

/// Returns the row of a log line in the table of the page.
fn row((level, text): &Line) -> String {
    let mark = if *level == "error" { format!("{ERROR} ") } else { String::new() };
    format!("| {mark}`{text}` | |\n")
}

/// Returns the log lines that are missing on the page, and those that no source can print.
fn compare<'a>(page: &'a [Line], found: &'a Found) -> (Vec<&'a Line>, Vec<&'a Line>) {
    let mut missing: BTreeSet<_> = found.lines.iter().collect();
    let mut superfluous = Vec::new();
    for line @ (level, text) in page {
        // Instead of a value, the page may show a text that the value can contain.
        let is_printed = |text: &str| found.texts.iter().any(|it| matched(text, it, &is_value).is_some());
        let accepts = |part: &str| is_value(part) || is_printed(part);
        // On the page, an error may follow the text of the sources.
        let named = |template: &str| {
            [template.to_owned(), format!("{template}: {ANY}")]
                .iter()
                .filter_map(|it| matched(text, it, &accepts))
                .max()
                .filter(|characters| *characters >= SHORTEST)
        };
        let of_level = found.lines.iter().filter(|it| it.0 == *level);
        match of_level.filter_map(|it| Some((named(&it.1)?, it))).max() {
            Some((_, template)) => _ = missing.remove(template),
            None if found.places > 0 && is_printed(text) => {}
            None => superfluous.push(line),
        }
    }
    (missing.into_iter().collect(), superfluous)
}

fn is_value(part: &str) -> bool {
    part.chars().all(|it| it == ANY)
}

/// Returns the number of letters and digits in a text.
fn literal(text: &str) -> usize {
    text.chars().filter(|it| it.is_alphanumeric()).count()
}

/// Returns the number of equal characters if `page` matches `source`, and `None` otherwise.
///
/// The page may show only the beginning of the source text. On the page, any accepted text may replace a value.
fn matched(page: &str, source: &str, accepts: &dyn Fn(&str) -> bool) -> Option<usize> {
    if page.is_empty() {
        return Some(0);
    }
    let expected = source.chars().next()?;
    let rest = &source[expected.len_utf8()..];
    if expected != ANY {
        return Some(matched(page.strip_prefix(expected)?, rest, accepts)? + 1);
    }
    let ends = page.char_indices().map(|(at, it)| at + it.len_utf8());
    ends.filter_map(|end| matched(&page[end..], rest, accepts).filter(|_| accepts(&page[..end]))).max()
}

/// Joins adjacent values into one [`ANY`], and removes quotes around values.
fn normalized(text: &str) -> String {
    let mut out = String::new();
    let mut between = String::new();
    for it in text.chars() {
        match it {
            ANY if out.ends_with(ANY) => between.clear(),
            ANY => {
                out.push_str(between.trim_end_matches(['\'', '"', '`']));
                between.clear();
                out.push(ANY);
            }
            _ if it.is_alphanumeric() => {
                let quotes = if out.ends_with(ANY) { &['\'', '"', '`'][..] } else { &[] };
                out.push_str(between.trim_start_matches(quotes));
                between.clear();
                out.push(it);
            }
            _ => between.push(it),
        }
    }
    if !out.ends_with(ANY) {
        out.push_str(&between);
    }
    out
}

/// The log lines and the texts that the sources contain.
#[derive(Default)]
struct Found {
    lines: BTreeSet<Line>,
    /// The number of log lines with a text shorter than [`SHORTEST`].
    places: usize,
    /// All string literals, except very short literals.
    texts: BTreeSet<String>,
}

impl Found {
    fn add(&mut self, module: &str, text: &str) {
        let mut tokens = Vec::new();
        flat(text.parse().unwrap_or_else(|error| panic!("{module}: {error}")), &mut tokens);
        let words = without_tests(&tokens.iter().map(String::as_str).collect::<Vec<_>>());
        for at in 0..words.len() {
            match words[at] {
                "(" => self.add_call(&words, at),
                text if text.starts_with('"') && !words[..at].ends_with(&["doc", "="]) => {
                    self.texts.extend(Some(template(text)).filter(|it| literal(it) >= SHORTEST));
                }
                _ => {}
            }
        }
    }

    /// Adds a log line if the group that opens at `at` contains the arguments of a log line.
    fn add_call(&mut self, words: &[&str], at: usize) {
        let arguments = split(words, at);
        let of_macro = match words[..at] {
            [.., name @ ("warn" | "error"), "!"] => Some((0, vec![name])),
            [.., "log_line", "!"] => arguments.first().and_then(|(_, first)| match **first {
                [name @ ("warn" | "error")] => Some((1, vec![name])),
                _ => None,
            }),
            _ => None,
        };
        let by_argument = || {
            let mut levels =
                arguments.iter().enumerate().map(|(index, (at, words_of))| (index + 1, levels(words, *at, words_of)));
            levels.find(|(_, levels)| !levels.is_empty())
        };
        let Some((after, levels)) = of_macro.or_else(by_argument) else { return };
        let Some(text) = arguments[after..].iter().find_map(|(at, argument)| text_of(words, *at, argument)) else {
            return;
        };
        let text = template(text);
        for level in levels {
            let level = if level == "error" { "error" } else { "warn" };
            if literal(&text) < SHORTEST {
                self.places += 1;
            } else {
                self.lines.insert((level, text.clone()));
            }
        }
    }
}

/// Returns the arguments in the group that opens at `at`, each with its position.
fn split<'a, 'b>(words: &'b [&'a str], at: usize) -> Vec<(usize, &'b [&'a str])> {
    let end = closed(words, at) - 1;
    let (mut parts, mut from, mut next) = (Vec::new(), at + 1, at + 1);
    while next < end {
        match words[next] {
            "(" | "[" | "{" => next = closed(words, next),
            "," | ";" => {
                parts.push((from, &words[from..next]));
                next += 1;
                from = next;
            }
            _ => next += 1,
        }
    }
    parts.push((from, &words[from..end]));
    parts
}

/// Returns the levels that the argument at `at` can have.
///
/// Levels other than `warn` and `error` are left out.
fn levels(words: &[&str], at: usize, argument: &[&str]) -> Vec<&'static str> {
    match argument {
        ["Level", "::", level] | ["log", "::", "Level", "::", level] => named([*level]),
        ["level"] | ["*", "level"] => levels_of_variable(&words[..at]),
        _ => Vec::new(),
    }
}

fn named<'a>(levels: impl IntoIterator<Item = &'a str>) -> Vec<&'static str> {
    let levels: BTreeSet<_> = levels.into_iter().collect();
    [("Warn", "warn"), ("Error", "error")]
        .into_iter()
        .filter(|(level, _)| levels.contains(level))
        .map(|(_, it)| it)
        .collect()
}

/// Returns the levels that the variable `level` can have after the given words.
fn levels_of_variable(words: &[&str]) -> Vec<&'static str> {
    for at in (0..words.len()).rev() {
        let expression = match &words[at..] {
            ["let", "level", "=", rest @ ..] => &rest[..statement(rest)],
            ["|", "level", "|", ..] => {
                let begin = words[..at].iter().rposition(|it| [";", "=>"].contains(it)).unwrap_or(0);
                &words[begin..at]
            }
            // If `level` is a parameter of the function, the callers determine the level.
            ["level", ":", "Level" | "log", ..] | ["{", "level", "," | "}", ..] => return Vec::new(),
            _ => continue,
        };
        let mut levels = named(expression.iter().copied());
        if levels.is_empty() && expression.iter().any(|it| ["failed", "happened"].contains(it)) {
            levels.push("warn");
        }
        return levels;
    }
    Vec::new()
}

/// Returns the number of words in the statement that begins `words`.
fn statement(words: &[&str]) -> usize {
    let mut at = 0;
    while at < words.len() && words[at] != ";" {
        let is_open = ["(", "[", "{"].contains(&words[at]);
        at = Some(at).filter(|_| is_open).and_then(|at| end_of_group(words, at)).unwrap_or(at + 1);
    }
    at
}

/// Returns the string literal of an argument.
///
/// The literal is the argument itself, the format of `format!`, or the value of a variable.
fn text_of<'a>(words: &[&'a str], at: usize, argument: &[&'a str]) -> Option<&'a str> {
    match argument {
        [text, ..] if text.starts_with('"') => Some(text),
        ["format" | "format_args", "!", "(", text, ..] if text.starts_with('"') => Some(text),
        [name] if name.chars().all(|it| it == '_' || it.is_ascii_lowercase()) => {
            let before = &words[..at];
            let found = (0..before.len()).rev().find(|at| before[*at..].starts_with(&["let", name, "="]))?;
            text_of(words, found, before[found + 3..].get(..statement(&before[found + 3..]))?)
        }
        _ => None,
    }
}

/// Returns the text of a literal, with [`ANY`] for each value.
fn template(literal: &str) -> String {
    let mut text = String::new();
    let mut characters = literal.trim_matches('"').chars().peekable();
    while let Some(it) = characters.next() {
        match it {
            '\\' => match characters.next() {
                Some('\n') => while characters.next_if(|it| it.is_whitespace()).is_some() {},
                Some('n') => text.push('\n'),
                Some(other) => text.push(other),
                None => {}
            },
            '{' if characters.next_if_eq(&'{').is_some() => text.push('{'),
            '{' => {
                text.push(ANY);
                while characters.next().is_some_and(|it| it != '}') {}
            }
            '}' if characters.next_if_eq(&'}').is_some() => text.push('}'),
            _ => text.push(it),
        }
    }
    normalized(&text)
}
