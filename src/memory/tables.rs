//! Memory of parsers: what they keep of an input, and files that they read whole.
//!
//! Every parser of untrusted bytes allocates here, under its own name. Two bounds hold before anything is allocated: a
//! ceiling for one file, 16 times the largest real one, and half of `--memory` for what is kept of all files together.
//! A file larger than half of `--memory` is not read whole either. A table is needed until the end, so nothing can be
//! evicted: beyond that, the command ends and says how much memory it needs.
//!
//! Files of more than [`LARGE`] bytes are parsed one after another, however many threads there are.
//!
//! The account belongs to the process, as the memory does. Parsers therefore need no handle, and two inputs of one
//! command share it. docs/ARCHITECTURE.md, "Memory", says why it is no class of the budget.

use std::io;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{ReentrantMutex, ReentrantMutexGuard};

use crate::rope::{Content, ReadError, to_usize};

/// Files up to this size, in bytes, are read by any number of threads at a time.
const LARGE: u64 = 512 << 10;

/// How long a thread waits for others that read large files. Then it goes on: more memory is better than two threads
/// that wait for each other.
const TURN: Duration = Duration::from_secs(10);

/// What is kept of an entry of the input, in bytes, apart from its path: its places in the list, the plan and the views.
/// `tests/tables.rs` measures it.
pub(crate) const ENTRY: u64 = 400;

/// A parser of untrusted bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parser {
    /// Directories of the file system: names and attributes.
    Directories,
    /// The central directory of a zip file.
    CentralDirectory,
    /// Headers of a tar archive.
    Tar,
    /// Windows of zstd and xz around a tar archive.
    TarWindow,
    /// Program, section, symbol and relocation tables of ELF files.
    Elf,
    /// The same of PE files.
    Pe,
    /// Tables of offload bundles.
    Bundle,
    /// Tables of contents of `.kpack` archives.
    Archive,
    /// RECORD of a distribution.
    Record,
    /// The lines of RECORD that `verify` compares with files.
    RecordLines,
    /// METADATA of a distribution.
    Metadata,
    /// Other short texts: WHEEL, variant.json, lists of requirements, configurations.
    Text,
    /// `split.json`, `kpackfs.json`: the statement of a split.
    Statement,
    /// The manifest of a part of a split.
    Manifest,
    /// `artifact_manifest.txt`.
    ArtifactManifest,
    /// `.kpm`: the parts of a package.
    Kpm,
    /// Symbols of code objects.
    CodeObject,
    /// The index of an input.
    Index,
    /// Segments of the frame store.
    FrameSegment,
    /// Tensile's catalogue of a kernel database, as stored and inflated.
    Catalogue,
    /// Documents of container images: indexes, manifests, configurations.
    ImageDocument,
    /// What is kept of the documents of a layout while its images are found.
    ImageList,
    /// Headers of members in new layers of images.
    LayerHeaders,
    /// What loaders read of a program or a library: names of libraries and versions, search paths.
    Imports,
    /// The statement of a collection.
    Collection,
    /// Device code outside of wrappers: its tables, and the targets that are named in a file.
    DeviceCode,
}

