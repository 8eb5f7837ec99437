//! The device code that a runtime finds without a search: in a library behind its wrappers, or in an archive, a bundle or a
//! code object.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;

use super::model::{Cell, CellKind};
use crate::binary::FatBinary;
use crate::devicecode::{CodeOfForm, DeviceCodePlace};
use crate::fatbin::{Bundle, CodeDamage, CodeFile, code_damage, damage_for};
use crate::gpu::TargetId;
use crate::kpack::ArchiveReader;
use crate::loader::begins_archive;
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::EntryPath;

/// Sets of targets. Most of thousands are equal, so each is stored once.
#[derive(Debug, Default)]
pub(crate) struct TargetSets {
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
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The targets at each place.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &BTreeSet<TargetId>> {
        (0..self.len()).filter_map(|place| self.get(place))
    }

    /// The targets at a place.
    fn get(&self, place: usize) -> Option<&BTreeSet<TargetId>> {
        self.sets.get(*self.numbers.get(place)? as usize)
    }
}

/// Where code is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case", const_into_str)]
pub(crate) enum CodePlace {
    /// In bundles of a library to which its wrappers lead.
    Fat,
    /// In archives to which the wrappers of a library lead.
    #[default]
    Split,
    /// In bundles in the data of a library, which a program finds by address.
    #[strum(serialize = "without wrappers")]
    Embedded,
    /// It is an archive.
    Archive,
    /// It is a bundle, which a program opens by name.
    Bundle,
    /// It is a code object, which a program opens by name.
    CodeObject,
    /// It is an object file or a static library, which a linker reads.
    Object,
    /// It cannot be read.
    Unreadable,
}

impl CodePlace {
    /// Whether it is device code itself, or a linker reads it.
    pub(crate) fn is_file(self) -> bool {
        matches!(self, Self::Bundle | Self::CodeObject | Self::Object)
    }

    /// Whether only the program that opens it knows if the GPU of a cell needs it.
    pub(crate) fn may_lack(self, cell: &Cell) -> bool {
        self.is_file() && cell.code == CellKind::None
    }
}

/// The code of a file.
#[derive(Debug)]
pub(crate) struct LibraryCode {
    pub(crate) path: EntryPath,
    pub(crate) form: CodePlace,
    /// The targets of each wrapper, or of each name in an archive.
    pub(crate) wrappers: TargetSets,
    /// Its code objects and their bytes, as far as these are known.
    pub(crate) sizes: Vec<(TargetId, u64)>,
    /// What is wrong with it.
    pub(crate) damage: CodeDamage,
    /// Why its code is not known.
    pub(crate) problem: Option<String>,
}

impl LibraryCode {
    pub(crate) fn new(path: EntryPath, form: CodePlace, wrappers: TargetSets) -> Self {
        Self { path, form, wrappers, sizes: Vec::new(), damage: CodeDamage::new(), problem: None }
    }

    /// A file whose code is not known, for this reason.
    pub(crate) fn unknown(path: EntryPath, form: CodePlace, problem: String) -> Self {
        Self { problem: Some(problem), ..Self::new(path, form, TargetSets::default()) }
    }

    /// The code of a fat binary. `None` if it has wrappers without any code, as translation units without kernels have:
    /// nothing can be missing there. An error says what cannot be read.
    pub(crate) fn of_fat(
        path: EntryPath,
        content: &Arc<dyn Content>,
        binary: &FatBinary,
        resources: &Arc<Resources>,
    ) -> Result<Option<Self>, String> {
        let ((places, wrappers), mut damage) = (binary.bundles(), CodeDamage::new());
        let mut targets = Vec::new();
        for place in places {
            let bundle = Bundle::read(content, place.bundle, place.limit, resources);
            let bundle = bundle.map_err(|error| error.to_string())?;
            damage.extend(bundle.damage(content, resources));
            targets.push(bundle.targets());
        }
        let wrappers = wrappers.iter().filter_map(|&bundle| targets.get(bundle).cloned());
        let code = Self { damage, ..Self::new(path, CodePlace::Fat, wrappers.collect()) };
        Ok((!code.targets().is_empty()).then_some(code))
    }

