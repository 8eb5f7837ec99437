//! XXH3-128 of bytes that come piece by piece. It finds damage and mix-ups, but not forgeries.

use twox_hash::xxhash3_128::Hasher;

/// An XXH3-128 that is being computed, with seed 0 (xxHash specification, `doc/xxhash_spec.md` of Cyan4973/xxHash).
#[derive(Clone, Default, derive_more::Debug)]
#[debug("Xxh3")]
pub struct Xxh3(Hasher);

impl Xxh3 {
    /// The sum of bytes that are there at once.
    pub fn of(bytes: &[u8]) -> [u8; 16] {
        Hasher::oneshot(bytes).to_be_bytes()
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    /// The sum of all of them in its canonical form, which is big-endian.
    pub fn finish(&self) -> [u8; 16] {
        self.0.finish_128().to_be_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `xxh128sum` prints them.
    #[test]
    fn sums_are_those_of_xxh128sum() {
        let hex = |sum| format!("{:032x}", u128::from_be_bytes(sum));
        assert_eq!(hex(Xxh3::of(b"")), "99aa06d3014798d86001c324468d497f");
        assert_eq!(hex(Xxh3::of(b"abc")), "06b05ab6733a618578af5f94892f3950");
        let bytes: Vec<u8> = (0..=255).cycle().take(100_000).collect();
        let mut sum = Xxh3::default();
        bytes.chunks(999).for_each(|piece| sum.update(piece));
        assert_eq!(sum.finish(), Xxh3::of(&bytes));
    }
}