/// Name and ceiling of each parser. The ceiling is the number of bytes that are read whole, or kept, of one file.
const PARSERS: [(Parser, &str, u64); 26] = [
    // 2^20 entries of 400 bytes, and 256 MiB of names and targets. The largest install trees have 100,000 files.
    (Parser::Directories, "the list of files", 656 << 20),
    (Parser::CentralDirectory, "the central directory", 656 << 20),
    (Parser::Tar, "the list of members", 656 << 20),
    // As for bundles: zstd --ultra -22 and xz -9e stay below.
    (Parser::TarWindow, "the window of its compression", 132 << 20),
    // The 65,536 wrappers that are accepted take 1.5 MB. Of 1,919 ELF files (Debian's ROCm libraries, /usr/lib
    // with debug files, rustc) none had more than 74 sections with 1,187 bytes of names, and 14 program headers.
    (Parser::Elf, "the headers of an ELF file", 16 << 20),
    (Parser::Pe, "the headers of a PE file", 16 << 20),
    // A library of torch has 1,000 bundles of 17 entries: 17,000 code objects of 450 bytes.
    (Parser::Bundle, "the tables of its bundles", 128 << 20),
    // 2^20 code objects of 240 bytes, and 80 MiB of the table. A table of 20,000 code objects takes 3 MB.
    (Parser::Archive, "the table of contents", 320 << 20),
    // TensorFlow's has 20,000 lines and 3 MB.
    (Parser::Record, "RECORD", 64 << 20),
    // 2^20 lines of 256 bytes, and 64 MiB of paths.
    (Parser::RecordLines, "the lines of RECORD", 320 << 20),
    // The longest METADATA on PyPI has a few MB, most of it a description.
    (Parser::Metadata, "METADATA", 16 << 20),
    (Parser::Text, "a text", 16 << 20),
    // One of a split of torch for 16 targets has 40 KB.
    (Parser::Statement, "the statement of a split", 1 << 20),
    // An entry has 110 bytes; a part of torch has at most 32,000 code objects.
    (Parser::Manifest, "the manifest of a part", 64 << 20),
    // TheRock's have at most a dozen lines.
    (Parser::ArtifactManifest, "the manifest", 64 << 10),
    // It has an entry of 80 bytes for each target, of which LLVM knows fewer than 128.
    (Parser::Kpm, "the list of parts", 256 << 10),
    // The first segment of a code object holds its symbols: a few MiB in the largest libraries.
    (Parser::CodeObject, "the symbols of a code object", 64 << 20),
    // The records of torch have 20 MB.
    (Parser::Index, "the index", 320 << 20),
    (Parser::FrameSegment, "a segment of frames", 64 << 20),
    // That of hipBLASLt for gfx942 has 0.4 MB.
    (Parser::Catalogue, "a catalogue", 8 << 20),
    // An image of 127 layers has a manifest of 30 KB, and a configuration of 60 KB. Parsed, they take 30 times as much.
    (Parser::ImageDocument, "a document of an image", 1 << 20),
    // An index of 127 images takes 40 KB, and 30 times as much while those are looked up.
    (Parser::ImageList, "the list of images", 128 << 20),
    // A header has 1 KB, and up to 64 KiB for each extended attribute.
    (Parser::LayerHeaders, "the headers of a layer", 2 << 30),
    // Of 2,239 programs and libraries (Debian's /usr/lib, its ROCm 6.4, rustc, Python) none had more than 7 KB.
    (Parser::Imports, "the names of needed libraries", 112 << 10),
    // A file takes 500 bytes. ROCm with databases for all GPUs has less than 10,000.
    (Parser::Collection, "the statement of a collection", 64 << 20),
    // The HSA runtime has code for 42 targets in its data, of 410 bytes each.
    (Parser::DeviceCode, "the targets of its device code", 272 << 10),
];

impl Parser {
    /// All parsers.
    pub fn all() -> impl Iterator<Item = Self> {
        PARSERS.iter().map(|(parser, ..)| *parser)
    }

    fn row(self) -> &'static (Self, &'static str, u64) {
        let [first, ..] = &PARSERS;
        PARSERS.iter().find(|(parser, ..)| *parser == self).unwrap_or(first)
    }

    /// What it reads, in messages.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The most bytes that it reads whole, or keeps, of one file.
    pub fn ceiling(self) -> u64 {
        self.row().2
    }

    /// Fails if it may not read a file of this length whole.
    pub(crate) fn check(self, length: u64) -> Result<(), TableError> {
        if length > self.ceiling() {
            return Err(TableError::Ceiling { parser: self, bytes: length });
        }
        ACCOUNT.check(self, length)
    }
}

/// Memory that a parser is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// One file exceeds the ceiling.
    #[error("it takes {bytes} bytes; the limit is {}", parser.ceiling())]
    Ceiling {
        /// The parser that asked.
        parser: Parser,
        /// Bytes of this file.
        bytes: u64,
    },
    /// The tables of the input do not fit into half of `--memory`.
    #[error("the tables of the input take more than half of the memory: it needs --memory {memory} or more")]
    Memory {
        /// The parser that asked.
        parser: Parser,
        /// MiB that would do for what was read so far, rounded up.
        memory: u64,
    },
}

impl From<TableError> for io::Error {
    fn from(error: TableError) -> Self {
        let kind = match error {
            TableError::Ceiling { .. } => io::ErrorKind::FileTooLarge,
            TableError::Memory { .. } => io::ErrorKind::OutOfMemory,
        };
        Self::new(kind, error)
    }
}

impl From<TableError> for ReadError {
    fn from(error: TableError) -> Self {
        let (TableError::Ceiling { parser, .. } | TableError::Memory { parser, .. }) = error;
        Self::io(&parser.name().into(), error.into())
    }
}

/// The account of a process.
struct TableAccount {
    kept: AtomicU64,
    /// Bytes that may be kept, and that may be read whole.
    limit: AtomicU64,
    /// MiB of `--memory` that would have been enough; 0 if nothing was refused.
    needed: AtomicU64,
    /// Held while a large file is read and parsed.
    turn: ReentrantMutex<()>,
}

static ACCOUNT: TableAccount = TableAccount {
    kept: AtomicU64::new(0),
    limit: AtomicU64::new(u64::MAX),
    needed: AtomicU64::new(0),
    turn: ReentrantMutex::new(()),
};

