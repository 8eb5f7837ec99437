//! The files of each wheel, without its dist-info.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use super::{Digest, SplitWheel, Unchanged, WheelEntry, Wheels};
use crate::binary::Rewritten;
use crate::gpu::BundleKey;
use crate::kpack::ArchiveRope;
use crate::rope::{Content, Materialize, ReadError, SizeBounds};
use crate::source::{Entry, EntryKind, EntryPath, Input};
use crate::split::{Destination, Plan, ThinBinary};
use crate::wheel::{Paths, WheelError};

/// A file of a wheel outside of dist-info.
#[derive(Clone, Debug)]
pub(crate) enum Payload {
    /// An unchanged file of the input.
    Unchanged(Unchanged),
    /// A binary that is made of one of the input.
    Binary(Box<MadeBinary>),
    /// A thin binary or bundle.
    Thin(EntryPath, bool, Arc<ThinBinary>),
    /// An archive, and its path in the input.
    Archive(EntryPath, u16, Arc<HashedArchive>),
}

/// A binary joined with its archives, or a rewritten one.
#[derive(Clone, Debug)]
pub(crate) struct MadeBinary {
    pub(super) file: WheelEntry,
    /// Its path in the input.
    pub(super) entry: EntryPath,
    /// `None` if it is joined.
    pub(super) rewritten: Option<Arc<Rewritten>>,
}

/// An archive with its digest.
#[derive(Debug)]
pub(crate) struct HashedArchive {
    pub(crate) archive: Arc<ArchiveRope>,
    digest: OnceLock<Arc<Digest>>,
}

impl HashedArchive {
    /// Its digest, which RECORD and the manifest state. Makes the archive.
    pub(crate) fn digest(&self, wheels: &Wheels) -> Result<Arc<Digest>, ReadError> {
        let content = self.archive.make()?;
        Ok(Arc::clone(self.digest.get_or_init(|| {
            let name = format!("archive for {}", self.archive.target());
            Arc::new(Digest::remembered(name, content, None, &wheels.fat.resources))
        })))
    }
}

/// Files that stay, and binaries without device code.
pub(crate) fn host_payload(input: &Input, plan: &Plan, wheels: &Wheels) -> Result<Vec<Payload>, WheelError> {
    let paths = wheels.paths(&SplitWheel::Host)?;
    let mut payload = Vec::with_capacity(input.entries.len());
    for (entry, place) in input.entries.iter().zip(&plan.places) {
        match (place, &entry.kind) {
            (Destination::Host, _) => payload.extend(unchanged(&paths, entry)),
            (Destination::Rewritten { content, link_group, .. }, _) => {
                if let Some(kept) = &content.kept {
                    let kind = EntryKind::File { content: Arc::clone(kept), link_group: *link_group };
                    payload.extend(unchanged(&paths, &Entry { kind, ..entry.clone() }));
                    continue;
                }
                let (mode, whole): (_, Arc<dyn Content>) = (entry.attributes.mode, content.clone());
                let file = wheels.made(&SplitWheel::Host, &entry.path, mode, whole)?;
                let (entry, rewritten) = (entry.path.clone(), Some(Arc::clone(content)));
                payload.extend(file.map(|file| Payload::Binary(Box::new(MadeBinary { file, entry, rewritten }))));
            }
            _ => {}
        }
    }
    payload.shrink_to_fit();
    Ok(payload)
}

/// The entries of the databases of each key.
pub(crate) fn database_entries<'a>(input: &'a Input, plan: &'a Plan) -> BTreeMap<&'a BundleKey, Vec<&'a Entry>> {
    let mut entries = BTreeMap::<_, Vec<_>>::new();
    for (entry, place) in input.entries.iter().zip(&plan.places) {
        if let Destination::Device(key, _) = place {
            entries.entry(key).or_default().push(entry);
        }
    }
    entries
}

/// The databases and archives of a key, and what its device wheel holds.
pub(crate) fn device_payload(
    databases: &[&Entry],
    plan: &Plan,
    wheels: &Wheels,
    key: &BundleKey,
) -> Result<Vec<Payload>, WheelError> {
    let paths = wheels.paths(&SplitWheel::Device(key.clone()))?;
    let mut payload: Vec<_> = databases.iter().filter_map(|entry| unchanged(&paths, entry)).collect();
    if let Some(held) = plan.held.get(key) {
        payload.extend(held.iter().filter_map(|entry| unchanged(&paths, entry)));
        // Files of the input come first, in its order.
        payload.sort_by(|one, other| one.entry().cmp(&other.entry()));
    }
    for planned in plan.archives.iter().filter(|archive| archive.key == *key) {
        let file = HashedArchive { archive: Arc::clone(&planned.archive), digest: OnceLock::new() };
        payload.push(Payload::Archive(planned.path.clone(), planned.attributes.mode, Arc::new(file)));
    }
    payload.shrink_to_fit();
    Ok(payload)
}

/// All of the input, with its split binaries joined with their archives.
pub(crate) fn fat_payload(input: &Input, plan: &Plan, wheels: &Wheels) -> Result<Vec<Payload>, WheelError> {
    let paths = wheels.paths(&SplitWheel::Fat)?;
    let mut payload = Vec::with_capacity(input.entries.len());
    for entry in &input.entries {
        match &entry.kind {
            EntryKind::File { content, .. } if plan.joined.contains(&entry.path) => {
                let whole = Arc::clone(content);
                let file = wheels.made(&SplitWheel::Fat, &entry.path, entry.attributes.mode, whole)?;
                let (entry, rewritten) = (entry.path.clone(), None);
                payload.extend(file.map(|file| Payload::Binary(Box::new(MadeBinary { file, entry, rewritten }))));
            }
            _ => payload.extend(unchanged(&paths, entry)),
        }
    }
    payload.shrink_to_fit();
    Ok(payload)
}

fn unchanged(paths: &Paths<'_>, entry: &Entry) -> Option<Payload> {
    Unchanged::taken_over(paths, entry).map(Payload::Unchanged)
}

impl Payload {
    /// Its path in the input, unless it was made for the part.
    pub(crate) fn entry(&self) -> Option<&EntryPath> {
        match self {
            Self::Unchanged(unchanged) => Some(&unchanged.entry),
            Self::Binary(made) => Some(&made.entry),
            Self::Archive(..) | Self::Thin(..) => None,
        }
    }

    /// What is known of its size without work.
    pub(super) fn size(&self) -> SizeBounds {
        match self {
            Self::Unchanged(unchanged) => SizeBounds::exact(unchanged.size()),
            Self::Binary(made) => SizeBounds::exact(made.file.digest.content.size()),
            Self::Archive(_, _, file) => file.archive.bounds(),
            Self::Thin(_, _, binary) => binary.bounds(),
        }
    }

    /// Its rewritten binary, if it is one.
    pub(crate) fn rewritten(&self) -> Option<&Arc<Rewritten>> {
        if let Self::Binary(made) = self { made.rewritten.as_ref() } else { None }
    }

    /// Its path in the wheel. `paths` maps paths of the input.
    pub(crate) fn path(&self, paths: &Paths<'_>) -> Option<EntryPath> {
        match self {
            Self::Unchanged(unchanged) => paths.of(&unchanged.entry),
            Self::Binary(made) => Some(made.file.path.clone()),
            Self::Archive(path, ..) => paths.of(path),
            Self::Thin(path, ..) => Some(path.clone()),
        }
    }
}
