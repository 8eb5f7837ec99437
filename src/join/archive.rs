//! An archive of the input, which is opened when a search path leads to it.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::fatbin::{StoredObject, is_absurd};
use crate::gpu::TargetId;
use crate::kpack::{ArchiveReader, Blob, KpackError};
use crate::loader::{DOT_KPACK, archive_root, named_target};
use crate::rope::{Content, reason_at};
use crate::source::{Attributes, EntryPath};

/// An archive.
pub(super) struct InputArchive {
    /// Its path in the input.
    pub(super) path: EntryPath,
    /// Its path in an installation.
    pub(super) installed: EntryPath,
    /// Who can read it.
    pub(super) attributes: Attributes,
    pub(super) content: Arc<dyn Content>,
    reader: OnceLock<Result<ArchiveReader, String>>,
    /// Binaries that stay split and may need it.
    pub(super) needed: Mutex<BTreeSet<EntryPath>>,
    /// The entries that wrappers ask for: name and target.
    pub(super) asked: Mutex<HashSet<(String, String)>>,
    /// What was read of it: entries with the same bytes share one code object.
    objects: Mutex<HashMap<(Blob, u64), StoredObject>>,
}

/// What the name of an archive says.
pub(super) struct ArchiveName {
    /// The directory of `.kpack` in an installation.
    pub(super) root: EntryPath,
    /// The name without its target and suffix.
    pub(super) stem: String,
    pub(super) target: TargetId,
}

impl InputArchive {
    pub(super) fn new(
        path: EntryPath,
        installed: EntryPath,
        attributes: Attributes,
        content: Arc<dyn Content>,
    ) -> Self {
        let (reader, needed, asked, objects) = (OnceLock::new(), Mutex::default(), Mutex::default(), Mutex::default());
        Self { path, installed, attributes, content, reader, needed, asked, objects }
    }

    /// A fat binary that has replaced a split one with code in this archive.
    pub(super) fn fat_binary(&self, is_fat: impl Fn(&EntryPath) -> bool) -> Option<EntryPath> {
        let root = self.name()?.root;
        let reader = ArchiveReader::list(Arc::clone(&self.content)).ok()?;
        let keys = reader.names();
        let names: BTreeSet<_> = keys.filter_map(|key| key.rsplit_once('#')).map(|(name, _)| name.as_bytes()).collect();
        let names = names.into_iter().filter_map(|name| EntryPath::new(name).ok());
        names.map(|name| root.child(name.as_bytes())).find(is_fat)
    }

    /// The parts of its name, if that is `.kpack/STEM_TARGET.kpack`.
    pub(super) fn name(&self) -> Option<ArchiveName> {
        let root = archive_root(&self.installed)?;
        let name = std::str::from_utf8(self.installed.name()).ok()?;
        let target = named_target(name)?;
        let stem =
            name.strip_suffix(DOT_KPACK)?.strip_suffix(target)?.strip_suffix('_').filter(|stem| !stem.is_empty())?;
        Some(ArchiveName { root, stem: stem.to_owned(), target: target.parse().ok()? })
    }

    /// The code object of an entry, which is at a place and has a size. `make` makes it if it is the first one there.
    pub(super) fn object(
        &self,
        place: (Blob, u64),
        make: impl FnOnce() -> Result<StoredObject, KpackError>,
    ) -> Result<StoredObject, KpackError> {
        if let Some(known) = self.objects.lock().get(&place) {
            return Ok(known.clone());
        }
        let object = make()?;
        // Another thread may have been faster.
        Ok(self.objects.lock().entry(place).or_insert(object).clone())
    }

    /// The archive, or why it cannot be read. `None` if it was not opened.
    pub(super) fn opened(&self) -> Option<&Result<ArchiveReader, String>> {
        self.reader.get()
    }

    /// The opened archive.
    pub(super) fn reader(&self) -> Result<&ArchiveReader, String> {
        let named = |error| reason_at(&self.path.to_string(), error);
        let open = || ArchiveReader::open(Arc::clone(&self.content)).map_err(named);
        self.reader.get_or_init(open).as_ref().map_err(|error| format!("{}: {error}", self.path))
    }
}

/// The claims of all entries of an archive. Entries can share a frame, and each of them claims its size.
#[derive(Default)]
pub(super) struct ClaimedSizes {
    entries: u64,
    /// Bytes of the frames, each counted once.
    length: u64,
    /// Bytes that the entries claim to become.
    size: u64,
    /// The first entry whose own claim is absurd: its name, its frame's length, and the size that it claims.
    worst: Option<(String, u64, u64)>,
    /// Number of entries whose own claim is absurd.
    absurd: u64,
}

impl ClaimedSizes {
    pub(super) fn of(reader: &ArchiveReader) -> Self {
        let mut claims = Self::default();
        let mut seen = HashSet::new();
        for (key, target, entry) in reader.entries() {
            let Ok((blob, true)) = reader.stored(entry) else { continue };
            claims.entries += 1;
            claims.size = claims.size.saturating_add(entry.original_size);
            if seen.insert((blob.offset, blob.size)) {
                claims.length = claims.length.saturating_add(blob.size);
            }
            if is_absurd(blob.size, entry.original_size) {
                claims.absurd += 1;
                claims.worst.get_or_insert_with(|| (format!("{key} for {target}"), blob.size, entry.original_size));
            }
        }
        claims
    }

    /// A warning if code does not compress like that. It may be meant to exhaust memory or disk.
    pub(super) fn warning(&self) -> Option<String> {
        let said = |what: &str, length: u64, size: u64| {
            let times = size / length.max(1);
            format!(
                "{what} to become {size} bytes out of {length}, {times} times as much: code does not compress like that"
            )
        };
        if is_absurd(self.length, self.size) {
            return Some(said(&format!("its {} code objects claim", self.entries), self.length, self.size));
        }
        let (name, length, size) = self.worst.as_ref()?;
        let others = match self.absurd {
            1 => String::new(),
            count => format!("; so do {} others", count - 1),
        };
        Some(format!("{}{others}", said(&format!("{name} claims"), *length, *size)))
    }
}
