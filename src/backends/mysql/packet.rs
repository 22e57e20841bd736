//! Packets of the MySQL protocol and their contents.

use super::error::MySqlRefusal;
use crate::net::error::{Error, NetErrorKind};

/// Maximum length of a packet in bytes.
///
/// The protocol allows 16 MiB.
pub(super) const LONGEST: usize = 1024 * 1024;

/// The length of a packet header: three bytes for the packet's length, one for its number.
pub(super) const HEADER: usize = 4;

/// The first byte of a response, which determines the meaning of the response.
pub(super) const OK: u8 = 0x00;
pub(super) const MORE_AUTH: u8 = 0x01;
pub(super) const LOCAL_FILE: u8 = 0xfb;
pub(super) const EOF: u8 = 0xfe;
pub(super) const ERR: u8 = 0xff;

/// The byte that means NULL in a row.
const NULL: u8 = 0xfb;

/// Capability flags, which client and server exchange at the start of a connection.
pub(super) mod capability {
    pub(in crate::backends::mysql) const LONG_PASSWORD: u32 = 1;
    pub(in crate::backends::mysql) const LONG_FLAG: u32 = 1 << 2;
    pub(in crate::backends::mysql) const CONNECT_WITH_DB: u32 = 1 << 3;
    pub(in crate::backends::mysql) const PROTOCOL_41: u32 = 1 << 9;
    pub(in crate::backends::mysql) const SSL: u32 = 1 << 11;
    pub(in crate::backends::mysql) const TRANSACTIONS: u32 = 1 << 13;
    pub(in crate::backends::mysql) const SECURE_CONNECTION: u32 = 1 << 15;
    pub(in crate::backends::mysql) const PLUGIN_AUTH: u32 = 1 << 19;
}

/// Flags in a response that describe the state of the session.
pub(super) mod status {
    pub(in crate::backends::mysql) const IN_TRANSACTION: u16 = 1;
    pub(in crate::backends::mysql) const AUTOCOMMIT: u16 = 1 << 1;
    pub(in crate::backends::mysql) const MORE_RESULTS: u16 = 1 << 3;
}

/// Returns the header of a packet to send, or `None` if the packet is too long.
pub(super) fn header(length: usize, sequence: u8) -> Option<[u8; HEADER]> {
    let [a, b, c, ..] = u32::try_from(length).ok().filter(|_| length <= LONGEST)?.to_le_bytes();
    Some([a, b, c, sequence])
}

/// Returns the length of the packet with this header.
///
/// Returns an error if the number in the header is not `sequence`, or if the packet is too long.
pub(super) fn length(header: [u8; HEADER], sequence: u8) -> Result<usize, Error> {
    let [a, b, c, number] = header;
    let length = u32::from_le_bytes([a, b, c, 0]) as usize;
    check(number == sequence, "packets out of order")?;
    if length > LONGEST {
        return Err(Error::new(NetErrorKind::BodyTooLarge, "the server's answer has a packet of more than 1 MiB"));
    }
    Ok(length)
}

pub(super) fn malformed(what: &str) -> Error {
    Error::new(NetErrorKind::Malformed, format!("unexpected response from MySQL: {what}"))
}

/// Returns the error [`malformed`] with the text `what` unless `is_well_formed` is `true`.
pub(super) fn check(is_well_formed: bool, what: &str) -> Result<(), Error> {
    if is_well_formed { Ok(()) } else { Err(malformed(what)) }
}

/// A reader that parses a packet from its start.
pub(super) struct PacketReader<'a>(&'a [u8]);

impl<'a> PacketReader<'a> {
    pub(super) fn new(packet: &'a [u8]) -> Self {
        Self(packet)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn rest(self) -> &'a [u8] {
        self.0
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or_else(|| malformed("a packet is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self, length: usize) -> Result<u64, Error> {
        Ok(self.take(length)?.iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte)))
    }

