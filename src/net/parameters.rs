//! The parameters of a store's URL, and the decision about each of them.

use std::str::FromStr;
#[cfg(feature = "_sql_server")]
use std::time::Duration;

#[cfg(feature = "_sql_server")]
use super::MAX_WAIT;

/// The decision about a parameter, whose value may change a `T`.
pub(crate) enum Decision<T: 'static> {
    /// The client follows the parameter. The error states the rule that the value violates.
    Followed(fn(&mut T, String) -> Result<(), String>),
    /// The parameter has no effect, because the client needs none of its values.
    Ignored,
    /// The client already does what these values request. It refuses other values for a reason.
    Only(&'static [&'static str], &'static str),
    /// The client refuses the parameter for a reason.
    Refused(&'static str),
}

/// The known parameters. Names with the same decision are separated by spaces.
pub(crate) type ParameterTable<T> = &'static [(&'static str, Decision<T>)];

/// Applies the parameters of a URL to `target`. The last one of two equal names decides.
///
/// The error does not contain the value of a parameter, because the value may be a password.
pub(crate) fn apply<T>(
    table: ParameterTable<T>,
    parameters: Vec<(String, String)>,
    target: &mut T,
) -> Result<(), String> {
    // If the text of a parameter contains this character, the text may be a part of the password.
    let has_password = parameters.iter().any(|(name, value)| name.contains('@') || value.contains('@'));
    for (name, value) in parameters {
        let refuse = |reason: &str| format!("has the parameter {name}, which is refused: {reason}");
        match table.iter().find(|(names, _)| names.split(' ').any(|known| known == name)) {
            Some((_, Decision::Followed(follow))) => {
                follow(target, value).map_err(|rule| format!("has a wrong value of {name}: {rule}"))?;
            }
            Some((_, Decision::Ignored)) => {}
            // An empty value is an absent value.
            Some((_, Decision::Only(..) | Decision::Refused(_))) if value.is_empty() => {}
            Some((_, Decision::Only(values, _))) if values.contains(&&*value) => {}
            Some((_, Decision::Only(values, reason))) => {
                return Err(refuse(&format!("{reason}; possible is {}", values.join(", "))));
            }
            Some((_, Decision::Refused(reason))) => return Err(refuse(reason)),
            None if has_password => return Err("must encode ? in the user or the password as %3F".to_owned()),
            None => {
                let is_followed =
                    |(names, decision): &(_, _)| matches!(decision, Decision::Followed(_)).then_some(*names);
                let followed: Vec<&str> = table.iter().filter_map(is_followed).collect();
                return Err(format!(
                    "has the unknown parameter {name:?}; known are {}",
                    followed.join(" ").replace(' ', ", ")
                ));
            }
        }
    }
    Ok(())
}

/// Sets a part of a URL. An empty value is an absent value.
pub(crate) fn set<T: FromStr>(part: &mut Option<T>, value: String) -> Result<(), String> {
    *part = match value.is_empty() {
        true => None,
        false => Some(value.parse().map_err(|_| "not a valid value".to_owned())?),
    };
    Ok(())
}

/// Sets the interval between a watch's reads, from 1 ms to a day. An empty value is an absent value.
#[cfg(feature = "_sql_server")]
pub(crate) fn set_interval(part: &mut Option<Duration>, value: &str) -> Result<(), String> {
    let limits = Duration::from_millis(1)..=MAX_WAIT;
    let interval = humantime::parse_duration(value).ok().filter(|interval| limits.contains(interval));
    *part = match (value.is_empty(), interval) {
        (true, _) => None,
        (false, Some(interval)) => Some(interval),
        (false, None) => return Err("give a duration from 1ms to 1day, such as 50ms".to_owned()),
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "_sql_server")]
    #[test]
    fn interval_is_a_duration_from_1_ms_to_a_day() {
        let interval = |value: &str| {
            let mut interval = Some(Duration::ZERO);
            set_interval(&mut interval, value).map(|()| interval)
        };
        assert_eq!(interval("50ms"), Ok(Some(Duration::from_millis(50))));
        assert_eq!(interval("1day"), Ok(Some(MAX_WAIT)));
        assert_eq!(interval(""), Ok(None));
        for value in ["0s", "999us", "25h", "1000000000y", "50", "-1s", "soon"] {
            assert!(interval(value).is_err_and(|rule| rule.contains("from 1ms to 1day")), "{value}");
        }
    }

    #[test]
    fn error_names_the_parameter_and_not_its_value() {
        const TABLE: ParameterTable<Option<String>> = &[
            ("a b", Decision::Followed(set)),
            ("c d", Decision::Ignored),
            ("e", Decision::Only(&["1", "2"], "this is a rule")),
            ("f", Decision::Refused("this is a reason")),
        ];
        let apply = |parameters: &[(&str, &str)]| {
            let mut target = None;
            let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            apply(TABLE, parameters.collect(), &mut target).map(|()| target)
        };
        assert_eq!(
            apply(&[("a", "1"), ("d", "x"), ("b", "2"), ("e", "2"), ("e", ""), ("f", "")]),
            Ok(Some("2".into()))
        );
        assert_eq!(apply(&[("a", "1"), ("a", "")]), Ok(None), "the last one decides");
        for (parameters, expected) in [
            (&[("e", "hunter2")][..], "parameter e, which is refused: this is a rule; possible is 1, 2"),
            (&[("f", "hunter2")], "parameter f, which is refused: this is a reason"),
            (&[("A", "hunter2")], "unknown parameter \"A\"; known are a, b"),
            (&[("hunter2", "1@h")], "%3F"),
            (&[("hunter2", "1"), ("a", "x@h")], "%3F"),
        ] {
            let error = apply(parameters).unwrap_err();
            assert!(error.contains(expected) && !error.contains("hunter2"), "{error}");
        }
    }
}