    /// The code of an archive, a bundle or a code object; `None` if the file is none of these. An error says why it cannot
    /// be read.
    pub(crate) fn of_loose(
        path: EntryPath,
        content: &Arc<dyn Content>,
        resources: &Arc<Resources>,
    ) -> Result<Option<Self>, String> {
        if begins_archive(content) {
            return Self::of_archive(path, content, Some(resources)).map(Some);
        }
        let Some(code) = CodeFile::read(content, resources).map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let CodeFile { is_bundle, targets, damage } = code;
        if targets.is_empty() && !is_bundle {
            return Err("a code object whose header names no target that is known".to_owned());
        }
        let form = if is_bundle { CodePlace::Bundle } else { CodePlace::CodeObject };
        Ok(Some(Self { damage, ..Self::new(path, form, std::iter::once(targets).collect()) }))
    }

    /// The code of an archive, as far as a runtime finds it: for the targets that it offers. With `resources`, the headers of
    /// code are read, which are all over the file, as the lengths of compressed code are.
    pub(crate) fn of_archive(
        path: EntryPath,
        content: &Arc<dyn Content>,
        resources: Option<&Arc<Resources>>,
    ) -> Result<Self, String> {
        let open = if resources.is_some() { ArchiveReader::open } else { ArchiveReader::list };
        let reader = open(Arc::clone(content)).map_err(|error| error.to_string())?;
        let mut damage = CodeDamage::new();
        let targets = reader.names().map(|name| {
            let offered = reader.entries_of(name).filter(|(target, _)| reader.offers(target));
            let known = offered.filter_map(|(target, entry)| Some((target.parse::<TargetId>().ok()?, entry)));
            known
                .map(|(target, entry)| {
                    let object = |resources| reader.object(entry, name, resources).map_err(|error| error.to_string());
                    let reason = resources.and_then(|resources| {
                        object(resources).map_or_else(Some, |object| code_damage(&**object.content(), Some(&target)))
                    });
                    damage
                        .extend(reason.map(|reason| (Some(target.clone()), format!("{name} for {target}: {reason}"))));
                    target
                })
                .collect()
        });
        let code = Self::new(path, CodePlace::Archive, targets.collect());
        Ok(Self { damage, ..code })
    }

    /// The code of a file that programs and linkers find without a wrapper, which is judged together. `None` if its targets are
    /// not known.
    pub(crate) fn unwrapped<'a>(path: EntryPath, found: impl Iterator<Item = &'a CodeOfForm>) -> Option<Self> {
        let known: Vec<_> = found.filter(|found| found.is_for_targets()).collect();
        let form = match known.iter().map(|found| found.place).max()? {
            DeviceCodePlace::File => CodePlace::Bundle,
            DeviceCodePlace::Object => CodePlace::Object,
            DeviceCodePlace::Unloaded | DeviceCodePlace::Data | DeviceCodePlace::Wrapper => CodePlace::Embedded,
        };
        let targets = known.iter().flat_map(|found| found.targets.keys()).cloned().collect();
        Some(Self::new(path, form, std::iter::once(targets).collect()))
    }

    /// Why nothing can load code that a GPU takes.
    pub(crate) fn damage_for(&self, gpu: &TargetId) -> Option<&str> {
        damage_for(&self.damage, gpu, &self.wrappers.sets)
    }

    /// The processor of a file whose targets are of one. Only the program that opens it knows if another GPU needs such a file.
    pub(crate) fn only_processor(&self) -> Option<&str> {
        let targets = self.targets();
        let one = targets.first().filter(|_| self.form.is_file())?.processor();
        targets.iter().all(|target| target.processor() == one).then_some(one)
    }

    /// All targets.
    pub(crate) fn targets(&self) -> BTreeSet<&TargetId> {
        self.wrappers.sets.iter().flatten().collect()
    }
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