    pub(super) fn u8(&mut self) -> Result<u8, Error> {
        Ok(self.take(1)?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, Error> {
        let bytes = self.take(2)?;
        Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    pub(super) fn u32(&mut self) -> Result<u32, Error> {
        self.take(4).map(|bytes| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    }

    /// Reads up to the next zero byte, and skips the zero byte.
    pub(super) fn until_zero(&mut self) -> Result<&'a [u8], Error> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or_else(|| malformed("a text has no end"))?;
        let text = self.take(end)?;
        self.take(1)?;
        Ok(text)
    }

    /// Reads a number in MySQL's encoding of variable length.
    ///
    /// The first byte is the number itself, or a code for the length of the number.
    pub(super) fn length_encoded(&mut self) -> Result<u64, Error> {
        match self.u8()? {
            number @ 0..=0xfa => Ok(number.into()),
            0xfc => self.number(2),
            0xfd => self.number(3),
            0xfe => self.number(8),
            _ => Err(malformed("a number has no length")),
        }
    }

    /// Reads the length of a text, and then the text.
    pub(super) fn text(&mut self) -> Result<&'a [u8], Error> {
        let length = self.length_encoded()?;
        self.take(usize::try_from(length).map_err(|_| malformed("a packet is too short"))?)
    }

    /// Reads one column of a row, and returns `None` for NULL.
    pub(super) fn column(&mut self) -> Result<Option<&'a [u8]>, Error> {
        if self.0.first() == Some(&NULL) {
            self.take(1)?;
            return Ok(None);
        }
        self.text().map(Some)
    }
}

/// Parses a packet that starts with [`OK`].
///
/// Returns the number of affected rows, the number of the last inserted row, and the status flags.
pub(super) fn done(packet: &[u8]) -> Result<(u64, u64, u16), Error> {
    let mut reader = PacketReader::new(packet);
    reader.take(1)?;
    let (affected, last_insert_id) = (reader.length_encoded()?, reader.length_encoded()?);
    let status = reader.u16()?;
    let _warnings = reader.u16()?;
    Ok((affected, last_insert_id, status))
}

/// Returns `true` if `packet` ends the columns or the rows.
///
/// A row that starts with the same byte has at least nine bytes.
pub(super) fn is_eof(packet: &[u8]) -> bool {
    packet.first() == Some(&EOF) && packet.len() < 9
}

/// Returns the status flags in the packet that ends the rows.
pub(super) fn eof_status(packet: &[u8]) -> Result<u16, Error> {
    let mut reader = PacketReader::new(packet);
    reader.take(3)?;
    reader.u16()
}

/// Parses the error in a packet that starts with [`ERR`].
pub(super) fn refusal(packet: &[u8]) -> Result<MySqlRefusal, Error> {
    let mut reader = PacketReader::new(packet);
    reader.take(1)?;
    let code = reader.u16()?;
    let rest = reader.rest();
    // The SQL state precedes the message, except during the handshake.
    let message = match rest.first() {
        Some(b'#') => rest.get(6..).ok_or_else(|| malformed("a packet is too short"))?,
        _ => rest,
    };
    Ok(MySqlRefusal::Error { code, message: String::from_utf8_lossy(message).into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integer_length_follows_its_first_byte() {
        for (bytes, expected) in [
            (&[0_u8][..], Some(0)),
            (&[250], Some(250)),
            (&[0xfc, 251, 0], Some(251)),
            (&[0xfc, 0xff, 0xff], Some(65_535)),
            (&[0xfd, 0, 0, 1], Some(65_536)),
            (&[0xfe, 0, 0, 0, 1, 0, 0, 0, 0], Some(1 << 24)),
            (&[0xfe, 255, 255, 255, 255, 255, 255, 255, 255], Some(u64::MAX)),
            (&[0xfb], None),
            (&[0xff], None),
            (&[0xfc, 1], None),
            (&[0xfe, 1, 2, 3, 4, 5, 6, 7], None),
            (&[], None),
        ] {
            assert_eq!(PacketReader::new(bytes).length_encoded().ok(), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_text_is_never_longer_than_its_packet() {
        assert_eq!(PacketReader::new(b"\x02ab").text().unwrap(), b"ab");
        for bytes in [&b"\x03ab"[..], b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff", b""] {
            assert!(PacketReader::new(bytes).text().is_err(), "{bytes:?}");
        }
        assert_eq!(PacketReader::new(b"\xfb").column().unwrap(), None);
        assert_eq!(PacketReader::new(b"\x00").column().unwrap(), Some(&b""[..]));
        assert!(PacketReader::new(b"abc").until_zero().is_err());
    }

    /// Parses the examples in the protocol's documentation.
    #[test]
    fn answers_are_taken_apart() {
        assert_eq!(done(&[0, 0, 0, 2, 0, 0, 0]).unwrap(), (0, 0, status::AUTOCOMMIT));
        for (packet, text) in [
            (&b"\xff\x48\x04#HY000No tables used"[..], "the server returned an error: No tables used (error 1096)"),
            (b"\xff\x10\x04Too many connections", "the server returned an error: Too many connections (error 1040)"),
        ] {
            assert_eq!(refusal(packet).unwrap().to_string(), text);
        }
        assert!(is_eof(&[0xfe, 0, 0, 2, 0]) && !is_eof(&[0xfe; 9]) && !is_eof(&[]));
        assert_eq!(eof_status(&[0xfe, 0, 0, 2, 0]).unwrap(), status::AUTOCOMMIT);
        for end in 0..7 {
            assert!(done(&[0, 1, 1, 2, 0, 0, 0][..end]).is_err(), "cut at {end}");
        }
        assert!(refusal(b"\xff").is_err() && refusal(b"\xff\x10\x04#HY").is_err() && eof_status(&[0xfe]).is_err());
    }

    #[test]
    fn a_header_is_bounded_and_counts() {
        assert_eq!(header(LONGEST, 7), Some([0, 0, 16, 7]));
        assert_eq!(header(LONGEST + 1, 7), None);
        assert_eq!(length([0, 0, 16, 7], 7).unwrap(), LONGEST);
        assert_eq!(*length([1, 0, 16, 7], 7).unwrap_err().kind(), NetErrorKind::BodyTooLarge);
        assert_eq!(*length([0, 0, 0, 7], 8).unwrap_err().kind(), NetErrorKind::Malformed);
    }
}
