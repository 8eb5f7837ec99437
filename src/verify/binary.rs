//! Checks binaries: loaders must accept them, and their wrappers must be valid. An installation has binaries of other
//! packages, too.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use rocm_kpack::Marker;

use super::choices::Choices;
use super::distributions::Distribution;
use super::input::SingleFile;
use super::lookup::{Binaries, WrapperRequest};
use super::parts::{PartFile, Parts, PartsKind};
use super::report::{Findings, Tools};
use super::rules::Rule;
use super::thin::{self, ThinFiles};
use crate::binary::{BinaryError, FatBinary, SplitBinary};
use crate::database::Handler;
use crate::fatbin::{CodeDamage, begins_code, damage_of_file};
use crate::gpu::GpuSet;
use crate::report::table::counted;
use crate::rope::Content;
use crate::source::{EntryPath, MIN_BINARY};
use crate::split::targets_of_bundle_file;

/// The form of a file that was checked.
enum CheckedForm {
    /// It is split and has these wrappers.
    Split(Vec<Option<WrapperRequest>>),
    /// It is thin.
    Thin,
    /// It is fat, and belongs to no split.
    Fat,
    /// It is fat, for this reason, and must not be if it is of a split.
    StillFat(String),
    /// It has no device code, or must not have any.
    Other,
}

/// The form that a file is to have.
#[derive(Clone, Copy)]
enum Expected<'a> {
    /// It has no device code.
    Split,
    /// It has code of these GPUs only.
    Thin(&'a Arc<GpuSet>),
    /// It belongs to no split.
    Any,
}

/// Binaries that were checked.
#[derive(Debug, Default)]
pub(super) struct CheckedBinaries {
    /// The split ones.
    pub(super) split: Binaries,
    /// Thin binaries, and files with reduced bundles.
    pub(super) thin: HashSet<EntryPath>,
    /// Fat ones that a split must not have, with the reason.
    still_fat: Vec<(String, String)>,
    /// Fat ones that belong to no split.
    others: Vec<String>,
}

impl CheckedBinaries {
    /// Checks a binary that was named by the user.
    pub(super) fn of_file(file: &SingleFile, tools: Tools<'_>) -> Self {
        let (path, label) = (EntryPath::root(), file.path.display().to_string());
        let form = check(&file.content, &label, Expected::Split, tools);
        let mut checked = Self::default();
        checked.add(path, label, form);
        checked
    }

    fn add(&mut self, path: EntryPath, label: String, form: CheckedForm) {
        match form {
            CheckedForm::Split(wrappers) => drop(self.split.insert(path, wrappers)),
            CheckedForm::Thin => drop(self.thin.insert(path)),
            CheckedForm::Fat => self.others.push(label),
            CheckedForm::StillFat(reason) => self.still_fat.push((label, reason)),
            CheckedForm::Other => {}
        }
    }

    /// Whether the file that findings call so is fat.
    pub(super) fn has_fat(&self, label: &str) -> bool {
        self.still_fat.iter().map(|(fat, _)| fat).chain(&self.others).any(|fat| fat == label)
    }

    /// Whether any of them is split or thin.
    pub(super) fn are_of_split(&self) -> bool {
        !self.split.is_empty() || !self.thin.is_empty()
    }

    /// Reports fat binaries of a split.
    pub(super) fn say_fat(&self, findings: &Findings) {
        self.still_fat.iter().for_each(|(label, reason)| findings.add(Rule::StillFat, label, reason));
        note_others(self.others.iter(), findings);
    }

    /// Notes fat binaries next to a split.
    pub(super) fn note_fat(&self, findings: &Findings) {
        note_others(self.still_fat.iter().map(|(label, _)| label).chain(&self.others), findings);
    }
}

/// Bytes of a file that count as progress. Longer files are no binaries, so little of them is read.
const MAX_COUNTED: u64 = 16 << 30;

