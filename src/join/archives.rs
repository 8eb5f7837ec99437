//! The archives of an input, which are opened when a search path leads to them: which of them stay, and what their code
//! objects claim to decompress to, compared with the bytes they take.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::joined::OrphanCode;
use super::object::code;
use crate::fatbin::{StoredObject, is_absurd};
use crate::gpu::TargetId;
use crate::kpack::{ArchiveReader, Blob, KpackError, TocEntry};
use crate::loader::{DOT_KPACK, archive_root, is_archive, linked_archives, named_target};
use crate::resources::Resources;
use crate::rope::{Content, reason_at};
use crate::source::{EntryPath, Input};
use crate::text::some_of;

/// All archives.
pub(super) struct InputArchives {
    list: Vec<InputArchive>,
    /// Their numbers, by the path in an installation.
    numbers: HashMap<EntryPath, Vec<usize>>,
}

impl InputArchives {
    pub(super) fn of(input: &Input, installed: impl Fn(&EntryPath) -> EntryPath) -> Self {
        let linked = linked_archives(input);
        let archives = input.files().filter(|(path, content)| is_archive(path, content) || linked.contains(*path));
        let archive = |(path, content): (&EntryPath, &Arc<_>)| {
            InputArchive::new(path.clone(), installed(path), Arc::clone(content))
        };
        let list: Vec<_> = archives.map(archive).collect();
        let mut numbers = HashMap::<_, Vec<_>>::new();
        for (number, archive) in list.iter().enumerate() {
            numbers.entry(archive.installed.clone()).or_default().push(number);
        }
        Self { list, numbers }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn get(&self, number: usize) -> Option<&InputArchive> {
        self.list.get(number)
    }

    /// The numbers of the archives at a path in an installation. A wheel may have a file twice.
    pub(super) fn at(&self, installed: &EntryPath) -> &[usize] {
        self.numbers.get(installed).map_or(&[], Vec::as_slice)
    }

    /// Whether a file of the input is an archive.
    pub(super) fn has(&self, path: &EntryPath) -> bool {
        self.list.binary_search_by(|archive| archive.path.cmp(path)).is_ok()
    }

    /// The archives that a binary with unreadable markers may need: those in `.kpack` directories at or above it.
    pub(super) fn around(&self, binary: &EntryPath) -> BTreeSet<usize> {
        let is_around =
            |archive: &InputArchive| archive_root(&archive.installed).is_some_and(|root| binary.below(&root).is_some());
        self.list.iter().enumerate().filter(|(_, archive)| is_around(archive)).map(|(number, _)| number).collect()
    }

    /// Records that a binary which stays split needs archives.
    pub(super) fn need(&self, numbers: &BTreeSet<usize>, binary: &EntryPath) {
        for archive in numbers.iter().filter_map(|number| self.list.get(*number)) {
            archive.needed.lock().insert(binary.clone());
        }
    }

    /// Records the requests of wrappers.
    pub(super) fn note(&self, asked: &[(usize, String, String)]) {
        for (number, key, target) in asked {
            let Some(archive) = self.list.get(*number) else { continue };
            archive.asked.lock().insert((key.clone(), target.clone()));
        }
    }

    /// Those of some archives that no wrapper asks for code.
    pub(super) fn unasked(&self, numbers: &BTreeSet<usize>) -> BTreeSet<usize> {
        let is_unasked = |number: &usize| self.list.get(*number).is_some_and(|it| it.asked.lock().is_empty());
        numbers.iter().copied().filter(is_unasked).collect()
    }

    /// Decides which archives stay. `is_fat` says whether there is a fat binary at a path of the installation.
    pub(super) fn decide(&self, is_fat: impl Fn(&EntryPath) -> bool, resources: &Arc<Resources>) -> ArchiveDecision {
        let mut decision = ArchiveDecision::default();
        for archive in &self.list {
            // No split binary leads to an archive that was not opened.
            if archive.opened().is_none() {
                let Some(binary) = archive.fat_binary(&is_fat) else { continue };
                let path = &archive.path;
                decision.warnings.push(format!("{path}: not used, since {binary} contains its own code"));
                archive.reader().ok();
            }
            let reader = match archive.opened() {
                Some(Ok(reader)) => reader,
                Some(Err(reason)) => {
                    decision.left.push((archive.path.clone(), reason.clone()));
                    continue;
                }
                None => continue,
            };
            let claims = ClaimedSizes::of(reader).warning();
            decision.warnings.extend(claims.map(|claims| format!("{}: {claims}", archive.path)));
            if let Some(binary) = archive.needed.lock().first() {
                decision.left.push((archive.path.clone(), format!("it stays for {binary}")));
                continue;
            }
            let asked = archive.asked.lock();
            let others =
                reader.entries().filter(|(key, target, _)| !asked.contains(&((*key).into(), (*target).into())));
            let others: Vec<_> = others.collect();
            match orphans(archive, &others, resources) {
                Ok(orphans) => {
                    decision.used.insert(archive.path.clone());
                    decision.orphans.extend(orphans);
                }
                Err(reason) => decision.left.push((archive.path.clone(), reason)),
            }
        }
        decision
    }
}

/// The decision about the archives.
#[derive(Default)]
pub(super) struct ArchiveDecision {
    /// Archives that are no longer needed.
    pub(super) used: BTreeSet<EntryPath>,
    /// Code objects in them that no split binary asks for.
    pub(super) orphans: Vec<OrphanCode>,
    /// Archives that stay, and why.
    pub(super) left: Vec<(EntryPath, String)>,
    /// Warnings about archives.
    pub(super) warnings: Vec<String>,
}

/// Entries of an archive as code objects for a new archive of this name.
fn orphans(
    archive: &InputArchive,
    entries: &[(&str, &str, &TocEntry)],
    resources: &Arc<Resources>,
) -> Result<Vec<OrphanCode>, String> {
    if entries.is_empty() {
        return Ok(Vec::new());
    }
    let names = some_of(entries.iter().map(|(key, ..)| key).collect::<BTreeSet<_>>());
    let stays = |reason: &str| format!("it stays, since no split binary asks for {names} in it, and {reason}");
    let name = archive.name().ok_or_else(|| stays("it is not called NAME_TARGET.kpack"))?;
    let orphan = |&(key, target, entry): &(&str, &str, &TocEntry)| -> Result<OrphanCode, String> {
        if target != name.target.to_string() {
            return Err(stays("it is for several targets"));
        }
        let object = code(archive, key, target, entry, resources).map_err(|error| stays(&error))?.named();
        let (root, stem) = (name.root.clone(), name.stem.clone());
        Ok(OrphanCode { archive: archive.path.clone(), root, stem, key: key.to_owned(), object })
    };
    entries.iter().map(orphan).collect()
}

/// The claims of all entries of an archive. Entries can share a frame, and each of them claims its size.
#[derive(Default)]
struct ClaimedSizes {
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
    fn of(reader: &ArchiveReader) -> Self {
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
    fn warning(&self) -> Option<String> {
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

/// An archive.
pub(super) struct InputArchive {
    /// Its path in the input.
    pub(super) path: EntryPath,
    /// Its path in an installation.
    pub(super) installed: EntryPath,
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
    pub(super) fn new(path: EntryPath, installed: EntryPath, content: Arc<dyn Content>) -> Self {
        let (reader, needed, asked, objects) = (OnceLock::new(), Mutex::default(), Mutex::default(), Mutex::default());
        Self { path, installed, content, reader, needed, asked, objects }
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
