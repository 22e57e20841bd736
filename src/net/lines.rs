//! Reading of lines of bounded length from a stream.

use std::io::{self, BufRead, Read};

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReadLine {
    /// A line without its end.
    Whole(Vec<u8>),
    /// The text after the last line end of an ended stream, which may be empty.
    Rest(Vec<u8>),
    TooLong,
}

/// Reads the next non-empty line.
///
/// The line may have at most `longest` bytes, without the line feed.
pub(crate) fn read_line(reader: &mut impl BufRead, longest: usize) -> io::Result<ReadLine> {
    loop {
        let mut line = Vec::new();
        reader.by_ref().take(longest as u64 + 1).read_until(b'\n', &mut line)?;
        if line.pop_if(|last| *last == b'\n').is_none() {
            return Ok(if line.len() > longest { ReadLine::TooLong } else { ReadLine::Rest(line) });
        }
        line.pop_if(|last| *last == b'\r');
        if !line.is_empty() {
            line.shrink_to_fit();
            return Ok(ReadLine::Whole(line));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    #[test]
    fn length_of_a_line_is_bounded_wherever_the_chunks_end() {
        let (fits, too_long) = (&b"12345678\n"[..], &b"123456789\n"[..]);
        for chunk in 1..=too_long.len() {
            let read = |text| read_line(&mut BufReader::with_capacity(chunk, text), 8).unwrap();
            assert_eq!(read(fits), ReadLine::Whole(b"12345678".to_vec()), "chunks of {chunk}");
            assert_eq!(read(too_long), ReadLine::TooLong, "chunks of {chunk}");
        }
    }

    #[test]
    fn lines_are_the_same_wherever_the_chunks_end() {
        let text = &b"a\nb\r\n\n\r\n\rc\nd"[..];
        for chunk in 1..=text.len() {
            let mut reader = BufReader::with_capacity(chunk, text);
            for line in ["a", "b", "\rc"] {
                assert_eq!(read_line(&mut reader, 8).unwrap(), ReadLine::Whole(line.into()), "chunks of {chunk}");
            }
            assert_eq!(read_line(&mut reader, 8).unwrap(), ReadLine::Rest(b"d".to_vec()), "chunks of {chunk}");
        }
    }

    #[test]
    fn long_line_takes_no_more_memory_than_its_length() {
        let text = [&vec![b'x'; 1 << 20], &b"\n{}\n"[..]].concat();
        let mut reader = BufReader::new(&text[..]);
        let ReadLine::Whole(line) = read_line(&mut reader, 1 << 20).unwrap() else { panic!("a line") };
        assert_eq!((line.len(), line.capacity()), (1 << 20, 1 << 20));
        assert_eq!(read_line(&mut reader, 1 << 20).unwrap(), ReadLine::Whole(b"{}".to_vec()));
        assert_eq!(read_line(&mut reader, 1 << 20).unwrap(), ReadLine::Rest(Vec::new()));
    }
}
