//! Bounds of a size that is known only after work.

use std::iter::Sum;
use std::ops::Add;

/// What is known of a size in bytes. No input breaks the bounds: a decision on them is the one that measuring would make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeBounds {
    /// It is not smaller.
    pub least: u64,
    /// It is not larger.
    pub most: u64,
}

impl SizeBounds {
    /// Nothing is known.
    pub const UNKNOWN: Self = Self { least: 0, most: u64::MAX };

    /// A size that is known.
    pub fn exact(size: u64) -> Self {
        Self { least: size, most: size }
    }

    /// The size, if the bounds leave one only.
    pub fn known(self) -> Option<u64> {
        (self.least == self.most).then_some(self.most)
    }
}

impl Add for SizeBounds {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { least: self.least.saturating_add(other.least), most: self.most.saturating_add(other.most) }
    }
}

impl Sum for SizeBounds {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::exact(0), Self::add)
    }
}
