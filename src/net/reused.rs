//! Tells a request that went down with an old connection from one that broke for another reason.
//!
//! Whatever stands in front of an API server may close an idle connection at any time, also just when a request goes out
//! on it. Nobody can know then whether the request arrived; but it is no sign of trouble, and worth another attempt at once.

use std::io;

use ureq::unversioned::transport::{Buffers, NextTimeout, Transport};

use super::dial::Route;
use super::error::{Error, ErrorKind};

/// A connection that knows whether an answer has come on it before, and whether one is awaited.
#[derive(Debug)]
pub(crate) struct Reused<T> {
    connection: T,
    route: Route,
    has_answered: bool,
    /// Nothing has come since a request began to go out.
    awaits_answer: bool,
}

impl<T> Reused<T> {
    pub(crate) fn new(connection: T, route: Route) -> Self {
        Self { connection, route, has_answered: false, awaits_answer: false }
    }

    fn explain(&self, error: ureq::Error) -> ureq::Error {
        let is_closed = match &error {
            ureq::Error::Io(error) => matches!(
                error.kind(),
                io::ErrorKind::BrokenPipe
                    | io::ErrorKind::ConnectionAborted
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::NotConnected
                    | io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::WriteZero
            ),
            _ => false,
        };
        if is_closed && self.has_answered && self.awaits_answer { closed() } else { error }
    }
}

impl<T: Transport> Transport for Reused<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.connection.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.awaits_answer = true;
        self.connection.transmit_output(amount, timeout).map_err(|error| self.explain(error))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        match self.connection.await_input(timeout) {
            Ok(true) => {
                (self.has_answered, self.awaits_answer) = (true, false);
                self.route.answered();
                Ok(true)
            }
            Ok(false) if self.has_answered && self.awaits_answer => Err(closed()),
            Ok(false) => Ok(false),
            Err(error) => Err(self.explain(error)),
        }
    }

    fn is_open(&mut self) -> bool {
        self.connection.is_open()
    }

    fn is_tls(&self) -> bool {
        self.connection.is_tls()
    }
}

fn closed() -> ureq::Error {
    let what = "the connection, which had been used before, was closed before a byte of the answer had come";
    ureq::Error::Other(Box::new(Error::new(ErrorKind::ConnectionClosed, what).sent(true)))
}
