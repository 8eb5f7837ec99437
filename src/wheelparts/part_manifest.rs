//! The manifest of a part's wheel, and the ID of its split.

use std::sync::Arc;

use super::payload::Payload;
use super::{SplitWheel, WheelEntry, Wheels};
use crate::rope::{Content, ReadError};
use crate::source::{EntryKind, EntryPath, Input};
use crate::split::{
    Destination, FileDigest, HOST, InputFacts, InputId, ManifestFile, ManifestFileKind, ManifestFiles, ManifestText,
    Plan, SplitFacts, SplitId,
};
use crate::wheel::{PART_MANIFEST, Paths, Requirements, WheelError};

/// The split binaries of an input, in its order, with the numbers of their wrappers.
pub(super) type WrapperCounts = Arc<[(EntryPath, usize)]>;

/// The split binaries of an input.
pub(super) fn wrapper_counts(input: &Input, plan: &Plan) -> WrapperCounts {
    let places = input.entries.iter().zip(&plan.places);
    let counts = places.filter_map(|(entry, place)| match (&entry.kind, place) {
        (EntryKind::File { .. }, Destination::Rewritten { wrappers, .. }) => Some((entry.path.clone(), *wrappers)),
        _ => None,
    });
    counts.collect()
}

/// The files of the wheel of a part.
#[derive(Debug)]
struct PartFiles {
    part: SplitWheel,
    wheels: Arc<Wheels>,
    payload: Arc<[Payload]>,
    /// Empty for a device part.
    wrappers: WrapperCounts,
}

impl PartFiles {
    /// What is listed of a file. A host part lists its split binaries, a device part everything.
    fn listed<'a>(&'a self, payload: &'a Payload, paths: &Paths<'_>) -> Option<ManifestFile<'a>> {
        let path = payload.path(paths)?;
        let size = payload.size().least;
        let kind = match payload {
            Payload::Archive(_, _, file) => ManifestFileKind::Archive(&file.archive),
            _ if matches!(self.part, SplitWheel::Device(_)) => ManifestFileKind::Plain(size),
            _ => {
                let entry = payload.entry()?;
                let found = self.wrappers.binary_search_by(|(path, _)| path.cmp(entry)).ok()?;
                ManifestFileKind::Binary(size, self.wrappers.get(found)?.1)
            }
        };
        let digest = move || -> Result<Vec<u8>, ReadError> {
            let digest = match payload {
                Payload::Unchanged(unchanged) => self.wheels.digests.digest(unchanged),
                Payload::Binary(made) => Arc::clone(&made.file.digest),
                Payload::Archive(_, _, file) => file.digest(&self.wheels)?,
                Payload::Thin(..) => return Err(ReadError::damaged(&"manifest".into(), "a part has no thin binaries")),
            };
            Ok(digest.sha256()?.to_vec())
        };
        Some(ManifestFile { path, kind, digest: Box::new(digest) })
    }
}

impl ManifestFiles for PartFiles {
    fn each(&self, take: &mut dyn FnMut(&ManifestFile<'_>)) {
        // Making the part has checked its name.
        let Ok(paths) = self.wheels.paths(&self.part) else { return };
        self.payload.iter().filter_map(|payload| self.listed(payload, &paths)).for_each(|file| take(&file));
    }
}

impl Wheels {
    /// The ID of the split of this input. `facts` are those of its plan.
    pub(super) fn split_id(&self, facts: SplitFacts, input: &Input, plan: &Plan) -> SplitId {
        let requirements = match &self.options.requirements {
            Requirements::Keep => "keep",
            Requirements::Split(_) => "split",
        };
        let facts = facts.and("devices", &self.devices.prefix).and("requirements", requirements);
        facts.id(self.input_id(input, plan))
    }

    fn input_id(&self, input: &Input, plan: &Plan) -> InputId {
        if let Some(known) = &self.fat.input_id {
            return known.clone();
        }
        let facts = InputFacts::default();
        match self.fat.listed {
            Some(listed) if listed.has_digests => facts.and("record", listed.sum).id(),
            Some(listed) => facts.and("sizes", listed.sum).and_code(input, plan).id(),
            None => facts.and_listing(input).and_code(input, plan).id(),
        }
    }

    /// The manifest of a part; `None` for wheels that are no parts.
    pub(super) fn manifest_of(
        self: &Arc<Self>,
        part: &SplitWheel,
        payload: &Arc<[Payload]>,
        wrappers: &WrapperCounts,
    ) -> Result<Option<WheelEntry>, WheelError> {
        let Some(split) = &self.split else { return Ok(None) };
        let (name, parts, wrappers) = match part {
            SplitWheel::Host | SplitWheel::Variant(_) => {
                let keys = self.devices.keys().map(ToString::to_string);
                (HOST.to_owned(), std::iter::once(HOST.to_owned()).chain(keys).collect(), Arc::clone(wrappers))
            }
            SplitWheel::Device(key) => (key.to_string(), Vec::new(), WrapperCounts::default()),
            SplitWheel::Fat | SplitWheel::Thin { .. } => return Ok(None),
        };
        let (part_of, payload) = (part.clone(), Arc::clone(payload));
        let files = PartFiles { part: part_of, wheels: Arc::clone(self), payload, wrappers };
        let text: Arc<dyn Content> =
            Arc::new(ManifestText::new(split.id.clone(), name, parts, FileDigest::Sha256, files));
        let path = self.name(part)?.dist_info().child(PART_MANIFEST.as_bytes());
        Ok(Some(WheelEntry::stored(path, text)))
    }
}