/// Checks all binaries. Databases contain code of their own, and are not examined. Those that are `owned` may have no device
/// code, unless they are thin.
pub(super) fn check_all(
    parts: &Parts,
    thin: &ThinFiles,
    owned: &SplitFiles,
    choices: &Choices,
    tools: Tools<'_>,
) -> CheckedBinaries {
    let progress = tools.progress;
    let is_wanted = |file: &PartFile<'_>| {
        parts.is_checked(file.part)
            && file.content.size() >= MIN_BINARY
            && choices.databases.classify(file.path).is_none_or(|found| {
                // Loose code objects for several targets are reduced.
                found.handler == Handler::Codeobject && thin.gpus(file.path).is_some()
            })
    };
    let expected = |file: &PartFile<'_>| match thin.gpus(file.path) {
        Some(gpus) => Expected::Thin(gpus),
        None if owned.contains(file.part, file.path) => Expected::Split,
        None => Expected::Any,
    };
    let mut files: Vec<_> = parts.files().filter(is_wanted).collect();
    files.sort_by_key(|file| std::cmp::Reverse(file.content.size()));
    tools.findings.counts.files.add(parts.files().count() as u64);
    let counted = |file: &PartFile<'_>| file.content.size().min(MAX_COUNTED);
    progress.expect(files.iter().map(counted).sum());
    let checked: Vec<_> = files
        .par_iter()
        .with_max_len(1)
        .map(|file| {
            let label = parts.label(file.part, file.path);
            let _named = progress.at(|| label.clone());
            let form = check(file.content, &label, expected(file), tools);
            progress.advance(counted(file));
            (file.path.clone(), label, form)
        })
        .collect();
    let mut binaries = CheckedBinaries::default();
    for (path, label, form) in checked {
        binaries.add(path, label, form);
    }
    binaries
}

/// Checks one binary.
fn check(content: &Arc<dyn Content>, label: &str, expected: Expected<'_>, tools: Tools<'_>) -> CheckedForm {
    let Tools { resources, findings, .. } = tools;
    let say = |rule, reason: String| findings.add(rule, label, reason);
    if begins_code(&**content) {
        // Programs open such files by name, and a split copies them.
        let damage =
            if matches!(expected, Expected::Any) { CodeDamage::new() } else { damage_of_file(content, resources) };
        for (_, reason) in damage {
            findings.note(format!("{label}: {reason}; a split changes no such file"));
        }
        return CheckedForm::Other;
    }
    match SplitBinary::read(content) {
        Ok(Some(split)) => {
            findings.counts.binaries.add(1);
            findings.counts.wrappers.add(split.wrappers.len() as u64);
            split.problems.iter().for_each(|problem| say(Rule::BinaryForm, problem.clone()));
            CheckedForm::Split(requests(&split, say))
        }
        Ok(None) => {
            match (FatBinary::scan(content), expected) {
                (Ok(Some(_)), Expected::Any) => return CheckedForm::Fat,
                (Ok(Some(binary)), Expected::Thin(gpus)) => {
                    thin::check(content, &binary, gpus, label, tools);
                    return CheckedForm::Thin;
                }
                (Ok(Some(fat)), Expected::Split) => {
                    let wrappers = counted(fat.wrappers().len(), "wrapper", "wrappers");
                    return CheckedForm::StillFat(format!("it still holds device code, of {wrappers}"));
                }
                (Ok(None), Expected::Thin(gpus)) => {
                    return check_bundle_file(content, gpus, label, tools);
                }
                // Other packages may have files for tests, which are no valid binaries.
                (Ok(None), _) | (Err(_), Expected::Any) => {}
                (Err(BinaryError::Read(error)), _) => say(Rule::BinaryUnreadable, error.to_string()),
                (Err(error), Expected::Thin(_)) => {
                    say(Rule::StillFat, format!("it holds all of its device code, and {error}"));
                }
                (Err(error), Expected::Split) => {
                    return CheckedForm::StillFat(format!("it still holds device code, and {error}"));
                }
            }
            CheckedForm::Other
        }
        // The segments of a file with debug information only may be those of the original file.
        Err(BinaryError::Malformed(_)) if Path::new(label).extension().is_some_and(|it| it == "debug") => {
            CheckedForm::Other
        }
        Err(_) if matches!(expected, Expected::Any) => CheckedForm::Other,
        Err(error) => {
            say(Rule::BinaryUnreadable, error.to_string());
            CheckedForm::Other
        }
    }
}

/// Checks a file without wrappers in a thin tree. A bundle for several targets must have code for the tree's GPUs only.
/// A bundle for a single target stays unchanged.
fn check_bundle_file(content: &Arc<dyn Content>, gpus: &GpuSet, label: &str, tools: Tools<'_>) -> CheckedForm {
    let Ok(Some(bundle)) = FatBinary::of_bundle(content) else { return CheckedForm::Other };
    // A reduced bundle may have no code left.
    let targets = targets_of_bundle_file(label.as_bytes(), content, tools.resources);
    let Some(targets) = targets else { return CheckedForm::Thin };
    let own = if targets.len() == 1 { GpuSet::new(targets) } else { None };
    thin::check(content, &bundle, own.as_ref().unwrap_or(gpus), label, tools);
    CheckedForm::Thin
}

