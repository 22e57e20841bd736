//! The history of a job that runs once per period, as text and as metrics.

use std::fmt::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold::store::{JobNotes, MicroTime};

use crate::one_line::OneLine;

/// Returns the lines of the history for people.
pub fn plain(job: &JobNotes) -> Vec<String> {
    let success = job.last_success_start.as_ref().map(|start| {
        let took = time(Some(start)).zip(time(job.last_success_end.as_ref()));
        let took = took.and_then(|(start, end)| end.duration_since(start).ok()).map(rounded);
        let took = took.map_or_else(String::new, |took| format!(", took {}", humantime::format_duration(took)));
        format!("last success: started {}{}{took}", OneLine(start.as_str()), on(job.last_success_host.as_deref()))
    });
    let next = next_run(job).map(|next| format!("next run: not before {}", MicroTime::from(next)));
    let attempt = job.last_attempt_start.as_ref().filter(|start| Some(*start) != job.last_success_start.as_ref());
    let attempt = attempt.map(|start| {
        let code = job.last_attempt_exit_code;
        let end = code.map_or_else(|| "no result yet, or killed".to_owned(), |code| format!("exit code {code}"));
        let number = job.attempts.map_or_else(String::new, |attempts| format!(", attempt {attempts} of the period"));
        let period_end = time(job.first_attempt_start.as_ref()).zip(job.period);
        let period_end = period_end.and_then(|(first, period)| first.checked_add(period));
        let period_end =
            period_end.map_or_else(String::new, |end| format!("; the period ends at {}", MicroTime::from(end)));
        let host = on(job.last_attempt_host.as_deref());
        format!("last attempt: started {}{host}{number}, {end}{period_end}", OneLine(start.as_str()))
    });
    [success, next, attempt].into_iter().flatten().collect()
}

fn on(host: Option<&str>) -> String {
    host.map_or_else(String::new, |host| format!(" on {}", OneLine(host)))
}

/// Returns the earliest start of the next run after a success.
fn next_run(job: &JobNotes) -> Option<SystemTime> {
    time(job.last_success_start.as_ref())?.checked_add(job.period?)
}

fn time(time: Option<&MicroTime>) -> Option<SystemTime> {
    humantime::parse_rfc3339(time?.as_str()).ok()
}

fn rounded(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}

/// Returns the history of the lease `name` in the text format of Prometheus.
///
/// An unknown value has no sample.
pub fn prometheus(name: &str, job: &JobNotes) -> String {
    let name = name.replace('\\', r"\\").replace('"', "\\\"").replace('\n', "\\n");
    let seconds = |time: Option<SystemTime>| Some(time?.duration_since(UNIX_EPOCH).ok()?.as_secs_f64());
    let mut text = String::new();
    for (metric, help, value) in [
        ("leasehold_job_period_seconds", "Period of the job.", job.period.map(|period| period.as_secs_f64())),
        (
            "leasehold_job_last_success_start_timestamp_seconds",
            "Start of the last successful run, by the clock of the store.",
            seconds(time(job.last_success_start.as_ref())),
        ),
        (
            "leasehold_job_last_success_end_timestamp_seconds",
            "End of the last successful run, by the clock of the store.",
            seconds(time(job.last_success_end.as_ref())),
        ),
        (
            "leasehold_job_last_attempt_start_timestamp_seconds",
            "Start of the last attempt, by the clock of the store.",
            seconds(time(job.last_attempt_start.as_ref())),
        ),
        ("leasehold_job_attempts", "Attempts in the current period.", job.attempts.map(f64::from)),
        (
            "leasehold_job_last_attempt_exit_code",
            "Exit code of the last attempt, if it has ended by itself.",
            job.last_attempt_exit_code.map(f64::from),
        ),
    ] {
        let Some(value) = value else { continue };
        // Writing to a string cannot fail.
        let _ = write!(text, "# HELP {metric} {help}\n# TYPE {metric} gauge\n{metric}{{lease=\"{name}\"}} {value}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history() -> JobNotes {
        let time = |seconds: u64| Some(MicroTime::from_unix_micros(seconds * 1_000_000));
        let mut job = JobNotes::default();
        job.period = Some(Duration::from_secs(72_000));
        (job.first_attempt_start, job.attempts) = (time(100), Some(2));
        (job.last_attempt_host, job.last_attempt_start) = (Some("b".to_owned()), time(300));
        job.last_attempt_exit_code = Some(0);
        (job.last_success_host, job.last_success_start, job.last_success_end) =
            (Some("b".to_owned()), time(300), time(3_900));
        job
    }

    #[test]
    fn lines_have_the_success_the_next_run_and_a_later_attempt() {
        let mut job = history();
        let success = "last success: started 1970-01-01T00:05:00.000000Z on b, took 1h";
        let next = "next run: not before 1970-01-01T20:05:00.000000Z";
        assert_eq!(plain(&job), [success, next]);
        job.last_attempt_start = Some(MicroTime::from_unix_micros(90_000_000_000));
        (job.last_attempt_host, job.attempts) = (Some("c\nd".to_owned()), Some(1));
        job.last_attempt_exit_code = None;
        let attempt = "last attempt: started 1970-01-02T01:00:00.000000Z on c\\nd, attempt 1 of the period, no result yet, or killed; the period ends at 1970-01-01T20:01:40.000000Z";
        assert_eq!(plain(&job), [success, next, attempt]);
        job.last_attempt_exit_code = Some(3);
        assert!(plain(&job)[2].contains(", exit code 3; the period ends at "));
        job.last_success_start = Some(MicroTime::from_text("\u{1b}"));
        assert_eq!(plain(&job)[0], "last success: started \\u{1b} on b");
        assert_eq!(plain(&JobNotes::default()), [""; 0]);
    }

    #[test]
    fn metrics_have_the_known_values() {
        let text = prometheus("a\"b", &history());
        for line in [
            r#"leasehold_job_period_seconds{lease="a\"b"} 72000"#,
            r#"leasehold_job_last_success_start_timestamp_seconds{lease="a\"b"} 300"#,
            r#"leasehold_job_last_success_end_timestamp_seconds{lease="a\"b"} 3900"#,
            r#"leasehold_job_attempts{lease="a\"b"} 2"#,
            r#"leasehold_job_last_attempt_exit_code{lease="a\"b"} 0"#,
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
        assert_eq!(prometheus("a", &JobNotes::default()), "");
    }
}
