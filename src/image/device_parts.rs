//! What an image has of device parts: archives, and distributions of archives and databases only, by their RECORDs.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::ImageError;
use crate::database::Databases;
use crate::gpu::{BundleKey, SPIRV, TargetId};
use crate::kpack::{ArchiveReader, KpackError};
use crate::loader::{OwnRuntime, is_archive};
use crate::memory::{Parser, WholeFile};
use crate::rope::{Content, ReadError, Rope, Segment, Sha256, read_all};
use crate::source::{EntryPath, Input};
use crate::wheel::{Claim, Claims, LineEdit, edited_record};

/// The parts that need a file: an image for a GPU has it if it needs one of them.
pub(super) type PartKeys = Arc<BTreeSet<BundleKey>>;

/// What an image has of device parts, by path in the root file system.
#[derive(Debug, Default)]
pub(crate) struct DeviceParts {
    archives: HashMap<EntryPath, PartKeys>,
    /// Files of device distributions, and the directories of their metadata.
    distributions: HashMap<EntryPath, PartKeys>,
    /// Whether there is a HIP runtime that reads archives.
    reads_archives: bool,
    /// Archives that cannot be read. All images have them.
    pub(crate) warnings: Vec<String>,
}

impl DeviceParts {
    /// Those of a root file system before it is joined.
    pub(crate) fn find(root: &Input, databases: &Databases) -> Self {
        let mut parts = Self::default();
        for (path, content) in root.files().filter(|(path, content)| is_archive(path, content)) {
            match keys_of(content) {
                Ok(keys) => parts.archives.extend(keys.map(|keys| (path.clone(), Arc::new(keys)))),
                Err(error) => parts.warnings.push(format!("{path}: stays in all images: {error}")),
            }
        }
        if !parts.archives.is_empty() {
            parts.reads_archives = OwnRuntime::of(root).is_some_and(|runtime| runtime.reads_archives);
            root.entries.iter().for_each(|entry| parts.add_distribution(root, &entry.path, databases));
        }
        parts
    }

    /// Whether archives are of use in the image. Thin binaries are, whatever runtime is added to an image without one.
    pub(crate) fn may_stay(&self) -> bool {
        !self.archives.is_empty() && self.reads_archives
    }

    /// The parts that need an archive.
    pub(super) fn of_archive(&self, path: &EntryPath) -> Option<&PartKeys> {
        self.archives.get(path)
    }

    /// The parts that need a file of a device distribution, or a directory of its metadata.
    pub(super) fn of_distribution(&self, path: &EntryPath) -> Option<&PartKeys> {
        self.distributions.get(path)
    }

    /// Adds the distribution with this `*.dist-info` directory, if all that it installs are archives and databases.
    fn add_distribution(&mut self, root: &Input, directory: &EntryPath, databases: &Databases) {
        if !is_dist_info(directory.name()) {
            return;
        }
        let path = directory.child(b"RECORD");
        let Some(content) = root.content(&path) else { return };
        let Ok(record) = DistributionRecord::read(&path, &**content) else { return };
        let (mut files, mut keys) = (BTreeSet::from([directory.clone()]), BTreeSet::new());
        for path in record.paths() {
            let Some(path) = path else { return };
            if root.entry(&path).is_none() {
                continue;
            }
            if path.below(directory).is_some() {
                let above = std::iter::successors(path.parent(), EntryPath::parent);
                files.extend(above.take_while(|above| above != directory));
            } else {
                match (self.archives.get(&path), databases.classify(&path)) {
                    (Some(of_archive), _) => keys.extend(of_archive.iter().cloned()),
                    (None, Some(file)) => keys.extend([file.arch.key()]),
                    (None, None) => return,
                }
            }
            files.insert(path);
        }
        if !keys.is_empty() {
            let keys = Arc::new(keys);
            self.distributions.extend(files.into_iter().map(|path| (path, Arc::clone(&keys))));
        }
    }
}

/// The parts whose code objects are in an archive; `None` if any GPU may need it.
fn keys_of(archive: &Arc<dyn Content>) -> Result<Option<BTreeSet<BundleKey>>, KpackError> {
    let archive = ArchiveReader::open(Arc::clone(archive))?;
    let targets: BTreeSet<_> = archive.entries().map(|(_, target, _)| target).collect();
    let key = |target: &str| {
        let target: TargetId = target.parse().ok()?;
        (target.processor() != SPIRV && !target.is_unknown()).then(|| BundleKey::of(&target))
    };
    Ok(targets.into_iter().map(key).collect::<Option<BTreeSet<_>>>().filter(|keys| !keys.is_empty()))
}

/// Whether a directory has the metadata of a distribution.
pub(super) fn is_dist_info(name: &[u8]) -> bool {
    name.ends_with(b".dist-info")
}

/// RECORD of a distribution.
#[derive(Debug)]
pub(super) struct DistributionRecord {
    bytes: WholeFile,
    /// The directory of packages.
    site: EntryPath,
}

impl DistributionRecord {
    /// Whether the file at a path is one.
    pub(super) fn is_at(path: &EntryPath) -> bool {
        path.name() == b"RECORD" && path.parent().is_some_and(|directory| is_dist_info(directory.name()))
    }

    /// The file at a path.
    pub(super) fn read(path: &EntryPath, content: &dyn Content) -> Result<Self, ReadError> {
        let site = path.parent().and_then(|directory| directory.parent()).unwrap_or_else(EntryPath::root);
        Ok(Self { bytes: WholeFile::of(Parser::Record, content)?, site })
    }

    /// The paths in it; `None` for one that leads out of the directory of packages.
    pub(super) fn paths(&self) -> Vec<Option<EntryPath>> {
        Claims::parse(&self.bytes).rows().map(|(row, _)| self.path(row)).collect()
    }

    fn path(&self, row: &[u8]) -> Option<EntryPath> {
        EntryPath::new(row).ok().map(|row| self.site.child(row.as_bytes()))
    }

    /// It with changed lines. `edit` is asked for each path.
    pub(super) fn edited(
        &self,
        mut edit: impl FnMut(&EntryPath) -> Result<LineEdit, ImageError>,
    ) -> Result<Arc<dyn Content>, ImageError> {
        let of_row = |row: &[u8]| self.path(row).map_or(Ok(LineEdit::Keep), |path| edit(&path));
        let edited = edited_record(&self.bytes, of_row)?;
        Ok(Arc::new(Rope::new([Segment::literal(edited)])?))
    }
}

/// What a line states about a file with this content.
pub(super) fn claim_of(content: &dyn Content) -> Result<Claim, ReadError> {
    let mut sha256 = Sha256::default();
    read_all(content, |piece| sha256.update(piece))?;
    Ok(Claim { sha256: sha256.finish(), size: content.size() })
}
