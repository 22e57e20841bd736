//! A candidacy on one record, or on two at once: what a runtime drives.

use crate::clock::{Moment, Now};
use crate::election::Step;
use crate::runtime::pair::Pair;
use crate::runtime::session::{Effect, Input, Session};
use crate::runtime::side::Side;

/// What a runtime drives: see [`Session`], whose methods these are, and [`Pair`].
#[derive(Debug)]
pub(crate) enum Candidacy {
    One(Box<Session>),
    Both(Box<Pair>),
}

impl Candidacy {
    pub(crate) fn handle(&mut self, now: Moment, side: Side, input: Input) {
        match self {
            Self::One(session) => session.handle(now, input),
            Self::Both(pair) => pair.handle(now, side, input),
        }
    }

    pub(crate) fn effect(&mut self) -> Option<(Side, Effect)> {
        match self {
            Self::One(session) => session.effect().map(|effect| (Side::Primary, effect)),
            Self::Both(pair) => pair.effect(),
        }
    }

    pub(crate) fn next(&mut self, now: Now, side: Side) -> Step {
        match self {
            Self::One(session) => session.next(now),
            Self::Both(pair) => pair.next(now, side),
        }
    }

    /// A side that has something else to do than it last said.
    pub(crate) fn touched(&mut self) -> Option<Side> {
        match self {
            Self::One(_) => None,
            Self::Both(pair) => pair.touched(),
        }
    }

    pub(crate) fn leader_until(&self) -> Option<Moment> {
        match self {
            Self::One(session) => session.leader_until(),
            Self::Both(pair) => pair.leader_until(),
        }
    }

    pub(crate) fn identity(&self) -> &str {
        match self {
            Self::One(session) => session.identity(),
            Self::Both(pair) => pair.identity(),
        }
    }
}
