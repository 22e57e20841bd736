//! The events that a search must reach, so that a search without events cannot pass.

use std::fmt;

use leasehold::StopReason;

macro_rules! covered {
    ($($name:ident: $text:literal,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Coverage {
            $($name,)*
        }

        impl Coverage {
            const ALL: &[(Self, &str)] = &[$((Self::$name, $text),)*];
        }
    };
}

covered! {
    Elected: "elected",
    ElectedByEcho: "elected by an echo",
    RenewedByEcho: "renewed by an echo",
    TakenOver: "taken over",
    RetakenOwn: "own record of an ended term taken over",
    Expired: "expired",
    Superseded: "superseded",
    Released: "released",
    SteppedDown: "stepped down",
    Deleted: "deleted",
    NoProgress: "no progress",
    Progressed: "progressed",
    Unfit: "unfit",
    Requested: "requested",
    Impersonated: "identity conflict",
    Resolved: "resolved",
    Conflict: "conflict",
    LandedLate: "landed late",
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Witnesses(u32);

impl Coverage {
    pub fn of(reason: &StopReason) -> Self {
        match reason {
            StopReason::Released => Self::Released,
            StopReason::SteppedDown => Self::SteppedDown,
            StopReason::Expired => Self::Expired,
            StopReason::Superseded { .. } => Self::Superseded,
            StopReason::IdentityConflict => Self::Impersonated,
            StopReason::NoProgress => Self::NoProgress,
            StopReason::Unfit => Self::Unfit,
            StopReason::Requested => Self::Requested,
            _ => Self::Deleted,
        }
    }
}

impl Witnesses {
    pub fn add(&mut self, coverage: Coverage) {
        self.0 |= 1 << coverage as u32;
    }

    pub fn join(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub fn missing(self, wanted: &[Coverage]) -> Vec<Coverage> {
        wanted.iter().copied().filter(|coverage| self.0 & (1 << *coverage as u32) == 0).collect()
    }
}

impl fmt::Display for Witnesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seen = Coverage::ALL.iter().filter(|(coverage, _)| self.0 & (1 << *coverage as u32) != 0);
        let texts: Vec<_> = seen.map(|(_, text)| *text).collect();
        f.write_str(&texts.join(", "))
    }
}
