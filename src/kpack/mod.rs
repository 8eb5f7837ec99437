//! Writing `.kpack` archives, and reading them from any content.
//!
//! The crate `rocm_kpack` defines the format for the writer and for the runtime library.
//!
//! It does not know binaries and views: `split` decides which code objects an archive has.
//!
//! ```
//! use std::sync::Arc;
//!
//! use kpackfs::fatbin::CodeObject;
//! use kpackfs::gpu::TargetId;
//! use kpackfs::kpack::{ArchiveEntry, ArchiveReader, ArchiveRope, BundleJobs, Compression, DEFAULT_LEVEL, Frame, toc_key};
//! use kpackfs::resources::Resources;
//! use kpackfs::rope::{Materialize, Rope, Segment};
//!
//! let resources = Resources::new(64 << 20);
//! let target: TargetId = "gfx90a:xnack-".parse()?;
//! let code = Rope::new([Segment::literal(*b"a code object")])?;
//! let frame = Frame::new(CodeObject::new(target.clone(), Arc::new(code)), DEFAULT_LEVEL, &resources);
//! let entry = ArchiveEntry { binary: 0, kernel_name: "lib/libx.so".into(), wrapper: Some(0), frame: Arc::new(frame) };
//! let archive = ArchiveRope::new("x", target, Compression::default(), vec![entry], &BundleJobs::new(&resources));
//!
//! // Its code objects are compressed now, since the size of an archive is that of its frames.
//! let content = archive.make()?;
//! let reader = ArchiveReader::open(content)?;
//! let code = reader.get(&toc_key("lib/libx.so", 0), "gfx90a:xnack-")?;
//! assert_eq!(code.as_deref(), Some(&b"a code object"[..]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod content;
mod equal_bundles;
mod frame;
mod jobs;
mod layout;
mod packed_bundle;
mod pieces;
mod read_ahead;
mod reader;
mod schedule;
mod selection;
mod ticket;
mod together;

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use rocm_kpack::Scheme;

pub use frame::Frame;
pub use jobs::BundleJobs;
pub use layout::{ArchiveEntry, ArchiveRope};
pub(crate) use packed_bundle::PackedBundle;
pub use reader::ArchiveReader;
pub(crate) use reader::{read_entry, stored_object};
pub use rocm_kpack::{Blob, Error as KpackError, MAGIC, Toc, TocEntry, toc_key};
pub(crate) use together::read_together;

use crate::rope::ReadError;

/// The compression of code objects in an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Uncompressed.
    None,
    /// Each one as a zstd frame of this level, 1 to 22.
    Zstd(i32),
}

/// The default zstd level of rocm-kpack, and the best trade-off on real code objects.
pub const DEFAULT_LEVEL: i32 = 3;

/// The levels of zstd.
pub const LEVELS: RangeInclusive<i32> = 1..=22;

impl Default for Compression {
    fn default() -> Self {
        Self::Zstd(DEFAULT_LEVEL)
    }
}

impl Compression {
    /// The zstd level of frames; the default one if archives are not compressed.
    pub fn level(self) -> i32 {
        match self {
            Self::Zstd(level) => level,
            Self::None => DEFAULT_LEVEL,
        }
    }

    /// Its name in archives.
    fn scheme(self) -> Scheme {
        match self {
            Self::None => Scheme::None,
            Self::Zstd(_) => Scheme::ZstdPerKernel,
        }
    }
}

impl FromStr for Compression {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let level = |text: &str| text.parse().ok().filter(|level| LEVELS.contains(level));
        match (name, name.strip_prefix("zstd:")) {
            ("none", _) => Ok(Self::None),
            ("zstd" | "zstd-per-kernel", _) => Ok(Self::default()),
            (_, Some(text)) => {
                level(text).map(Self::Zstd).ok_or_else(|| format!("level {text:?}: it is a number from 1 to 22"))
            }
            (other, None) => Err(format!("unknown compression {other:?}; there are zstd, zstd:LEVEL and none")),
        }
    }
}

/// Makes the frames that several archives lack: those of unknown length, or, if all frames are kept for output, those
/// that are not stored. Each compressed bundle is decompressed once. Adds the uncompressed bytes to `done` as frames
/// are made.
pub(crate) fn make_archives(archives: &[&ArchiveRope], done: &AtomicU64) -> Result<(), ReadError> {
    let frames = unprepared(archives);
    let made = archives.first().map_or(Ok(None), |archive| {
        archive.jobs.demand(&frames).wait(|bytes| {
            done.fetch_add(bytes, Ordering::Relaxed);
        })
    });
    for archive in archives {
        archive.save_lengths();
    }
    made?;
    check_bundles(archives)
}

/// The same for one archive, of which a reader wants to know the size.
pub(crate) fn make_archive(archive: &ArchiveRope) -> Result<(), ReadError> {
    // One code object of each file that has some outside of compressed bundles.
    let outside: Vec<_> = archive.compressed().iter().filter(|entry| entry.frame.object.bundle.is_none()).collect();
    let inflated = || {
        let files = outside.chunk_by(|one, next| one.binary == next.binary).filter_map(<[_]>::first);
        files.map(|entry| entry.frame.object.content.inflated()).sum()
    };
    let made = archive.jobs.make_one(&unprepared(&[archive]), inflated);
    archive.save_lengths();
    made?;
    check_bundles(&[archive])
}

/// Fails if a bundle of the archives is damaged anywhere, if the command has to find that. Bundles that were decompressed
/// to their ends are not decompressed again.
fn check_bundles(archives: &[&ArchiveRope]) -> Result<(), ReadError> {
    if !archives.first().is_some_and(|archive| archive.jobs.resources().policy.check_bundles) {
        return Ok(());
    }
    let frames = archives.iter().flat_map(|archive| archive.entries()).map(|entry| &entry.frame);
    let mut seen = HashSet::new();
    let bundles = frames.filter_map(|frame| frame.object.bundle.as_ref()).filter(|bundle| seen.insert(bundle.id()));
    bundles.collect::<Vec<_>>().par_iter().try_for_each(|bundle| bundle.check_whole())
}

/// Uncompressed bytes of what [`make_archives`] has to compress.
pub(crate) fn unmade_size(archives: &[&ArchiveRope]) -> u64 {
    unprepared(archives).iter().map(|frame| frame.size()).sum()
}

/// Bytes of the compressed code objects of archives that were made and not kept, so that reading them makes them again.
pub(crate) fn dropped_size(archives: &[&ArchiveRope]) -> u64 {
    let mut seen = HashSet::new();
    let entries = archives.iter().flat_map(|archive| archive.compressed());
    let dropped = entries.filter(|entry| seen.insert(entry.frame.id()) && entry.frame.made().is_none());
    dropped.filter_map(|entry| entry.frame.known_length()).sum()
}

/// The frames that are not prepared, without duplicates, in the order of their code objects in the input: a compressed
/// file of the input is then inflated once, and not once for each archive.
fn unprepared(archives: &[&ArchiveRope]) -> Vec<Arc<Frame>> {
    let mut seen = HashSet::new();
    let entries = archives.iter().flat_map(|archive| archive.compressed());
    let mut missing: Vec<_> =
        entries.filter(|entry| !entry.frame.is_prepared() && seen.insert(entry.frame.id())).collect();
    missing.sort_by_key(|entry| (entry.binary, entry.wrapper, entry.frame.object.offset));
    missing.into_iter().map(|entry| Arc::clone(&entry.frame)).collect()
}

#[cfg(test)]
mod jobs_tests;
#[cfg(test)]
mod tests;
