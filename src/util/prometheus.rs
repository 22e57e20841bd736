//! The text format of Prometheus (exposition format 0.0.4).

use std::fmt::{self, Write};

/// A metric: its name, its type, what it says, and its samples of one subject.
pub(crate) type Family<T, W> = (&'static str, &'static str, &'static str, fn(&mut Samples<'_, W>, &T) -> fmt::Result);

/// Where the samples of one metric and one subject go.
pub(crate) struct Samples<'a, W> {
    out: &'a mut W,
    metric: &'static str,
    labels: &'a str,
}

/// As it stands between the quotes of a label's value.
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

/// Writes the metrics of all subjects, each described once. Subjects come with their labels.
pub(crate) fn write<T, W: Write>(families: &[Family<T, W>], subjects: &[(String, &T)], out: &mut W) -> fmt::Result {
    for &(metric, kind, help, write) in families {
        writeln!(out, "# HELP {metric} {help}\n# TYPE {metric} {kind}")?;
        for (labels, subject) in subjects {
            write(&mut Samples { out, metric, labels }, subject)?;
        }
    }
    Ok(())
}

impl<W: Write> Samples<'_, W> {
    pub(crate) fn put(&mut self, suffix: &str, more: &str, value: impl fmt::Display) -> fmt::Result {
        let Self { out, metric, labels } = self;
        writeln!(out, "{metric}{suffix}{{{labels}{more}}} {value}")
    }
}

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\\' => f.write_str("\\\\"),
            '"' => f.write_str("\\\""),
            '\n' => f.write_str("\\n"),
            c => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_label_is_escaped() {
        assert_eq!(Escaped("a\"b\\c\nd").to_string(), "a\\\"b\\\\c\\nd");
    }
}
