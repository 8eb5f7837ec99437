//! The wheel that is split: its name, and its dist-info as far as other wheels are made from it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::input_record::InputRecord;
use super::licences::{self, Licence};
use super::{Added, Claims, Metadata, Paths, STATEMENT, Stated, WheelError, WheelFile, WheelName, normalise};
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{Entry, EntryKind, EntryPath, Input, InputKind};

/// Bytes of the longest METADATA and WHEEL. The longest METADATA on `PyPI` has a few MB.
const LONGEST_TEXT: u64 = 16 << 20;

/// Bytes of the longest RECORD: about half a million lines.
const LONGEST_RECORD: u64 = 64 << 20;

/// Files of a dist-info directory that are not copied: those that are made again, their signatures (PEP 815), and those
/// that installers leave behind (Recording installed projects).
pub(super) const NOT_TAKEN_OVER: [&[u8]; 9] = [
    b"METADATA",
    b"WHEEL",
    b"RECORD",
    b"RECORD.jws",
    b"RECORD.p7s",
    b"INSTALLER",
    b"REQUESTED",
    b"direct_url.json",
    STATEMENT.as_bytes(),
];

/// A wheel that is split.
#[derive(Clone, Debug)]
pub struct FatWheel {
    /// The host wheel's name: the input's, with the distribution in normal form.
    pub name: WheelName,
    /// METADATA.
    pub metadata: Metadata,
    /// WHEEL.
    pub wheel_file: WheelFile,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// What the input's RECORD claims.
    pub(super) record: Arc<InputRecord>,
    pub(super) licences: Vec<Licence>,
    /// The device wheels in the METADATA of a host wheel, which have been removed from it.
    pub(super) added: Added,
    pub(super) resources: Arc<Resources>,
    dist_info: EntryPath,
}

impl FatWheel {
    /// Reads the dist-info of a wheel, packed or unpacked.
    pub fn read(input: &Input, resources: &Arc<Resources>) -> Result<Self, WheelError> {
        Self::joined(input, None, resources)
    }

    /// Like [`FatWheel::read`], for a wheel that was split. `joined` are the paths of the joined binaries, if any.
    pub fn joined(
        input: &Input,
        joined: Option<&BTreeSet<EntryPath>>,
        resources: &Arc<Resources>,
    ) -> Result<Self, WheelError> {
        let dist_info = input.dist_info().ok_or(WheelError::NotAWheel)?.clone();
        let wheel_path = dist_info.child(b"WHEEL");
        let metadata = Metadata::read(input)?;
        let added = joined.map(|_| metadata.added()).unwrap_or_default();
        let metadata = metadata.without(&added, &dist_info.child(b"METADATA"))?;
        let wheel_file = WheelFile::parse(text(input, &wheel_path, LONGEST_TEXT)?, &wheel_path)?;
        let mut warnings = Vec::new();
        let name = name(input, &dist_info, &wheel_file, &mut warnings)?;
        check_name(&name, &metadata, &mut warnings);
        // RECORD is made again. The old one only saves work.
        let record = InputRecord::new(input, dist_info.child(b"RECORD"), joined, resources);
        match record.problem(input) {
            Ok(problem) => warnings.extend(problem),
            Err(error) => warnings.push(format!("{error}; it is made again")),
        }
        let licences = licences::find(input, &dist_info, &metadata, &mut warnings);
        if name.variant.is_none() && input.entry(&dist_info.child(b"variant.json")).is_some() {
            warnings.push("variant.json is left out: the wheel's name has no variant label".to_owned());
        }
        let (name, resources) = (name.normalised(), Arc::clone(resources));
        Ok(Self { name, metadata, wheel_file, warnings, record, licences, added, resources, dist_info })
    }

    /// The device distributions that a splitter has added to METADATA.
    pub fn device_wheels(&self) -> Vec<String> {
        self.metadata.added().devices().map(str::to_owned).collect()
    }

    /// Maps paths of the input to paths in the wheel named `name`.
    pub(super) fn paths(&self, name: &WheelName) -> Paths<'_> {
        let directory = |suffix: &str| EntryPath::root().child(format!("{}.{suffix}", name.stem()).as_bytes());
        Paths {
            old: &self.dist_info,
            dist_info: directory("dist-info"),
            data: directory("data"),
            has_variant: name.variant.is_some(),
        }
    }
}

impl Metadata {
    /// Reads the METADATA of a wheel, packed or unpacked.
    pub fn read(input: &Input) -> Result<Self, WheelError> {
        let path = input.dist_info().ok_or(WheelError::NotAWheel)?.child(b"METADATA");
        Self::parse(text(input, &path, LONGEST_TEXT)?, &path)
    }
}

