//! Reading archives from any content: a file, a member of a wheel, a view.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use rocm_kpack::{Archive, Blob, Error, HEADER_SIZE, MAGIC, Scheme, Source, Toc, TocEntry};

use super::pieces::{ArchivePart, Pieces};
use crate::fatbin::StoredObject;
use crate::memory::{Budget, Parser, ParserMemory};
use crate::resources::Resources;
use crate::rope::Content;

/// What is kept of a code object, in bytes, in addition to its bytes in the table of contents: its description, and its
/// target, which may be another one for each.
const ENTRY: usize = 240;

/// A content that is read as an archive.
#[derive(Debug)]
struct ArchiveContent(Arc<dyn Content>);

impl Source for ArchiveContent {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_at(offset, buffer).map_err(io::Error::other)
    }
}

/// An open archive: its table of contents, and the location of each code object.
#[derive(Debug)]
pub struct ArchiveReader {
    content: Arc<dyn Content>,
    archive: Archive<ArchiveContent>,
    head: Toc,
    /// Sorted by name and target.
    entries: Vec<PlacedEntry>,
    targets: Vec<Box<str>>,
    /// The memory of all of this.
    memory: ParserMemory,
}

/// A code object, with the numbers of its name and of its target.
#[derive(Debug)]
struct PlacedEntry {
    name: u32,
    target: u32,
    entry: TocEntry,
}

/// Fails if the table of contents may be longer than there is memory for. It is the end of an archive, and only reading
/// it shows how long it is.
fn check_tail(content: &dyn Content) -> Result<(), Error> {
    let mut head = [0; 16];
    if content.size() < HEADER_SIZE || content.read_at(0, &mut head).is_err() || !head.starts_with(MAGIC) {
        return Ok(());
    }
    let [.., o0, o1, o2, o3, o4, o5, o6, o7] = head;
    let tail = content.size().saturating_sub(u64::from_le_bytes([o0, o1, o2, o3, o4, o5, o6, o7]));
    Parser::Archive.check(tail.min(Parser::Archive.ceiling())).map_err(|error| Error::Read(error.into()))
}

impl ArchiveReader {
    /// Reads the header and the table of contents, and locates all code objects: compressed ones by the lengths in front of
    /// them.
    pub fn open(content: Arc<dyn Content>) -> Result<Self, Error> {
        let reader = Self::list(content)?;
        let index = reader.archive.index()?.len().saturating_mul(size_of::<Blob>());
        reader.memory.grow(index as u64).map_err(|error| Error::Read(error.into()))?;
        Ok(reader)
    }

    /// Reads the header and the table of contents, for names and targets.
    pub fn list(content: Arc<dyn Content>) -> Result<Self, Error> {
        check_tail(&*content)?;
        let archive = Archive::open(ArchiveContent(Arc::clone(&content)))?;
        let memory = ParserMemory::new(Parser::Archive);
        let count = |bytes: usize| memory.grow(bytes as u64).map_err(|error| Error::Read(error.into()));
        count(archive.toc_size().saturating_add(archive.name_count().saturating_mul(4)))?;
        let (mut entries, mut numbers, mut targets) = (Vec::new(), HashMap::<Box<str>, u32>::new(), Vec::new());
        let mut refused = None;
        archive.each_entry(|name, target, entry| {
            refused = refused.take().or_else(|| count(ENTRY + entry.kind.len()).err());
            let numbered = (&refused, u32::try_from(name), u32::try_from(targets.len()));
            let (None, Ok(name), Ok(next)) = numbered else { return };
            let target = numbers.get(target).copied().unwrap_or_else(|| {
                targets.push(Box::from(target));
                *numbers.entry(target.into()).or_insert(next)
            });
            entries.push(PlacedEntry { name, target, entry });
        })?;
        refused.map_or(Ok(()), Err)?;
        let head = archive.head()?;
        Ok(Self { content, archive, head, entries, targets, memory })
    }

    /// The table of contents without code objects and blobs.
    pub fn toc(&self) -> &Toc {
        &self.head
    }

    /// The whole table of contents, which takes many times its bytes.
    pub fn whole_toc(&self) -> Result<Toc, Error> {
        self.archive.toc()
    }

