//! Reads archives, which may come from untrusted sources.

mod directory;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::{Mutex, OnceLock, PoisonError};

use directory::{ArchiveDirectory, entry, walk};

use crate::error::{Error, malformed};
use crate::format::{HEADER_FIELDS, Scheme, read_header};
use crate::msgpack::Cursor;
use crate::object::Object;
use crate::source::{self, Source};
use crate::stored;
use crate::toc::{Blob, Toc, TocEntry};
use crate::uninit;

/// The largest table of contents that is read, in bytes. A table of 20,000 code objects takes 3 MB.
const MAX_TOC: u64 = 64 << 20;

/// Bytes of the first read of the table of contents, and how many times more are read if it is longer.
const FIRST_READ: usize = 1 << 20;
const GROWTH: usize = 8;

/// An open archive. All methods can be called from many threads at once. Only the first use of the index of code
/// objects takes a lock.
pub struct Archive<S> {
    source: S,
    toc: TocBytes,
    /// Where the table of contents begins.
    toc_offset: u64,
    directory: ArchiveDirectory,
    /// Where code objects are, by ordinal. Computed when the first one is read.
    stored: OnceLock<Vec<Blob>>,
    indexing: Mutex<()>,
}

/// The bytes of the table of contents: a copy, or a borrow if the source is in memory.
enum TocBytes {
    Owned(Vec<u8>),
    Borrowed(usize),
}

