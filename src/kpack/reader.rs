//! Reading archives from any content: a file, a member of a wheel, a view.

use std::io;
use std::sync::Arc;

use rocm_kpack::{Archive, Blob, Error, Scheme, Source, Toc, TocEntry};

use super::pieces::{ArchivePart, Pieces};
use crate::memory::Budget;
use crate::rope::Content;

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
    toc: Toc,
}

impl ArchiveReader {
    /// Reads the header and the table of contents, and locates all code objects.
    pub fn open(content: Arc<dyn Content>) -> Result<Self, Error> {
        let archive = Archive::open(ArchiveContent(Arc::clone(&content)))?;
        archive.index()?;
        let toc = archive.toc()?;
        Ok(Self { content, archive, toc })
    }

    /// The table of contents.
    pub fn toc(&self) -> &Toc {
        &self.toc
    }

    /// The entries by name, target, and description.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str, &TocEntry)> {
        self.toc.toc.iter().flat_map(|(key, targets)| {
            targets.iter().map(move |(target, entry)| (key.as_str(), target.as_str(), entry))
        })
    }

    /// Bytes of an entry in the archive.
    pub fn stored_size(&self, entry: &TocEntry) -> Option<u64> {
        self.archive.stored(entry).ok().map(|blob| blob.size)
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

    /// Passes the code object of an entry to `sink` in pieces: it may be larger than the memory. An error of `sink`
    /// becomes [`Error::Read`].
    pub fn read(
        &self,
        entry: &TocEntry,
        budget: &Arc<Budget>,
        sink: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), Error> {
        let place = (&self.content, self.archive.stored(entry)?);
        read_entry(place, self.archive.scheme(), entry, budget, sink)
    }
}

/// Passes the code object that is stored in a part of an archive to `sink` in pieces.
pub(crate) fn read_entry(
    (content, blob): (&Arc<dyn Content>, Blob),
    scheme: Scheme,
    entry: &TocEntry,
    budget: &Arc<Budget>,
    sink: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), Error> {
    let mut pieces = Pieces::new(entry.original_size, sink)?;
    match scheme {
        Scheme::None if blob.size != entry.original_size => {
            let (found, size) = (blob.size, entry.original_size);
            return Err(Error::Frame(format!("a code object has {found} bytes instead of {size}")));
        }
        Scheme::None => pieces.copy(ArchivePart::new(content, blob))?,
        Scheme::ZstdPerKernel => pieces.decompress(content, blob, budget)?,
    }
    pieces.finish()
}