fn requests(split: &SplitBinary, say: impl Fn(Rule, String)) -> Vec<Option<WrapperRequest>> {
    let mut markers: HashMap<&[u8], Option<Arc<Marker>>> = HashMap::new();
    let mut requests = Vec::new();
    for (position, wrapper) in split.wrappers.iter().enumerate() {
        if wrapper.version != 1 {
            say(Rule::WrapperFields, format!("wrapper {position} has version {} instead of 1", wrapper.version));
        }
        if wrapper.index != position as u64 {
            say(Rule::WrapperFields, format!("wrapper {position} asks for index {:#x}", wrapper.index));
        }
        let bytes = match &wrapper.marker {
            Ok(bytes) => bytes,
            Err(error) => {
                say(Rule::Marker, format!("wrapper {position} has no marker: {error}"));
                requests.push(None);
                continue;
            }
        };
        // Usually all wrappers share a marker. Its problems are reported once.
        let marker = markers.entry(bytes).or_insert_with(|| match marker(bytes) {
            Ok(marker) => Some(Arc::new(marker)),
            Err(reason) => {
                say(Rule::Marker, format!("wrapper {position}: {reason}"));
                None
            }
        });
        // Runtimes truncate the index to 32 bits.
        let index = u32::try_from(wrapper.index & u64::from(u32::MAX)).unwrap_or(u32::MAX);
        requests.push(marker.clone().map(|marker| WrapperRequest { index, marker }));
    }
    requests
}

fn marker(bytes: &[u8]) -> Result<Marker, String> {
    let marker = Marker::decode(bytes).map_err(|error| format!("its marker is unreadable: {error}"))?;
    if marker.kernel_name.is_empty() {
        return Err("its marker has an empty kernel_name".to_owned());
    }
    if marker.kpack_search_paths.is_empty() || marker.kpack_search_paths.iter().any(String::is_empty) {
        return Err("its marker names no search path".to_owned());
    }
    Ok(marker)
}

/// The files that belong to a split.
pub(super) struct SplitFiles {
    /// `None` if all do.
    owned: Option<HashSet<(usize, EntryPath)>>,
    /// What device distributions hold. A binary there is as it was before the split.
    held: HashSet<(usize, EntryPath)>,
}

impl SplitFiles {
    /// Those that the RECORDs of the split's distributions name. A tree without distributions of a split is one as a
    /// whole, and so is one with a distribution of a split whose RECORD is missing.
    pub(super) fn of(parts: &Parts, distributions: &[Distribution<'_>]) -> Self {
        let pinned: HashSet<_> = distributions.iter().filter_map(Distribution::host_name).collect();
        // The fat wheel may have been installed in place of the host part.
        let is_owner =
            |it: &&Distribution<'_>| it.is_of_split() || it.name().is_some_and(|(name, _)| pinned.contains(&name));
        let owners: Vec<_> = distributions.iter().filter(is_owner).collect();
        let files = |it: &Distribution<'_>| -> Vec<_> {
            let number = it.number;
            it.recorded_payload().map(|path| (number, path)).collect()
        };
        let held = distributions.iter().filter(|it| it.is_device()).flat_map(files).collect();
        let is_whole = parts.kind != PartsKind::Installation || parts.statement.is_some();
        if is_whole || owners.is_empty() || owners.iter().any(|it| it.record.is_none()) {
            return Self { owned: None, held };
        }
        Self { owned: Some(owners.into_iter().flat_map(files).collect()), held }
    }

    /// Whether a file of a part is one of them.
    pub(super) fn contains(&self, part: usize, path: &EntryPath) -> bool {
        let file = (part, path.clone());
        !self.held.contains(&file) && self.owned.as_ref().is_none_or(|owned| owned.contains(&file))
    }
}

/// Notes binaries with device code that belong to no split: fat packages next to split ones, and modules that programs
/// compile for themselves.
pub(super) fn note_others<'a>(labels: impl Iterator<Item = &'a String> + Clone, findings: &Findings) {
    if let Some(first) = labels.clone().min() {
        let binaries = counted(labels.count(), "binary", "binaries");
        findings.note(format!("{binaries} with device code of no split, such as {first}"));
    }
}