impl Claims {
    /// Reads the RECORD at `path`.
    pub fn read(input: &Input, path: &EntryPath) -> Result<Self, WheelError> {
        Ok(Self::parse(&text(input, path, LONGEST_RECORD)?))
    }

    /// Reads the RECORD at `path`, if there is one.
    pub(super) fn of_file(path: &EntryPath, content: Option<&dyn Content>) -> Result<Self, WheelError> {
        Ok(Self::parse(&whole(path, content, LONGEST_RECORD)?))
    }

    /// A problem that is visible without reading the files.
    pub(super) fn problem(&self, input: &Input) -> Option<String> {
        let has_another_size = |entry: &Entry| match (&entry.kind, self.get(&entry.path)) {
            (EntryKind::File { content, .. }, Some(claim)) => content.size() != claim.size,
            _ => false,
        };
        let several = self.rows().filter(|(_, stated)| *stated == Stated::Several).map(|(path, _)| path);
        let entries = input.entries.iter().filter(|entry| has_another_size(entry)).map(|entry| entry.path.as_bytes());
        let mut wrong: Vec<_> = several.chain(entries).collect();
        wrong.sort_unstable();
        let (first, rest) = wrong.split_first()?;
        let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
        let first = String::from_utf8_lossy(first);
        Some(format!("{first:?}{more}: RECORD states another size, or two digests; the wheels state what is right"))
    }
}

/// Whether the input is a wheel whose RECORD states digests. There are wheels whose RECORD has sizes only.
pub fn states_digests(input: &Input) -> bool {
    let record = input.dist_info().map(|dist_info| dist_info.child(b"RECORD"));
    let claims = record.and_then(|record| Claims::read(input, &record).ok());
    claims.is_some_and(|claims| claims.rows().any(|(_, stated)| stated.claim().is_some()))
}

/// The content of a file of the dist-info directory.
fn text(input: &Input, path: &EntryPath, longest: u64) -> Result<Vec<u8>, WheelError> {
    let content = match input.entry(path).map(|entry| &entry.kind) {
        Some(EntryKind::File { content, .. }) => Some(&**content),
        _ => None,
    };
    whole(path, content, longest)
}

fn whole(path: &EntryPath, content: Option<&dyn Content>, longest: u64) -> Result<Vec<u8>, WheelError> {
    let bad = |reason: &str| WheelError::DistInfo { path: path.clone(), reason: reason.to_owned() };
    let content = content.ok_or_else(|| bad("there is no such file"))?;
    let size = usize::try_from(content.size()).ok().filter(|_| content.size() <= longest);
    let too_long = || bad(&format!("it has {} bytes; the limit is {longest}", content.size()));
    let mut bytes = vec![0; size.ok_or_else(too_long)?];
    // It is read once, so nothing of it should be cached.
    content.peek(&mut bytes)?;
    match content.packed() {
        Some(packed) if packed.deflated && packed.crc32 != crc32fast::hash(&bytes) => {
            Err(bad("the content does not have the CRC-32 that the zip file claims"))
        }
        _ => Ok(bytes),
    }
}

/// The name from the file name, or else from the dist-info directory and WHEEL.
fn name(
    input: &Input,
    dist_info: &EntryPath,
    wheel_file: &WheelFile,
    warnings: &mut Vec<String>,
) -> Result<WheelName, WheelError> {
    if let InputKind::Wheel(_) | InputKind::Wheels(Some(_)) = input.kind {
        let file_name = input.location.file_name().unwrap_or_default().to_string_lossy();
        match WheelName::parse(&file_name) {
            Ok(name) => return Ok(name),
            Err(error) => warnings.push(format!("{error}; the wheels are named after dist-info and WHEEL")),
        }
    }
    WheelName::of_unpacked(&dist_info.to_text(), &wheel_file.tags(), wheel_file.build())
}

fn check_name(name: &WheelName, metadata: &Metadata, warnings: &mut Vec<String>) {
    if normalise(&name.distribution) != normalise(&metadata.name) {
        warnings.push(format!("the file name is one of {}, METADATA one of {}", name.distribution, metadata.name));
    }
    // A local version may have three kinds of separators (PEP 440).
    if normalise(&name.version) != normalise(&metadata.version) {
        warnings.push(format!("the file name has version {}, METADATA {}", name.version, metadata.version));
    }
    if let Some(tags) = name.unsorted_tags() {
        warnings.push(format!(
            "the tags {tags} are not sorted, as PEP 425 asks for; all wheels have them as the input has"
        ));
    }
}
