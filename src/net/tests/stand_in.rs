//! A proxy's side of a connection, for tests.

use std::io::{self, Cursor, Read, Write};

/// A proxy that sends a fixed answer in pieces of `piece` bytes.
///
/// `written` records the bytes that the client writes.
pub(crate) struct StandIn {
    pub(crate) answer: Cursor<Vec<u8>>,
    pub(crate) written: Vec<u8>,
    piece: usize,
}

impl StandIn {
    pub(crate) fn new(answer: impl Into<Vec<u8>>, piece: usize) -> Self {
        Self { answer: Cursor::new(answer.into()), written: Vec::new(), piece }
    }
}

impl Read for StandIn {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let piece = self.piece.min(buffer.len());
        self.answer.read(&mut buffer[..piece])
    }
}

impl Write for StandIn {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.written.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
