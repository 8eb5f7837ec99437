//! For which trees passthrough is worth a request at each open.

use clap::ValueEnum;

/// From this size on, in bytes, a file counts as large.
const LARGE: u64 = 4 << 20;

/// When the kernel reads files by itself. The help of the command line has the first paragraphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PassthroughChoice {
    /// If at least half of the bytes are in unchanged files of a tree of 4 MiB or more
    ///
    /// These gain from it. What 50 KB of a large file gain when they are first read is lost at each open.
    Auto,
    /// Where the kernel can. It then asks kpackfs at each open and close of any file
    On,
    /// Never. The mount can then be a layer of an overlayfs that is a layer of another one, as in containers in
    /// containers
    Off,
}

/// Bytes of the files of a tree.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ByteShare {
    small: u64,
    /// Those of large files that the kernel could read by itself. Others neither gain nor are opened often.
    large: u64,
}

impl ByteShare {
    /// Adds a file of this size.
    pub(super) fn add(&mut self, size: u64, is_backed: bool) {
        if size < LARGE {
            self.small = self.small.saturating_add(size);
        } else if is_backed {
            self.large = self.large.saturating_add(size);
        }
    }
}

impl PassthroughChoice {
    /// Whether a tree with these files is worth it.
    pub(super) fn is_worthwhile(self, share: ByteShare) -> bool {
        match self {
            Self::Auto => share.large > 0 && share.large >= share.small,
            Self::On => true,
            Self::Off => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_files_decide_if_they_have_half_of_the_bytes() {
        let auto = |files: &[(u64, bool)]| {
            let mut share = ByteShare::default();
            for &(size, is_backed) in files {
                share.add(size, is_backed);
            }
            PassthroughChoice::Auto.is_worthwhile(share)
        };
        assert!(!auto(&[]) && !auto(&[(0, true)]) && !auto(&[(LARGE - 1, true)]));
        assert!(auto(&[(LARGE, true)]) && !auto(&[(LARGE, false)]));
        assert!(auto(&[(LARGE, true), (LARGE / 2, true), (LARGE / 2, false)]));
        assert!(!auto(&[(LARGE, true), (LARGE / 2, true), (LARGE / 2 + 1, false)]));
        assert!(auto(&[(LARGE, true), (u64::MAX, false)]), "a library that is read by kpackfs either way");
        assert!(auto(&[(u64::MAX, true), (u64::MAX, true), (1, true)]));
        let nothing = ByteShare::default();
        assert!(PassthroughChoice::On.is_worthwhile(nothing) && !PassthroughChoice::Off.is_worthwhile(nothing));
    }
}
