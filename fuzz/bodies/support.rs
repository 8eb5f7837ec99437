//! Helpers of several bodies.

#![allow(dead_code, reason = "each fuzz target takes what it needs")]

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::{Decompress, FlushDecompress, Status};
use kpackfs::resources::Resources;
use kpackfs::rope::{Content, Packed, PackedContent, ReadError, copy_from};
use kpackfs::source::{Entry, EntryKind, Input};
use tempfile::TempDir;

/// The longest content that is read completely.
pub(crate) const MOST: u64 = 4 << 20;

/// Small caches and buffers, so that entries are evicted.
pub(crate) fn resources() -> Arc<Resources> {
    Resources::new(16 << 20)
}

/// A directory in memory, if the machine has one.
pub(crate) fn directory() -> TempDir {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(place).expect("a directory")
}

/// A directory with a wheel of these bytes.
pub(crate) fn wheel(directory: &TempDir, bytes: &[u8]) -> PathBuf {
    let path = directory.path().join("x-1-py3-none-any.whl");
    fs::write(&path, bytes).expect("a file can be written");
    path
}

/// All bytes of a content.
pub(crate) fn read(content: &dyn Content) -> Result<Vec<u8>, ReadError> {
    content.to_vec()
}

/// The content of an entry that is a file.
pub(crate) fn content(entry: &Entry) -> Option<&dyn Content> {
    match &entry.kind {
        EntryKind::File { content, .. } => Some(&**content),
        EntryKind::Directory | EntryKind::Symlink(_) => None,
    }
}

/// Checks that an entry of a listing can be in a tree, below a directory of the listing.
pub(crate) fn stays_in_the_tree(input: &Input, entry: &Entry) {
    let path = entry.path.as_bytes();
    assert!(!path.is_empty() && path.len() < 4096 && !path.contains(&0));
    for component in path.split(|&byte| byte == b'/') {
        assert!(!matches!(component, b"" | b"." | b"..") && component.len() <= 255, "{}", entry.path);
    }
    if let Some(parent) = entry.path.parent().filter(|parent| !parent.is_root()) {
        let parent = input.entry(&parent).expect("a directory that holds it");
        assert!(matches!(parent.kind, EntryKind::Directory), "{}", entry.path);
    }
    if let EntryKind::Symlink(target) = &entry.kind {
        assert!(!target.is_empty() && !target.contains(&0));
    }
    assert!(entry.attributes.mode <= 0o7777 && entry.attributes.mtime_nanoseconds < 1_000_000_000);
}

/// Reads pieces of a content at several places. Each piece that can be read must agree with `truth`. Returns whether
/// all could be read.
pub(crate) fn same_in_pieces(content: &dyn Content, truth: &[u8], random: &mut Random) -> bool {
    let size = content.size();
    let mut all = true;
    for _ in 0..8 {
        let start = random.below(size + 1);
        let length = random.below((size - start).min(200_000) + 1);
        if length == 0 {
            continue;
        }
        let mut piece = vec![0xA5; usize::try_from(length).expect("at most 200 KB")];
        if content.read_at(start, &mut piece).is_err() {
            all = false;
            continue;
        }
        let start = usize::try_from(start).expect("a size that was looked at");
        assert!(truth.get(start..start + piece.len()) == Some(&piece), "{length} bytes at {start} of {size}");
    }
    all
}

/// What a stream inflates to, and whether it ends. If the stream breaks off or is longer than `most`, the bytes before
/// that; in the latter case a little more than `most`.
pub(crate) fn inflate(stream: &[u8], most: u64) -> (Vec<u8>, bool) {
    let mut decoder = Decompress::new(false);
    let mut inflated = Vec::with_capacity(64 << 10);
    loop {
        inflated.reserve(64 << 10);
        let taken = usize::try_from(decoder.total_in()).expect("in memory");
        let before = (decoder.total_in(), decoder.total_out());
        match decoder.decompress_vec(&stream[taken..], &mut inflated, FlushDecompress::None) {
            Ok(Status::StreamEnd) => return (inflated, true),
            Ok(_) if (decoder.total_in(), decoder.total_out()) != before => {}
            Ok(_) | Err(_) => return (inflated, false),
        }
        if inflated.len() as u64 > most {
            return (inflated, false);
        }
    }
}

/// Numbers that depend on the input, so that a finding is reproducible.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let hash = bytes
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        Self(hash | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`, which is not 0; often the first or the last one.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        match self.next() % 8 {
            0 => 0,
            1 => end - 1,
            2 => self.next() % end.min(64),
            _ => self.next() % end,
        }
    }
}

/// Bytes in memory, with the number of reads and of bytes that were read so far.
pub(crate) struct Watched {
    bytes: Arc<[u8]>,
    pub(crate) reads: AtomicU64,
    read: AtomicU64,
    deflated: bool,
}

impl Watched {
    pub(crate) fn new(bytes: &[u8]) -> Arc<Self> {
        Arc::new(Self { bytes: bytes.into(), reads: AtomicU64::new(0), read: AtomicU64::new(0), deflated: false })
    }

    /// The same bytes, as if they were compressed in a zip file.
    pub(crate) fn deflated(bytes: &[u8]) -> Arc<Self> {
        Arc::new(Self { bytes: bytes.into(), reads: AtomicU64::new(0), read: AtomicU64::new(0), deflated: true })
    }

    /// Fails if the work so far is out of proportion to the size of the input.
    pub(crate) fn check(&self, what: &str) {
        let size = self.bytes.len() as u64;
        let (reads, read) = (self.reads.load(Ordering::Relaxed), self.read.load(Ordering::Relaxed));
        assert!(read <= 64 * size + (1 << 20), "{what}: {read} bytes were read of {size}");
        assert!(reads <= size + 4096, "{what}: {reads} reads of {size} bytes");
    }
}

impl Content for Watched {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        copy_from(&self.bytes, offset, buffer)
    }

    fn member(&self) -> Option<&dyn PackedContent> {
        self.deflated.then_some(self)
    }
}

impl PackedContent for Watched {
    fn packed(&self) -> Packed {
        Packed { bytes: Self::new(&[]), deflated: true, crc32: 0 }
    }
}

impl fmt::Debug for Watched {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Watched({} bytes)", self.bytes.len())
    }
}
