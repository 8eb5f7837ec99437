//! The wheel that is split: its name, and its dist-info as far as other wheels are made from it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::input_record::{InputRecord, ListedFiles};
use super::licences::{self, Licence};
use super::sboms::stale;
use crate::resources::Resources;
use crate::rope::ReadError;
use crate::source::{EntryPath, Input, InputKind};
use crate::split::{InputId, Plan, Statement};
use crate::wheel::{self, Added, Metadata, Paths, STATEMENT, WheelError, WheelFile, WheelName, normalise};

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
    pub(crate) record: Arc<InputRecord>,
    pub(crate) licences: Vec<Licence>,
    /// The device wheels in the METADATA of a host wheel, which have been removed from it.
    pub(crate) added: Added,
    pub(crate) resources: Arc<Resources>,
    /// The ID of the fat wheel, if this is a split one that states it.
    pub(super) input_id: Option<InputId>,
    /// The files that RECORD lists; `None` if there is no usable one.
    pub(super) listed: Option<ListedFiles>,
    pub(super) dist_info: EntryPath,
    /// SBOMs that no wheel of the split has.
    stale_sboms: BTreeSet<EntryPath>,
}

impl FatWheel {
    /// Reads the dist-info of a wheel, packed or unpacked. `joined` are the paths of the joined binaries of one that was split.
    pub fn joined(
        input: &Input,
        joined: Option<&BTreeSet<EntryPath>>,
        resources: &Arc<Resources>,
    ) -> Result<Self, WheelError> {
        let dist_info = input.dist_info().ok_or(WheelError::NotAWheel)?.clone();
        let wheel_path = dist_info.child(b"WHEEL");
        let metadata = Metadata::read(input)?;
        let added = joined.map(|_| metadata.added()).unwrap_or_default();
        let mut metadata = metadata.without(&added, &dist_info.child(b"METADATA"))?;
        let wheel_file = WheelFile::read(input, &wheel_path)?;
        let mut warnings = Vec::new();
        let mut input_id = None;
        let path = dist_info.child(STATEMENT.as_bytes());
        let statement = joined.map_or(Ok(None), |_| statement(input, &path, &mut warnings))?;
        if let Some(statement) = statement {
            input_id = statement.input_id.as_deref().and_then(InputId::known);
            metadata = with_requirements(metadata, &statement, &mut warnings)?;
        }
        let name = name(input, &dist_info, &wheel_file, &mut warnings)?;
        check_name(&name, &metadata, &mut warnings);
        // RECORD is made again. The old one only saves work.
        let record = InputRecord::new(input, dist_info.child(b"RECORD"), joined, resources);
        let listed = match record.examine(input) {
            Ok(examined) => {
                warnings.extend(examined.problem);
                Some(examined.listed)
            }
            Err(error) => {
                warnings.push(format!("{error}; it is made again"));
                None
            }
        };
        // RECORD says nothing of what is joined.
        let listed = listed.filter(|_| joined.is_none());
        let licences = licences::find(input, &dist_info, &metadata, &mut warnings);
        if name.variant.is_none() && input.entry(&dist_info.child(b"variant.json")).is_some() {
            warnings.push("variant.json is left out: the wheel's name has no variant label".to_owned());
        }
        let (name, resources) = (name.normalised(), Arc::clone(resources));
        Ok(Self {
            name,
            metadata,
            wheel_file,
            warnings,
            record,
            licences,
            added,
            resources,
            input_id,
            listed,
            dist_info,
            stale_sboms: BTreeSet::new(),
        })
    }

    /// Maps paths of the input to paths in the wheel named `name`.
    pub(crate) fn paths(&self, name: &WheelName) -> Paths<'_> {
        Paths {
            old: &self.dist_info,
            dist_info: name.dist_info(),
            data: EntryPath::root().child(format!("{}.data", name.stem()).as_bytes()),
            has_variant: name.variant.is_some(),
            left_out: &self.stale_sboms,
        }
    }

    /// Leaves out SBOMs that do not hold for the wheels of this split.
    pub(super) fn with_true_sboms(mut self, input: &Input, plan: &Plan) -> Result<Self, ReadError> {
        self.stale_sboms = stale(input, plan, &self.record)?;
        self.warnings.extend(self.stale_sboms.iter().map(|path| {
            format!("{path}: left out, since it states digests of files that the split rewrites; make SBOMs of the new wheels")
        }));
        let has_others = |directory: &EntryPath| {
            input.files().any(|(path, _)| path.is_below(directory) && !self.stale_sboms.contains(path))
        };
        let parents = self.stale_sboms.iter().flat_map(|path| std::iter::successors(path.parent(), EntryPath::parent));
        let emptied: Vec<_> = parents.filter(|parent| !has_others(parent)).collect();
        self.stale_sboms.extend(emptied);
        Ok(self)
    }
}

/// The statement of a host wheel, if it has one.
fn statement(input: &Input, path: &EntryPath, warnings: &mut Vec<String>) -> Result<Option<Statement>, WheelError> {
    if input.entry(path).is_none() {
        return Ok(None);
    }
    match Statement::parse(&wheel::text(input, path)?) {
        Ok(statement) => Ok(Some(statement)),
        Err(error) => {
            warnings.push(format!("{path}: {error}; the requirements of the fat wheel cannot be restored from it"));
            Ok(None)
        }
    }
}

/// The METADATA of a host wheel with the requirements of the fat wheel, as the statement has them.
fn with_requirements(
    metadata: Metadata,
    statement: &Statement,
    warnings: &mut Vec<String>,
) -> Result<Metadata, WheelError> {
    if let Some(restored) = metadata.restored(&statement.replaced_requirements)? {
        return Ok(restored);
    }
    warnings.push(format!(
        "METADATA has other requirements than {STATEMENT} says; those of the fat wheel are not restored"
    ));
    Ok(metadata)
}

/// The name from the file name, or else from the dist-info directory and WHEEL.
fn name(
    input: &Input,
    dist_info: &EntryPath,
    wheel_file: &WheelFile,
    warnings: &mut Vec<String>,
) -> Result<WheelName, WheelError> {
    // The parts of a split may be unpacked.
    let is_unpacked = matches!(input.kind, InputKind::Wheels(_)) && input.location.is_dir();
    if let (InputKind::Wheel(_) | InputKind::Wheels(Some(_)), false) = (&input.kind, is_unpacked) {
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
