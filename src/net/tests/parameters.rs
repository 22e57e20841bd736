//! The documentation of a URL's parameters.

use std::collections::BTreeSet;
use std::path::Path;

use crate::net::parameters::{Decision, ParameterTable};

/// Asserts that the table of parameters on a page of `docs/stores` has the decisions of the code.
pub(crate) fn check_page<T>(table: ParameterTable<T>, page: &str, fold: fn(&str) -> String) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/stores").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    for kind in ["followed", "ignored", "some values", "refused"] {
        let row = text.lines().find_map(|line| line.strip_prefix(&format!("| {kind} |"))).unwrap_or_default();
        let documented: BTreeSet<_> = row.split('`').skip(1).step_by(2).map(fold).collect();
        let rows = table.iter().filter(|(_, decision)| {
            kind == match decision {
                Decision::Followed(_) => "followed",
                Decision::Ignored => "ignored",
                Decision::Only(..) => "some values",
                Decision::Refused(_) => "refused",
            }
        });
        let decided: BTreeSet<_> = rows.flat_map(|(names, _)| names.split_whitespace()).map(str::to_owned).collect();
        assert_eq!(documented, decided, "{kind}");
    }
}
