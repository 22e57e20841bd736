//! A candidacy on one record, or on two at once: what a runtime drives.

use crate::election::Step;
use crate::election::candidate::pair::Pair;
use crate::election::candidate::session::{Effect, Input, Session};
use crate::election::candidate::side::Side;
use crate::util::clock::{Moment, Now};

/// What a runtime drives: see [`Session`], whose methods these are, and [`Pair`].
#[derive(Debug)]
pub enum Candidacy {
    /// On one record, whose side is the primary.
    One(Box<Session>),
    /// On two.
    Both(Box<Pair>),
}

impl Candidacy {
    /// What has happened, to this side where it is of one.
    pub fn handle(&mut self, now: Moment, side: Side, input: Input) {
        match self {
            Self::One(session) => session.handle(now, input),
            Self::Both(pair) => pair.handle(now, side, input),
        }
    }

    /// The next thing to do or to tell, and of which side it is.
    pub fn effect(&mut self) -> Option<(Side, Effect)> {
        match self {
            Self::One(session) => session.effect().map(|effect| (Side::Primary, effect)),
            Self::Both(pair) => pair.effect(),
        }
    }

    /// What a side is to do now, when no request of it is under way.
    pub fn next(&mut self, now: Now, side: Side) -> Step {
        match self {
            Self::One(session) => session.next(now),
            Self::Both(pair) => pair.next(now, side),
        }
    }

    /// A side that has something else to do than it last said.
    pub fn touched(&mut self) -> Option<Side> {
        match self {
            Self::One(_) => None,
            Self::Both(pair) => pair.touched(),
        }
    }

    fn ask<'a, T>(&'a self, one: fn(&'a Session) -> T, both: fn(&'a Pair) -> T) -> T {
        match self {
            Self::One(session) => one(session),
            Self::Both(pair) => both(pair),
        }
    }

    /// When the lease of whoever leads runs out, unless something is heard of it before.
    pub fn leader_until(&self) -> Option<Moment> {
        self.ask(Session::leader_until, Pair::leader_until)
    }

    /// Whether a record is ours, or may just have become so, that nobody has a guard for.
    pub fn may_hold(&self) -> bool {
        self.ask(Session::may_hold, Pair::may_hold)
    }

    /// Whether the record has this candidate's identity, and another process wrote the record.
    pub fn has_twin(&self) -> bool {
        self.ask(Session::has_twin, Pair::has_twin)
    }

    /// Who this candidate is in the record.
    pub fn identity(&self) -> &str {
        self.ask(Session::identity, Pair::identity)
    }
}
