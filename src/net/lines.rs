//! Lines out of chunks, however the chunks fall.

/// What it keeps between two lines, at most; what a long line needed more is given back.
const KEPT: usize = 32 * 1024;

/// The part of a stream that has arrived and not yet been handed out.
pub(crate) struct Lines {
    buffer: Vec<u8>,
    /// Where the first line begins; all before it has been handed out.
    start: usize,
    /// How much of the buffer is known to hold no line end.
    searched: usize,
    longest: usize,
}

/// A line is longer than it may be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

impl Lines {
    /// Lines of at most `longest` bytes, without the line feed.
    pub(crate) fn new(longest: usize) -> Self {
        Lines { buffer: Vec::new(), start: 0, searched: 0, longest }
    }

    pub(crate) fn push(&mut self, chunk: &[u8]) {
        // Once a chunk and not once a line: a chunk of very short lines would be moved as often as it has lines.
        if self.start > 0 {
            self.buffer.drain(..self.start);
            self.buffer.shrink_to(KEPT);
            self.searched -= self.start;
            self.start = 0;
        }
        self.buffer.extend_from_slice(chunk);
    }

    /// The next line that is not empty, without its end; `None` when that has not arrived.
    pub(crate) fn next(&mut self) -> Result<Option<Vec<u8>>, TooLong> {
        while let Some(at) = self.buffer[self.searched..].iter().position(|b| *b == b'\n') {
            let end = self.searched + at;
            let line = &self.buffer[self.start..end];
            if line.len() > self.longest {
                return Err(TooLong);
            }
            let length = line.strip_suffix(b"\r").unwrap_or(line).len();
            let line = (length > 0).then(|| self.take(end, length));
            if line.is_some() {
                return Ok(line);
            }
            self.start = end + 1;
            self.searched = self.start;
        }
        self.searched = self.buffer.len();
        match self.searched - self.start > self.longest {
            true => Err(TooLong),
            false => Ok(None),
        }
    }

    /// Takes out the line that begins at the start, has this length and ends at `end`.
    fn take(&mut self, end: usize, length: usize) -> Vec<u8> {
        let line = self.start..self.start + length;
        if length <= KEPT {
            self.start = end + 1;
            self.searched = self.start;
            return self.buffer[line].to_vec();
        }
        // Moved, lest it is held twice while it is read.
        let rest = self.buffer.split_off(end + 1);
        let mut taken = std::mem::replace(&mut self.buffer, rest);
        (self.start, self.searched) = (0, 0);
        taken.truncate(line.end);
        taken.drain(..line.start);
        taken.shrink_to_fit();
        taken
    }

    /// What is left when all lines with an end have been taken.
    pub(crate) fn take_rest(&mut self) -> Vec<u8> {
        let rest = self.buffer.split_off(self.start);
        *self = Lines::new(self.longest);
        rest
    }

    /// Whether nothing is left, not even the beginning of a line.
    pub(crate) fn is_empty(&self) -> bool {
        self.start == self.buffer.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_may_be_as_long_as_it_may_wherever_the_chunks_end() {
        for (text, expected) in [(&b"12345678\n"[..], Ok(Some(b"12345678".to_vec()))), (b"123456789\n", Err(TooLong))] {
            for cut in 0..=text.len() {
                let mut lines = Lines::new(8);
                lines.push(&text[..cut]);
                let first = lines.next();
                let line = match first {
                    Ok(None) => {
                        lines.push(&text[cut..]);
                        lines.next()
                    }
                    other => other,
                };
                assert_eq!(line, expected, "cut at {cut}");
            }
        }
    }

    #[test]
    fn a_long_line_is_not_paid_for_ever_after() {
        let mut lines = Lines::new(1 << 20);
        lines.push(&vec![b'x'; 1 << 20]);
        lines.push(b"\n{}\n");
        let line = lines.next().unwrap().unwrap();
        assert_eq!((line.len(), line.capacity()), (1 << 20, 1 << 20));
        assert!(lines.buffer.capacity() <= KEPT, "{}", lines.buffer.capacity());
        assert_eq!(lines.next(), Ok(Some(b"{}".to_vec())));
        assert!(lines.is_empty());
    }
}
