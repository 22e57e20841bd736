//! The status of an elector as one line of text.

use std::fmt::{self, Write};
use std::time::Duration;

use humantime::FormattedDuration;

use super::Status;
use crate::election::candidate::notice::SHARED_IDENTITY;
use crate::util::one_line::OneLine;

impl fmt::Display for Status {
    /// Writes one line for people. The wording may change.
    ///
    /// An example is `lease default/jobs: leader is pod-1 (this candidate) for another 9s, fencing token 7; last
    /// contact 1s ago`. Line breaks in the record are escaped.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write_text(&mut text)?;
        OneLine(text).fmt(f)
    }
}

impl Status {
    /// Writes the text without escaping line breaks in names.
    fn write_text(&self, f: &mut String) -> fmt::Result {
        write!(f, "{}: ", self.record)?;
        self.write_leader(f)?;
        match self.last_contact {
            Some(since) => write!(f, "; last contact {} ago", seconds(since))?,
            None => f.write_str("; no contact yet")?,
        }
        match (&self.failed_write, &self.last_error) {
            (Some(error), _) => write!(f, "; the last write failed: {error}")?,
            (None, Some(error)) => write!(f, "; the last read failed: {error}")?,
            (None, None) => {}
        }
        if let Some(unfit_for) = self.unfit_for {
            write!(f, "; unfit for {}", seconds(unfit_for))?;
        }
        if let Some(left) = self.may_acquire_in {
            write!(f, "; fit again, may acquire the lease in {}", seconds(left))?;
        }
        match (self.is_running, self.is_watching) {
            (false, _) => f.write_str("; elector ended"),
            (true, false) => f.write_str("; no watch, polling"),
            (true, true) => Ok(()),
        }
    }

    fn write_leader(&self, f: &mut String) -> fmt::Result {
        let identity = &self.settings.identity;
        match &self.leader {
            _ if self.is_leader => {
                write!(f, "leader is {identity} (this candidate) for another {}", seconds(self.remaining))?;
                self.fencing_token.map_or(Ok(()), |token| write!(f, ", fencing token {token}"))
            }
            Some(leader) if self.leader_lease_expired => write!(f, "no leader; the lease of {leader} has expired"),
            Some(leader) if leader == identity && self.identity_is_shared => {
                write!(f, "{leader} holds the lease{SHARED_IDENTITY}")
            }
            Some(leader) if leader == identity => {
                write!(f, "{leader} (this candidate) holds the lease after the end of its term")
            }
            Some(leader) => {
                write!(f, "leader is {leader}")?;
                if let Some(address) = &self.leader_address {
                    write!(f, " at {address}")?;
                }
                write!(f, "; this candidate is {identity}")
            }
            None => write!(f, "no leader; this candidate is {identity}"),
        }
    }
}

/// Rounds down to whole seconds, because a fraction passes before a person reads the text.
fn seconds(duration: Duration) -> FormattedDuration {
    humantime::format_duration(Duration::from_secs(duration.as_secs()))
}

#[cfg(test)]
mod tests {
    use crate::LeaderElector;
    use crate::store::MemoryStore;
    use crate::store::{StoreError, StoreErrorKind};

    #[test]
    fn status_is_one_line_with_the_leader_and_the_obstacle() {
        let elector = LeaderElector::builder("jobs").identity("me").start_on(MemoryStore::new()).unwrap();
        let guard = elector.block_until_leader().unwrap();
        let mut status = elector.status();
        status.is_watching = true;
        let token = guard.fencing_token();
        let shown = status.to_string();
        assert!(shown.starts_with("jobs in memory: leader is me (this candidate) for another "), "{shown}");
        assert!(shown.ends_with(&format!("s, fencing token {token}; last contact 0s ago")), "{shown}");
        status.is_leader = false;
        assert!(status.to_string().contains("me (this candidate) holds the lease after the end of its term"));
        status.leader = Some("other".to_owned());
        assert!(status.to_string().starts_with("jobs in memory: leader is other; this candidate is me; last"));
        status.leader_lease_expired = true;
        status.last_contact = None;
        let expected = "jobs in memory: no leader; the lease of other has expired; no contact yet";
        assert_eq!(status.to_string(), expected);
        status.leader = Some("x\n[INFO] y".to_owned());
        assert!(status.to_string().contains(r"the lease of x\n[INFO] y has"), "{status}");
        (status.leader, status.is_watching) = (None, false);
        status.last_error = Some(StoreError::new(StoreErrorKind::Unavailable, "it is away"));
        let expected =
            "no leader; this candidate is me; no contact yet; the last read failed: it is away; no watch, polling";
        assert!(status.to_string().ends_with(expected), "{status}");
        status.failed_write = Some(StoreError::new(StoreErrorKind::Rejected, "no space"));
        assert!(status.to_string().ends_with("yet; the last write failed: no space; no watch, polling"), "{status}");
        status.failed_write = None;
        status.unfit_for = Some(std::time::Duration::from_secs(61));
        assert!(status.to_string().ends_with("it is away; unfit for 1m 1s; no watch, polling"), "{status}");
        status.unfit_for = None;
        status.may_acquire_in = Some(std::time::Duration::from_secs(24));
        assert!(status.to_string().ends_with("it is away; fit again, may acquire the lease in 24s; no watch, polling"));
        status.may_acquire_in = None;
        status.is_running = false;
        assert!(status.to_string().ends_with("it is away; elector ended"));
    }
}