impl TableAccount {
    /// Fails, and remembers it, if these bytes are more than half of `--memory`.
    fn check(&self, parser: Parser, bytes: u64) -> Result<(), TableError> {
        if bytes <= self.limit.load(Ordering::Relaxed) {
            return Ok(());
        }
        // What follows was not read yet.
        let memory = bytes.saturating_mul(2).div_ceil(1 << 20).next_power_of_two();
        self.needed.fetch_max(memory, Ordering::Relaxed);
        Err(TableError::Memory { parser, memory })
    }
}

/// Tables may take half of `memory` bytes. Without this call, as in a library, they are not limited.
pub(crate) fn limit_tables(memory: u64) {
    ACCOUNT.limit.store(memory / 2, Ordering::Relaxed);
}

/// The most bytes of a file that a parser keeps if it can do without the rest.
pub(crate) fn most_kept(parser: Parser) -> u64 {
    parser.ceiling().min(ACCOUNT.limit.load(Ordering::Relaxed) / 2)
}

/// Bytes that are kept now.
pub(crate) fn kept_in_tables() -> u64 {
    ACCOUNT.kept.load(Ordering::Relaxed)
}

/// Fails if a parser was refused memory since the last call. What was read since then is incomplete.
pub(crate) fn check_tables() -> Result<(), MemoryNeeded> {
    match ACCOUNT.needed.swap(0, Ordering::Relaxed) {
        0 => Ok(()),
        memory => Err(MemoryNeeded(memory)),
    }
}

/// The tables of the input do not fit into half of `--memory`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tables of the input take more than half of the memory: it needs --memory {0} or more")]
pub(crate) struct MemoryNeeded(u64);

/// What a parser keeps of one file. It is released on drop.
#[derive(Debug)]
pub struct ParserMemory {
    parser: Parser,
    bytes: AtomicU64,
}

impl ParserMemory {
    /// Nothing is kept yet.
    pub fn new(parser: Parser) -> Self {
        Self { parser, bytes: AtomicU64::new(0) }
    }

    /// Counts memory that is about to be allocated.
    pub(crate) fn grow(&self, bytes: u64) -> Result<(), TableError> {
        let parser = self.parser;
        let own = self.bytes().saturating_add(bytes);
        if own > parser.ceiling() {
            return Err(TableError::Ceiling { parser, bytes: own });
        }
        let before = ACCOUNT.kept.fetch_add(bytes, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        ACCOUNT.check(parser, before.saturating_add(bytes))
    }

    /// Counts an entry of the input with this path.
    pub(crate) fn add_entry(&self, path: &[u8]) -> Result<(), TableError> {
        self.grow(ENTRY.saturating_add(path.len() as u64))
    }

    /// Bytes that are kept.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

impl Drop for ParserMemory {
    fn drop(&mut self) {
        ACCOUNT.kept.fetch_sub(self.bytes(), Ordering::Relaxed);
    }
}

/// Bytes of a file that is read whole, while they are parsed.
#[derive(Debug)]
pub(crate) struct WholeFile {
    bytes: Vec<u8>,
    _turn: Option<ReentrantMutexGuard<'static, ()>>,
}

impl WholeFile {
    /// `length` bytes that `read` fills, which may find that there are fewer.
    pub(crate) fn new<E: From<TableError>>(
        parser: Parser,
        length: u64,
        read: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Self, E> {
        parser.check(length)?;
        let turn = if length > LARGE { ACCOUNT.turn.try_lock_for(TURN) } else { None };
        let mut bytes = vec![0; to_usize(length)];
        read(&mut bytes)?;
        Ok(Self { bytes, _turn: turn })
    }

    /// `length` bytes of a content from `offset` on. They are read once, so nothing of them is cached.
    pub(crate) fn part(parser: Parser, content: &dyn Content, offset: u64, length: u64) -> Result<Self, ReadError> {
        Self::new(parser, length, |bytes| content.read_at(offset, bytes))
    }

    /// All of a content.
    pub(crate) fn of(parser: Parser, content: &dyn Content) -> Result<Self, ReadError> {
        Self::new(parser, content.size(), |bytes| content.peek(bytes))
    }
}

impl WholeFile {
    /// The bytes, for a caller that keeps them, and counts them.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

impl Deref for WholeFile {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_parsers_is_in_the_order_of_the_enumeration() {
        for (number, parser) in Parser::all().enumerate() {
            assert_eq!(parser as usize, number, "{parser:?}");
            assert_eq!(parser.row().0, parser);
        }
    }

    #[test]
    fn a_ceiling_bounds_one_file_before_it_is_allocated() {
        let table = ParserMemory::new(Parser::ArtifactManifest);
        let most = Parser::ArtifactManifest.ceiling();
        table.grow(most).unwrap();
        let refused = TableError::Ceiling { parser: Parser::ArtifactManifest, bytes: most + 1 };
        assert_eq!((table.grow(1), table.bytes()), (Err(refused), most));
        assert!(WholeFile::new(Parser::Archive, u64::MAX, |_| Ok::<_, io::Error>(())).is_err());
    }
}
