//! Code that a runtime finds without a search: in a library, an archive or a file that was named, or in wheels before
//! they are installed.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use super::assembled::Assembly;
use super::cause::{self, Cause};
use super::device;
use super::error::WhyError;
use super::lookup::{CodePlace, Lookup, Presence};
use crate::binary::FatBinary;
use crate::fatbin::{Bundle, CODE_HEADER, code_target, is_bundle, is_code};
use crate::gpu::TargetId;
use crate::kpack::ArchiveReader;
use crate::loader::begins_archive;
use crate::resources::Resources;
use crate::rope::{Content, to_usize};

/// Sets of targets. Most of thousands are equal, so each is stored once.
#[derive(Debug, Default)]
pub(super) struct TargetSets {
    sets: Vec<BTreeSet<TargetId>>,
    /// For each place, the number of its set.
    numbers: Vec<u32>,
}

impl FromIterator<BTreeSet<TargetId>> for TargetSets {
    fn from_iter<I: IntoIterator<Item = BTreeSet<TargetId>>>(all: I) -> Self {
        let (mut distinct, mut numbers) = (HashMap::new(), Vec::new());
        for set in all {
            // The ceilings of parsers keep such numbers below 2^32.
            let next = u32::try_from(distinct.len()).unwrap_or(u32::MAX);
            numbers.push(*distinct.entry(set).or_insert(next));
        }
        let mut sets: Vec<_> = distinct.into_iter().collect();
        sets.sort_unstable_by_key(|(_, number)| *number);
        Self { sets: sets.into_iter().map(|(set, _)| set).collect(), numbers }
    }
}

impl TargetSets {
    /// Number of places.
    pub(super) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The targets at a place.
    fn get(&self, place: usize) -> Option<&BTreeSet<TargetId>> {
        self.sets.get(*self.numbers.get(place)? as usize)
    }
}

/// The code of a file.
pub(super) struct HeldCode {
    pub(super) form: CodePlace,
    /// The targets of each wrapper, or of each name in an archive.
    pub(super) targets: TargetSets,
    /// Where it comes from, if it is not installed.
    pub(super) assembly: Option<Arc<Assembly>>,
}

impl HeldCode {
    /// The code of a fat binary. `None` if it has wrappers without any code, as translation units without kernels have:
    /// nothing can be missing there.
    pub(super) fn of_fat(
        path: &Path,
        content: &Arc<dyn Content>,
        binary: &FatBinary,
        resources: &Arc<Resources>,
    ) -> Result<Option<Self>, WhyError> {
        let of_wrapper = |bundle: u64, limit: u64| {
            let read = Bundle::read(content, bundle, limit, resources);
            Ok(read.map_err(WhyError::at(path))?.targets())
        };
        let wrappers = binary.wrappers().into_iter();
        let targets = wrappers.map(|wrapper| of_wrapper(wrapper.bundle, wrapper.limit));
        let targets = targets.collect::<Result<TargetSets, WhyError>>()?;
        let is_empty = targets.sets.iter().all(BTreeSet::is_empty);
        Ok((!is_empty).then_some(Self { form: CodePlace::Fat, targets, assembly: None }))
    }

    /// The code of an archive, a bundle or a code object; `None` if the file is none of these.
    pub(super) fn of_loose(
        path: &Path,
        content: &Arc<dyn Content>,
        resources: &Arc<Resources>,
    ) -> Result<Option<Self>, WhyError> {
        if begins_archive(content) {
            return Self::of_archive(path, content).map(Some);
        }
        let mut beginning = vec![0; CODE_HEADER.min(to_usize(content.size()))];
        if content.peek(&mut beginning).is_err() {
            return Ok(None);
        }
        let (form, targets) = if is_code(&beginning) {
            let unknown = || WhyError::at(path)("a code object whose header names no target that is known");
            (CodePlace::CodeObject, BTreeSet::from([code_target(&beginning).ok_or_else(unknown)?]))
        } else if is_bundle(&beginning) {
            let bundle = Bundle::read(content, 0, content.size(), resources).map_err(WhyError::at(path))?;
            (CodePlace::Bundle, bundle.targets())
        } else {
            return Ok(None);
        };
        Ok(Some(Self { form, targets: std::iter::once(targets).collect(), assembly: None }))
    }

