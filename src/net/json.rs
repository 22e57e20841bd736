//! A JSON parser with a memory limit.
//!
//! A [`Value`] can need a hundred times as much memory as its text. Example: `{"a":{}}` needs a B-tree node of several
//! hundred bytes. The parser therefore computes the memory of the values before it builds them. The computation follows
//! the growth of [`Value`]. The result is at most a few times the memory of an ordinary object.

use std::fmt;

use serde::Deserializer;
use serde::de::{self, DeserializeOwned, DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The reason why a text was not read.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// The text is not JSON, or not of the expected type.
    Malformed(serde_json::Error),
    /// The values need more memory than the limit.
    TooLarge,
}

/// The bytes of an array element.
///
/// The factor 1.5 covers a growing array, whose old and new memory exist at the same time.
const ELEMENT: usize = size_of::<Value>() * 3 / 2;

/// The bytes of a `BTreeMap` node: eleven members, twelve edges and the header.
const NODE: usize = 11 * (size_of::<String>() + size_of::<Value>()) + 13 * size_of::<usize>();

/// The overhead of an allocation in bytes.
const ALLOCATION: usize = 2 * size_of::<usize>();

/// Parses a JSON text whose values need at most `limit` bytes of memory.
///
/// `T` must be [`Value`], or a type that needs no more memory than [`Value`].
pub(crate) fn read<T: DeserializeOwned>(text: &[u8], limit: usize) -> Result<T, Unreadable> {
    let mut count = Count { left: limit, longest_escaped: 0, is_exceeded: false };
    let counted = count.deserialize(&mut serde_json::Deserializer::from_slice(text));
    // serde_json builds a string with escapes in a buffer first. The buffer grows by doubling, so it counts twice.
    if count.is_exceeded || count.left < 2 * count.longest_escaped {
        return Err(Unreadable::TooLarge);
    }
    counted.and_then(|()| serde_json::from_slice(text)).map_err(Unreadable::Malformed)
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // The message omits the text of `e`, which may quote a secret that the server sent back.
            Self::Malformed(e) => write!(f, "invalid or unexpected JSON (line {} column {})", e.line(), e.column()),
            Self::TooLarge => f.write_str(
                "the values need more memory than allowed; store less data in the object, or use another object for the election",
            ),
        }
    }
}

/// A visitor that counts the memory of all values and keeps no value.
struct Count {
    left: usize,
    longest_escaped: usize,
    is_exceeded: bool,
}

impl Count {
    fn take<E: de::Error>(&mut self, bytes: usize) -> Result<(), E> {
        self.is_exceeded |= self.left < bytes;
        self.left = self.left.saturating_sub(bytes);
        if self.is_exceeded { Err(E::custom("too large")) } else { Ok(()) }
    }
}

impl<'de> DeserializeSeed<'de> for &mut Count {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Count {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<(), E> {
        self.take(text.len() + ALLOCATION)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        self.longest_escaped = self.longest_escaped.max(text.len());
        self.take(text.len() + ALLOCATION)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let (mut length, mut capacity) = (0, 0);
        while elements.next_element_seed(&mut *self)?.is_some() {
            length += 1;
            if length > capacity {
                let larger = (2 * capacity).max(4);
                self.take((larger - capacity) * ELEMENT)?;
                capacity = larger;
            }
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut length = 0;
        while members.next_key_seed(&mut *self)?.is_some() {
            length += 1;
            // Every B-tree node except the first has at least five members, so a member costs less than a third of a
            // node.
            match length {
                1 => self.take(NODE)?,
                2..=5 => {}
                _ => self.take(NODE / 3)?,
            }
            members.next_value_seed(&mut *self)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fits(text: &str, limit: usize) -> bool {
        match read::<Value>(text.as_bytes(), limit) {
            Ok(_) => true,
            Err(Unreadable::TooLarge) => false,
            Err(Unreadable::Malformed(e)) => panic!("{e}"),
        }
    }

    #[test]
    fn read_returns_the_content() {
        let text = r#" {"a":[1,-2,3.5,true,null,"x\n",{"b":{}}],"c":"d"} "#;
        let expected = json!({ "a": [1, -2, 3.5, true, null, "x\n", { "b": {} }], "c": "d" });
        assert_eq!(read::<Value>(text.as_bytes(), 1 << 20).unwrap(), expected);
        for text in ["", "{", "[1,]", "{\"a\":1} x", "\"\u{1}\"", "nul", &"[".repeat(1000)] {
            assert!(matches!(read::<Value>(text.as_bytes(), 1 << 20), Err(Unreadable::Malformed(_))), "{text}");
        }
        // The JSON is valid, but has another type than `T`.
        assert!(matches!(read::<Vec<u8>>(b"{}", 1 << 20), Err(Unreadable::Malformed(_))));
    }

    #[test]
    fn every_kind_of_value_counts_up_to_the_limit() {
        let many = |value: &str| format!("[{}]", vec![value; 1024].join(","));
        let text = "x".repeat(1000);
        for (text, least) in [
            (many("[]"), 1024 * ELEMENT),
            (many("[0]"), 1024 * 5 * ELEMENT),
            (many("{}"), 1024 * ELEMENT),
            (many("{\"a\":0}"), 1024 * (ELEMENT + NODE + 1 + ALLOCATION)),
            (many("\"\""), 1024 * (ELEMENT + ALLOCATION)),
            (format!("\"{text}\""), 1000 + ALLOCATION),
            (format!("\"\\n{text}\""), 1001 + ALLOCATION + 2 * 1001),
            (format!("{{\"{text}\":0}}"), NODE + 1000 + ALLOCATION),
        ] {
            assert!(fits(&text, least), "{text:.40}");
            assert!(!fits(&text, least - 1), "{text:.40}");
        }
    }
}
