//! Packets, and what stands in them.

use super::error::MySqlRefusal;
use crate::net::error::{Error, NetErrorKind};

/// Longer packets are neither sent nor taken. Those of the protocol's own may be 16 MiB.
pub(super) const LONGEST: usize = 1024 * 1024;

/// Of a packet: its length in three bytes, and its number.
pub(super) const HEADER: usize = 4;

/// What the first byte of an answer says.
pub(super) const OK: u8 = 0x00;
pub(super) const MORE_AUTH: u8 = 0x01;
pub(super) const LOCAL_FILE: u8 = 0xfb;
pub(super) const EOF: u8 = 0xfe;
pub(super) const ERR: u8 = 0xff;

/// In a row: NULL.
const NULL: u8 = 0xfb;

/// What a client and a server can do.
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

/// The state of the session, as an answer tells it.
pub(super) mod status {
    pub(in crate::backends::mysql) const IN_TRANSACTION: u16 = 1;
    pub(in crate::backends::mysql) const AUTOCOMMIT: u16 = 1 << 1;
    pub(in crate::backends::mysql) const MORE_RESULTS: u16 = 1 << 3;
}

/// The header of a packet that is to be sent.
pub(super) fn header(length: usize, sequence: u8) -> Option<[u8; HEADER]> {
    let [a, b, c, ..] = u32::try_from(length).ok().filter(|_| length <= LONGEST)?.to_le_bytes();
    Some([a, b, c, sequence])
}

/// The length of a packet that comes with this header.
pub(super) fn length(header: [u8; HEADER], sequence: u8) -> Result<usize, Error> {
    let [a, b, c, number] = header;
    let length = u32::from_le_bytes([a, b, c, 0]) as usize;
    if number != sequence {
        return Err(malformed("its packets are out of order"));
    }
    if length > LONGEST {
        return Err(Error::new(NetErrorKind::BodyTooLarge, "the server's answer has a packet of more than 1 MiB"));
    }
    Ok(length)
}

pub(super) fn malformed(what: &str) -> Error {
    Error::new(NetErrorKind::Malformed, format!("the answer is not what MySQL answers: {what}"))
}

/// Takes a packet apart from its front.
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

    /// Up to the next zero, which goes too.
    pub(super) fn until_zero(&mut self) -> Result<&'a [u8], Error> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or_else(|| malformed("a text has no end"))?;
        let text = self.take(end)?;
        self.take(1)?;
        Ok(text)
    }

    /// A number whose first byte says how long it is.
    pub(super) fn length_encoded(&mut self) -> Result<u64, Error> {
        match self.u8()? {
            number @ 0..=0xfa => Ok(number.into()),
            0xfc => self.number(2),
            0xfd => self.number(3),
            0xfe => self.number(8),
            _ => Err(malformed("a number has no length")),
        }
    }

    /// A text behind its length.
    pub(super) fn text(&mut self) -> Result<&'a [u8], Error> {
        let length = self.length_encoded()?;
        self.take(usize::try_from(length).map_err(|_| malformed("a packet is too short"))?)
    }

    /// One column of a row; `None` is NULL.
    pub(super) fn column(&mut self) -> Result<Option<&'a [u8]>, Error> {
        if self.0.first() == Some(&NULL) {
            self.take(1)?;
            return Ok(None);
        }
        self.text().map(Some)
    }
}

/// A statement was carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) affected: u64,
    pub(super) last_insert_id: u64,
    pub(super) status: u16,
}

impl Done {
    /// From a packet that begins with [`OK`].
    pub(super) fn parse(packet: &[u8]) -> Result<Self, Error> {
        let mut reader = PacketReader::new(packet);
        reader.take(1)?;
        let (affected, last_insert_id) = (reader.length_encoded()?, reader.length_encoded()?);
        let status = reader.u16()?;
        let _warnings = reader.u16()?;
        Ok(Self { affected, last_insert_id, status })
    }
}

/// Whether this packet ends the columns, or the rows. A row that begins with this byte is longer.
pub(super) fn is_eof(packet: &[u8]) -> bool {
    packet.first() == Some(&EOF) && packet.len() < 9
}

/// The state of the session after the last row.
pub(super) fn eof_status(packet: &[u8]) -> Result<u16, Error> {
    let mut reader = PacketReader::new(packet);
    reader.take(3)?;
    reader.u16()
}

/// Reads the error of a packet that begins with [`ERR`].
pub(super) fn refusal(packet: &[u8]) -> Result<MySqlRefusal, Error> {
    let mut reader = PacketReader::new(packet);
    reader.take(1)?;
    let code = reader.u16()?;
    let rest = reader.rest();
    // The state of SQL stands before the message, but not before the handshake is over.
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

    /// The examples of the protocol's documentation.
    #[test]
    fn answers_are_taken_apart() {
        let done = Done::parse(&[0, 0, 0, 2, 0, 0, 0]).unwrap();
        assert_eq!(done, Done { affected: 0, last_insert_id: 0, status: status::AUTOCOMMIT });
        for (packet, text) in [
            (&b"\xff\x48\x04#HY000No tables used"[..], "the server says: No tables used (error 1096)"),
            (b"\xff\x10\x04Too many connections", "the server says: Too many connections (error 1040)"),
        ] {
            assert_eq!(refusal(packet).unwrap().to_string(), text);
        }
        assert!(is_eof(&[0xfe, 0, 0, 2, 0]) && !is_eof(&[0xfe; 9]) && !is_eof(&[]));
        assert_eq!(eof_status(&[0xfe, 0, 0, 2, 0]).unwrap(), status::AUTOCOMMIT);
        for end in 0..7 {
            assert!(Done::parse(&[0, 1, 1, 2, 0, 0, 0][..end]).is_err(), "cut at {end}");
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
