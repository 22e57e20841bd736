//! Hashing that is cheap without optimization, which is how tests are built.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hash, Hasher};

pub type Mixed<Key, Value> = HashMap<Key, Value, BuildHasherDefault<FastHasher>>;
pub type Seen = HashSet<u64, BuildHasherDefault<Same>>;

/// Sixty-four bits that stand for a state: among ten million, the chance that two are taken for one is one in a hundred
/// thousand.
pub fn mixed(state: &impl Hash) -> u64 {
    let mut hasher = FastHasher::default();
    state.hash(&mut hasher);
    hasher.finish()
}

#[derive(Default)]
pub struct FastHasher(u64);

impl FastHasher {
    fn mix(&mut self, value: u64) {
        let product = u128::from(self.0 ^ value ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        self.0 = (product as u64) ^ (product >> 64) as u64;
        self.0 = self.0.rotate_left(23).wrapping_add(value);
    }
}

impl Hasher for FastHasher {
    fn finish(&self) -> u64 {
        let mut last = FastHasher(self.0);
        last.mix(0);
        last.mix(1);
        last.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.mix(u64::from(*byte));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.mix(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.mix(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.mix(value);
    }

    fn write_usize(&mut self, value: usize) {
        self.mix(value as u64);
    }

    fn write_isize(&mut self, value: isize) {
        self.mix(value as u64);
    }
}

/// What is mixed already stays as it is.
#[derive(Default)]
pub struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only whole numbers are hashed")
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}