impl<S: Source> Archive<S> {
    /// Reads the header, and as much of the table of contents as lookups need.
    pub fn open(source: S) -> Result<Self, Error> {
        let size = source.size();
        if size == 0 {
            return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "it is too short: it is empty").into());
        }
        if size < HEADER_FIELDS as u64 {
            return Err(malformed("it is too short"));
        }
        let mut header = [0; HEADER_FIELDS];
        source.read_at(0, &mut header)?;
        let offset = read_header(header, size)?;
        // The header does not give its length, and code objects may follow it.
        let available = usize::try_from((size - offset).min(MAX_TOC)).map_err(|_| malformed("it is too large"))?;
        // Bytes in memory are not copied.
        let is_borrowed = source.borrow(offset, available).is_some();
        let mut length = if is_borrowed { available } else { available.min(FIRST_READ) };
        let (bytes, directory) = loop {
            let bytes = source::bytes(&source, offset, length)?;
            match ArchiveDirectory::read(&bytes) {
                Ok(directory) => break (bytes, directory),
                Err(error) if length == available || !Cursor::new(&bytes).is_map() => return Err(error),
                Err(_) => length = length.saturating_mul(GROWTH).min(available),
            }
        };
        let toc = match bytes {
            Cow::Owned(mut bytes) => {
                bytes.truncate(directory.length);
                bytes.shrink_to_fit();
                TocBytes::Owned(bytes)
            }
            Cow::Borrowed(_) => TocBytes::Borrowed(directory.length),
        };
        Ok(Self { source, toc, toc_offset: offset, directory, stored: OnceLock::new(), indexing: Mutex::new(()) })
    }

    /// The targets that a loader finds in this archive.
    pub fn targets(&self) -> &[String] {
        &self.directory.targets
    }

    /// Whether the archive lists exactly this target.
    pub fn offers(&self, target: &str) -> bool {
        self.targets().iter().any(|offered| offered == target)
    }

    /// How code objects are stored.
    pub fn scheme(&self) -> Scheme {
        self.directory.scheme
    }

    /// Bytes of the table of contents.
    pub fn toc_size(&self) -> usize {
        self.directory.length
    }

    /// The number of names.
    pub fn name_count(&self) -> usize {
        self.directory.name_count()
    }

    /// The names of binaries with their wrapper indices, sorted.
    pub fn names(&self) -> Result<impl Iterator<Item = &str>, Error> {
        Ok(self.directory.names(self.toc_bytes()?))
    }

    /// Where the code object under this name for exactly this target is; `None` if there is none.
    pub fn find(&self, name: &str, target: &str) -> Result<Option<TocEntry>, Error> {
        let Some(mut cursor) = self.directory.find(self.toc_bytes()?, name) else { return Ok(None) };
        let mut found = None;
        for _ in 0..cursor.map()? {
            if cursor.text()? == target {
                found = Some(entry(&mut cursor)?);
            } else {
                cursor.skip()?;
            }
        }
        Ok(found)
    }

    /// The code object under this name for exactly this target; `None` if there is none.
    pub fn get(&self, name: &str, target: &str) -> Result<Option<Vec<u8>>, Error> {
        self.find(name, target)?.map(|entry| self.read(&entry)).transpose()
    }

    /// The code object of an entry of this archive.
    pub fn read(&self, entry: &TocEntry) -> Result<Vec<u8>, Error> {
        let object = self.object(entry)?;
        uninit::vec(object.size(), |code| object.write_to(code))
    }

    pub(crate) fn object(&self, entry: &TocEntry) -> Result<Object<'_, S>, Error> {
        self.source.check()?;
        let blob = self.stored(entry)?;
        Object::new(&self.source, self.directory.scheme, blob, entry.original_size)
    }

    /// Where the stored bytes of a code object are.
    pub fn stored(&self, entry: &TocEntry) -> Result<Blob, Error> {
        let index = self.index()?;
        let blob = usize::try_from(entry.ordinal).ok().and_then(|ordinal| index.get(ordinal));
        blob.copied().ok_or_else(|| malformed(format!("there is no ordinal {}", entry.ordinal)))
    }

    /// Where all stored code objects are, by ordinal. Computed once, while other callers wait. A failure is not kept.
    pub fn index(&self) -> Result<&[Blob], Error> {
        if let Some(stored) = self.stored.get() {
            return Ok(stored);
        }
        let _indexing = self.indexing.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stored) = self.stored.get() {
            return Ok(stored);
        }
        let toc = self.toc_bytes()?;
        let blobs = self.directory.blobs.and_then(|at| toc.get(at..)).map(Cursor::new);
        let toc = self.toc_range();
        let stored = stored::index(&self.source, self.directory.scheme, blobs, self.directory.frames, &toc)?;
        Ok(self.stored.get_or_init(|| stored))
    }

    /// The name with this number, in the order of [`Archive::names`].
    pub fn name(&self, number: usize) -> Option<&str> {
        self.directory.name(self.toc_bytes().ok()?, number)
    }

    /// Calls `each` for every code object: the number of its name, its target, and where it is; sorted by both.
    pub fn each_entry(&self, mut each: impl FnMut(usize, &str, TocEntry)) -> Result<(), Error> {
        let bytes = self.toc_bytes()?;
        for (number, name) in self.directory.names(bytes).enumerate() {
            let Some(mut cursor) = self.directory.find(bytes, name) else { continue };
            let mut entries = BTreeMap::new();
            for _ in 0..cursor.map()? {
                entries.insert(cursor.text()?, entry(&mut cursor)?);
            }
            for (target, entry) in entries {
                each(number, target, entry);
            }
        }
        Ok(())
    }

    /// The whole table of contents.
    pub fn toc(&self) -> Result<Toc, Error> {
        let mut toc = self.head()?;
        if self.directory.scheme == Scheme::None {
            toc.blobs = Some(self.index()?.to_vec());
        }
        // A name without code objects is one of the table, too.
        toc.toc = self.names()?.map(|name| (name.to_owned(), BTreeMap::new())).collect();
        let mut maps: Vec<_> = toc.toc.values_mut().collect();
        self.each_entry(|number, target, entry| {
            if let Some(map) = maps.get_mut(number) {
                map.insert(target.to_owned(), entry);
            }
        })?;
        Ok(toc)
    }

    /// The table of contents without code objects and blobs.
    pub fn head(&self) -> Result<Toc, Error> {
        let mut toc = Toc {
            format_version: crate::VERSION,
            group_name: String::new(),
            gfx_arch_family: String::new(),
            gfx_arches: self.directory.targets.clone(),
            compression_scheme: self.directory.scheme.name().to_owned(),
            zstd_offset: self.directory.frames.map(|region| region.offset),
            zstd_size: self.directory.frames.map(|region| region.size),
            blobs: None,
            toc: BTreeMap::new(),
        };
        let bytes = self.toc_bytes()?;
        walk(bytes, |name, cursor| {
            match name {
                "group_name" => cursor.text()?.clone_into(&mut toc.group_name),
                "gfx_arch_family" => cursor.text()?.clone_into(&mut toc.gfx_arch_family),
                _ => cursor.skip()?,
            }
            Ok(())
        })?;
        Ok(toc)
    }

    /// Where the table of contents is.
    pub fn toc_range(&self) -> Range<u64> {
        self.toc_offset..self.toc_offset.saturating_add(self.directory.length as u64)
    }

    fn toc_bytes(&self) -> Result<&[u8], Error> {
        match &self.toc {
            TocBytes::Owned(bytes) => Ok(bytes),
            TocBytes::Borrowed(length) => {
                self.source.check()?;
                self.source
                    .borrow(self.toc_offset, *length)
                    .ok_or_else(|| malformed("its table of contents is not in the file"))
            }
        }
    }
}

impl<S> fmt::Debug for Archive<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Archive").field("directory", &self.directory).finish_non_exhaustive()
    }
}
