//! Pseudorandom numbers from a seed.

/// splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// An index into a sequence that is not empty.
    pub(crate) fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }

    /// An offset at which to read a file of `size` bytes: anywhere, around page boundaries, at the end and beyond it.
    pub(crate) fn offset(&mut self, size: u64) -> u64 {
        match self.below(10) {
            0 => 0,
            1 => size.saturating_sub(self.below(5000)),
            2 => size + self.below(10_000),
            3 => (self.below(size + 1) & !4095).saturating_add(self.below(3)).saturating_sub(1),
            _ => self.below(size + 1),
        }
    }

    /// A length to read, mostly small.
    pub(crate) fn length(&mut self) -> usize {
        let most = [1, 100, 4096, 4097, 20_000, 131_072, 300_000][self.index(7)];
        1 + self.index(most)
    }
}
