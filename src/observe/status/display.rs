//! A status in one line, for people.

use std::fmt::{self, Write};
use std::time::Duration;

use humantime::FormattedDuration;

use super::Status;
use crate::election::candidate::notice::TWIN;
use crate::util::one_line::OneLine;

impl fmt::Display for Status {
    /// One line, whatever others have written into the record, such as `lease default/jobs: pod-1 leads, which is this candidate,
    /// for another 9s, with fencing token 7; heard of the store 1s ago`. For people: it may change.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write_text(&mut text)?;
        OneLine(text).fmt(f)
    }
}

impl Status {
    /// Writes the text as it is, with the line breaks of names.
    fn write_text(&self, f: &mut String) -> fmt::Result {
        let identity = &self.settings.identity;
        write!(f, "{}: ", self.record)?;
        match &self.leader {
            _ if self.is_leader => {
                write!(f, "{identity} leads, which is this candidate, for another {}", seconds(self.remaining))?;
                if let Some(token) = self.fencing_token {
                    write!(f, ", with fencing token {token}")?;
                }
            }
            Some(leader) if self.leader_lease_expired => write!(f, "nobody leads; the lease of {leader} has expired")?,
            Some(leader) if leader == identity && self.has_twin => write!(f, "{leader} holds it{TWIN}")?,
            Some(leader) if leader == identity => {
                write!(f, "{leader} holds it, which is this candidate, whose term is over")?
            }
            Some(leader) => write!(f, "{leader} leads; this candidate is {identity}")?,
            None => write!(f, "nobody leads; this candidate is {identity}")?,
        }
        match self.last_contact {
            Some(since) => write!(f, "; heard of the store {} ago", seconds(since))?,
            None => f.write_str("; not heard of the store yet")?,
        }
        match (&self.failed_write, &self.last_error) {
            (Some(error), _) => write!(f, "; the last write failed: {error}")?,
            (None, Some(error)) => write!(f, "; the last read failed: {error}")?,
            (None, None) => {}
        }
        if let Some(unfit_for) = self.unfit_for {
            write!(f, "; not fit to lead for {}", seconds(unfit_for))?;
        }
        if let Some(left) = self.may_acquire_in {
            write!(f, "; fit to lead again, and may do so in {}", seconds(left))?;
        }
        match (self.is_running, self.is_watching) {
            (false, _) => f.write_str("; it has ended"),
            (true, false) => f.write_str("; without a watch"),
            (true, true) => Ok(()),
        }
    }
}

/// In whole seconds: what is less is over before it is read.
fn seconds(duration: Duration) -> FormattedDuration {
    humantime::format_duration(Duration::from_secs(duration.as_secs()))
}

#[cfg(test)]
mod tests {
    use crate::store::{StoreError, StoreErrorKind};
    use crate::{LeaderElector, MemoryStore};

    #[test]
    fn status_is_one_line_with_the_leader_and_the_obstacle() {
        let elector = LeaderElector::builder("jobs").identity("me").start_on(MemoryStore::new()).unwrap();
        let guard = elector.block_until_leader().unwrap();
        let mut status = elector.status();
        status.is_watching = true;
        let token = guard.fencing_token();
        let shown = status.to_string();
        assert!(shown.starts_with("jobs in memory: me leads, which is this candidate, for another "), "{shown}");
        assert!(shown.ends_with(&format!("s, with fencing token {token}; heard of the store 0s ago")), "{shown}");
        status.is_leader = false;
        assert!(status.to_string().contains("me holds it, which is this candidate, whose term is over"));
        status.leader = Some("other".to_owned());
        assert!(status.to_string().starts_with("jobs in memory: other leads; this candidate is me; heard"));
        status.leader_lease_expired = true;
        status.last_contact = None;
        let expected = "jobs in memory: nobody leads; the lease of other has expired; not heard of the store yet";
        assert_eq!(status.to_string(), expected);
        status.leader = Some("x\n[INFO] y".to_owned());
        assert!(status.to_string().contains(r"the lease of x\n[INFO] y has"), "{status}");
        (status.leader, status.is_watching) = (None, false);
        status.last_error = Some(StoreError::new(StoreErrorKind::Unavailable, "it is away"));
        let expected = "nobody leads; this candidate is me; not heard of the store yet; the last read failed: it is away; without a watch";
        assert!(status.to_string().ends_with(expected), "{status}");
        status.failed_write = Some(StoreError::new(StoreErrorKind::Rejected, "no space"));
        assert!(status.to_string().ends_with("yet; the last write failed: no space; without a watch"), "{status}");
        status.failed_write = None;
        status.unfit_for = Some(std::time::Duration::from_secs(61));
        assert!(status.to_string().ends_with("it is away; not fit to lead for 1m 1s; without a watch"), "{status}");
        status.unfit_for = None;
        status.may_acquire_in = Some(std::time::Duration::from_secs(24));
        assert!(status.to_string().ends_with("it is away; fit to lead again, and may do so in 24s; without a watch"));
        status.may_acquire_in = None;
        status.is_running = false;
        assert!(status.to_string().ends_with("it is away; it has ended"));
    }
}