    /// The code of an archive, as far as a runtime finds it: for the targets that it offers.
    pub(super) fn of_archive(path: &Path, content: &Arc<dyn Content>) -> Result<Self, WhyError> {
        let reader = ArchiveReader::open(Arc::clone(content)).map_err(WhyError::at(path))?;
        let targets = reader.names().map(|name| {
            let offered = reader.entries_of(name).map(|(target, _)| target).filter(|target| reader.offers(target));
            offered.filter_map(|target| target.parse().ok()).collect()
        });
        Ok(Self { form: CodePlace::Archive, targets: targets.collect(), assembly: None })
    }

    /// Looks up the code of these wrappers.
    pub(super) fn look_up(&self, wrappers: &[usize], device: &TargetId, lookup: &mut Lookup) {
        let mut used = BTreeSet::new();
        let mut without_code = Vec::new();
        for (&number, targets) in wrappers.iter().filter_map(|number| Some((number, self.targets.get(*number)?))) {
            let targets: Vec<_> = targets.iter().collect();
            let found = targets.iter().zip(device.finds(&targets)).filter(|(_, is_found)| *is_found);
            let found: Vec<_> = found.map(|(it, _)| it.to_string()).collect();
            if found.is_empty() && !targets.is_empty() {
                without_code.push(number);
            }
            lookup.with_code += usize::from(!found.is_empty());
            used.extend(found);
        }
        let all: BTreeSet<_> = wrappers.iter().filter_map(|&number| self.targets.get(number)).flatten().collect();
        let names = if all.is_empty() { "no GPU".to_owned() } else { list(all.iter().map(ToString::to_string)) };
        lookup.saw(match self.form {
            CodePlace::Split => format!("its wrappers are HIPK: the device code is in archives, for {names}"),
            CodePlace::Fat => format!("its wrappers are HIPF: the device code is in the library, for {names}"),
            CodePlace::Archive => format!("it is an archive with {} names and code for {names}", self.targets.len()),
            CodePlace::Bundle => format!("it is an offload bundle with code for {names}"),
            CodePlace::CodeObject => format!("it is a code object for {names}, by its header"),
        });
        if lookup.with_code > 0 {
            let what = match self.form {
                CodePlace::Split | CodePlace::Fat => "wrappers",
                CodePlace::Archive => "names",
                CodePlace::Bundle | CodePlace::CodeObject => return,
            };
            lookup.saw(format!("{} of {} {what} have code: {}", lookup.with_code, lookup.wrappers, list(used)));
            if self.form != CodePlace::Archive {
                lookup.without_code = without_code;
            }
            // What is to be released is judged as `inspect --require` judges it.
            if let Some(reason) = lookup.gap().filter(|_| lookup.presence == Presence::ToInstall) {
                lookup.fail(Cause::new(&cause::WRAPPER_NO_CODE, reason, None));
            }
            return;
        }
        let causes = [device::unserved, device::other_mode, device::unfound];
        if let Some(cause) = causes.iter().find_map(|cause| cause(device, &all)) {
            return lookup.fail(cause);
        }
        if let Some(assembly) = self.assembly.as_ref().filter(|_| self.form == CodePlace::Split) {
            return assembly.explain(device, lookup);
        }
        let reason = match self.form {
            CodePlace::Split | CodePlace::Fat => format!("the library holds its code itself, and only for {names}"),
            CodePlace::Archive => format!("the archive has code for {names} only"),
            CodePlace::Bundle => format!("the bundle has code for {names} only"),
            CodePlace::CodeObject => format!("the file is code for {names}"),
        };
        let reason = if all.is_empty() { "it has no code for any GPU".to_owned() } else { reason };
        lookup.fail(Cause::new(&cause::NO_CODE, reason, None));
    }
}

fn list(names: impl IntoIterator<Item = String>) -> String {
    names.into_iter().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sets_of_targets_are_stored_once() {
        let set = |names: &[&str]| names.iter().map(|name| name.parse().unwrap()).collect::<BTreeSet<TargetId>>();
        let (one, two) = (set(&["gfx942"]), set(&["gfx942", "gfx1100"]));
        let all = [one.clone(), two.clone(), one.clone(), BTreeSet::new(), two.clone()];
        let stored: TargetSets = all.iter().cloned().collect();
        assert_eq!((stored.len(), stored.sets.len()), (5, 3));
        assert!(all.iter().enumerate().all(|(place, set)| stored.get(place) == Some(set)));
        assert_eq!(stored.get(5), None);
    }
}