    /// The names in it, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.archive.names().into_iter().flatten()
    }

    /// The entries with this name: target and description.
    pub fn entries_of(&self, key: &str) -> impl Iterator<Item = (&str, &TocEntry)> {
        let name = |it: &PlacedEntry| self.archive.name(it.name as usize).unwrap_or_default();
        let start = self.entries.partition_point(|it| name(it) < key);
        let end = self.entries.partition_point(|it| name(it) <= key);
        let found = self.entries.get(start..end).unwrap_or_default();
        found.iter().filter_map(|it| Some((&**self.targets.get(it.target as usize)?, &it.entry)))
    }

    /// The entries by name, target, and description.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str, &TocEntry)> {
        self.entries.iter().filter_map(|it| {
            let (key, target) = (self.archive.name(it.name as usize)?, self.targets.get(it.target as usize)?);
            Some((key, &**target, &it.entry))
        })
    }

    /// Bytes of an entry in the archive.
    pub fn stored_size(&self, entry: &TocEntry) -> Option<u64> {
        self.archive.stored(entry).ok().map(|blob| blob.size)
    }

    /// The number of code objects that are stored in it, with or without an entry.
    pub fn stored_count(&self) -> usize {
        self.archive.index().map_or(0, <[Blob]>::len)
    }

    /// The end of the last code object or of the table of contents, whichever is behind the other.
    pub fn end(&self) -> Result<u64, Error> {
        let end = |blob: &Blob| blob.offset.saturating_add(blob.size);
        Ok(self.archive.index()?.iter().map(end).fold(self.archive.toc_range().end, u64::max))
    }

    /// The location of an entry's bytes in the archive, and whether they are a zstd frame.
    pub fn stored(&self, entry: &TocEntry) -> Result<(Blob, bool), Error> {
        Ok((self.archive.stored(entry)?, self.archive.scheme() == Scheme::ZstdPerKernel))
    }

    /// Whether a loader searches it for code for exactly this target.
    pub fn offers(&self, target: &str) -> bool {
        self.archive.offers(target)
    }

    /// The entry that a loader finds under this name for exactly this target.
    pub fn find(&self, key: &str, target: &str) -> Result<Option<TocEntry>, Error> {
        self.archive.find(key, target)
    }

    /// Whether a loader finds code under this name for exactly this target.
    pub fn holds(&self, key: &str, target: &str) -> bool {
        self.find(key, target).is_ok_and(|entry| entry.is_some())
    }

    /// The code object under this name for exactly this target; `None` if there is none.
    pub fn get(&self, key: &str, target: &str) -> Result<Option<Vec<u8>>, Error> {
        self.archive.get(key, target)
    }

    /// The code object of an entry. `label` is its name in messages.
    pub(crate) fn object(
        &self,
        entry: &TocEntry,
        label: &str,
        resources: &Arc<Resources>,
    ) -> Result<StoredObject, Error> {
        stored_object(&self.content, &self.archive, entry, label, resources)
    }

    /// Passes the code object of an entry to `sink` in pieces: it may be larger than the memory. An error of `sink`
    /// becomes [`Error::Read`].
    pub fn read(
        &self,
        entry: &TocEntry,
        budget: &Arc<Budget>,
        sink: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), Error> {
        read_entry(&self.content, &self.archive, entry, budget, sink)
    }
}

/// The code object of an entry of an archive with this content. `label` is its name in messages.
pub(crate) fn stored_object<S: Source>(
    content: &Arc<dyn Content>,
    archive: &Archive<S>,
    entry: &TocEntry,
    label: &str,
    resources: &Arc<Resources>,
) -> Result<StoredObject, Error> {
    let (blob, size) = (archive.stored(entry)?, entry.original_size);
    let object = match archive.scheme() {
        Scheme::None => StoredObject::plain(content, blob.offset, size),
        Scheme::ZstdPerKernel => StoredObject::frame(content, blob.offset, blob.size, size, label, resources),
    };
    object.map_err(|error| Error::Read(io::Error::other(error)))
}

/// Passes the code object of an entry of an archive with this content to `sink` in pieces.
pub(crate) fn read_entry<S: Source>(
    content: &Arc<dyn Content>,
    archive: &Archive<S>,
    entry: &TocEntry,
    budget: &Arc<Budget>,
    sink: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), Error> {
    let (blob, mut pieces) = (archive.stored(entry)?, Pieces::new(entry.original_size, sink)?);
    match archive.scheme() {
        Scheme::None if blob.size != entry.original_size => {
            let (found, size) = (blob.size, entry.original_size);
            return Err(Error::Frame(format!("a code object has {found} bytes instead of {size}")));
        }
        Scheme::None => pieces.copy(ArchivePart::new(content, blob))?,
        Scheme::ZstdPerKernel => pieces.decompress(content, blob, budget)?,
    }
    pieces.finish()
}
