//! A connection as the HTTP library sees it: what it writes is completed here, just before it goes out.

use std::fmt;

use ureq::unversioned::transport::{Buffers, LazyBuffers, NextTimeout, Transport};

use super::redact::{room, unmask};

/// What a connection does itself: TCP, or TLS on top of it.
pub(crate) trait Channel: fmt::Debug + Send + Sync + 'static {
    fn is_tls(&self) -> bool;

    /// Where [`receive`](Channel::receive) puts what has come. What goes out does not pass through it.
    fn received(&self) -> &LazyBuffers;

    fn received_mut(&mut self) -> &mut LazyBuffers;

    fn send(&mut self, bytes: &[u8], timeout: NextTimeout) -> Result<(), ureq::Error>;

    fn receive(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error>;

    /// Whether it can carry another request: it stands, and nothing has come that nobody has asked for.
    fn is_quiet(&mut self) -> bool;
}

/// A connection with the buffer that the HTTP library writes into.
pub(crate) struct Outgoing<T> {
    channel: T,
    output: Vec<u8>,
}

impl<T> Outgoing<T> {
    pub(crate) fn new(channel: T) -> Self {
        Self { channel, output: Vec::new() }
    }

    /// The mask of a head can only be replaced in one piece, so the head must fit.
    fn make_room(&mut self) {
        let room = room();
        if self.output.len() < room {
            self.output.resize(room, 0);
        }
    }
}

impl<T: Channel> Transport for Outgoing<T> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        let bytes = unmask(&self.output[..amount]).map_err(|error| ureq::Error::Other(Box::new(error)))?;
        self.channel.send(&bytes, timeout)
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, ureq::Error> {
        self.channel.receive(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.channel.is_quiet()
    }

    fn is_tls(&self) -> bool {
        self.channel.is_tls()
    }
}

impl<T: Channel> Buffers for Outgoing<T> {
    fn output(&mut self) -> &mut [u8] {
        self.make_room();
        &mut self.output
    }

    fn input(&self) -> &[u8] {
        self.channel.received().input()
    }

    fn input_append_buf(&mut self) -> &mut [u8] {
        self.channel.received_mut().input_append_buf()
    }

    fn input_appended(&mut self, amount: usize) {
        self.channel.received_mut().input_appended(amount);
    }

    fn input_consume(&mut self, amount: usize) {
        self.channel.received_mut().input_consume(amount);
    }

    fn tmp_and_output(&mut self) -> (&mut [u8], &mut [u8]) {
        self.make_room();
        let (tmp, _) = self.channel.received_mut().tmp_and_output();
        (tmp, &mut self.output)
    }

    fn can_use_input(&self) -> bool {
        self.channel.received().can_use_input()
    }
}

impl<T: fmt::Debug> fmt::Debug for Outgoing<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").field("channel", &self.channel).finish_non_exhaustive()
    }
}
