//! The libraries of an input.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::judge::ExaminedLibrary;
use super::model::{LibraryForm, UnjudgedCode};
use super::question::CoverageInput;
use crate::binary::FatBinary;
use crate::devicecode::{CodeOfForm, DeviceCodePlace, DeviceForm};
use crate::fatbin::Bundle;
use crate::gpu::TargetId;
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{EntryKind, EntryPath};
use crate::split::{CodeOfFile, Plan, PlannedBinary};

/// All libraries with device code, or that ask for some in archives, sorted by path.
pub(super) fn find(examined: &CoverageInput<'_>) -> Vec<ExaminedLibrary> {
    let mut libraries: Vec<_> = planned(examined.plan).collect();
    libraries.extend(unsplit(examined));
    let known: BTreeSet<_> =
        libraries.iter().filter(|library| !library.targets().is_empty()).map(|library| library.path.clone()).collect();
    let others = examined.code.iter().filter_map(|file| other(file, examined));
    libraries.extend(together(others.filter(|library| !known.contains(&library.path))));
    libraries.retain(|library| library.problem.is_some() || !library.targets().is_empty());
    libraries.sort_by(|a, b| a.path.cmp(&b.path));
    libraries.dedup_by(|a, b| a.path == b.path);
    libraries
}

/// Takes files with code for one GPU out of `libraries` if a required GPU does not run it: whether it needs one, nothing says.
/// hipBLASLt has `rr_custom_kernels.co` for gfx950 only.
pub(super) fn of_other_gpu(libraries: &mut Vec<ExaminedLibrary>, gpus: &[TargetId]) -> Vec<UnjudgedCode> {
    let only = |library: &ExaminedLibrary| {
        let targets = library.targets();
        let one = targets.first().filter(|_| matches!(library.form, LibraryForm::Bundle | LibraryForm::Object))?;
        let is_alike = targets.iter().all(|target| target.processor() == one.processor());
        let is_run = |gpu: &TargetId| gpu.served_by(&targets.iter().copied().collect::<Vec<_>>()).kind.is_some();
        (is_alike && !gpus.iter().all(is_run)).then(|| one.processor().to_owned())
    };
    let mut found = Vec::new();
    libraries.retain(|library| {
        let gpu = only(library);
        found.extend(gpu.iter().map(|gpu| UnjudgedCode {
            path: library.path.to_string(),
            reason: format!("it has code for {gpu} only, and whether other GPUs need such a file is not known"),
        }));
        gpu.is_none()
    });
    found
}

/// Code whose targets are not known, so that no GPU can be required of it.
pub(super) fn unjudged(examined: &CoverageInput<'_>) -> Vec<UnjudgedCode> {
    let of_file = |file: &CodeOfFile| -> Vec<UnjudgedCode> {
        let code = |reason: String| UnjudgedCode { path: file.path.to_string(), reason };
        let is_unknown = |found: &&CodeOfForm| {
            found.form.is_amd() && found.form != DeviceForm::SplitMarker && found.unknown.code_objects > 0
        };
        let name = |found: &CodeOfForm| found.form.row().name;
        let of_forms = file.staying().filter(is_unknown).map(|found| {
            code(format!("{}: {}", name(found), found.form.row().stays.unwrap_or("its target is not known")))
        });
        let unfinished = file.is_unfinished.then(|| code("not searched to the end".to_owned()));
        of_forms.chain(unfinished).collect()
    };
    examined.code.iter().flat_map(of_file).collect()
}

/// The libraries whose code planning found. Wrappers whose bundles are all empty need none.
pub(super) fn planned(plan: &Plan) -> impl Iterator<Item = ExaminedLibrary> {
    let examined = |binary: &PlannedBinary| {
        let with_code = |code: &Vec<(TargetId, u64)>| {
            code.iter().filter(|(_, size)| *size > 0).map(|(target, _)| target.clone()).collect()
        };
        let is_split = plan.joined.contains(&binary.path);
        let form = if is_split { LibraryForm::Split } else { LibraryForm::Fat };
        let wrappers = binary.wrappers.iter().map(with_code).collect();
        let sizes = binary.bundles().flatten().cloned().collect();
        ExaminedLibrary { path: binary.path.clone(), form, wrappers, sizes, problem: None }
    };
    plan.binaries.iter().map(examined).filter(|library| !library.targets().is_empty())
}

/// The libraries that cannot be split.
fn unsplit(examined: &CoverageInput<'_>) -> impl Iterator<Item = ExaminedLibrary> {
    examined.plan.unsplit.iter().filter_map(|path| {
        let entry = examined.input.entry(path)?;
        let EntryKind::File { content, .. } = &entry.kind else { return None };
        let path = path.clone();
        let problem = Some(warning(&path, examined).unwrap_or_else(|| "it cannot be read".to_owned()));
        let sizes = Vec::new();
        Some(match targets(content, examined.resources) {
            Some(wrappers) => ExaminedLibrary { path, form: LibraryForm::Fat, wrappers, sizes, problem: None },
            None => ExaminedLibrary { path, form: LibraryForm::Unreadable, wrappers: Vec::new(), sizes, problem },
        })
    })
}

/// A library that was split and could not be joined, or code that programs and linkers find without a wrapper. All code of one
/// file is judged together.
fn other(file: &CodeOfFile, examined: &CoverageInput<'_>) -> Option<ExaminedLibrary> {
    let path = file.path.clone();
    let (wrappers, sizes) = (Vec::new(), Vec::new());
    if let Some(split) = file.staying().find(|found| found.form == DeviceForm::SplitMarker) {
        let count = split.pieces;
        let missing = || format!("it is split, and no archive for it is in the input ({count} wrappers ask for code)");
        let problem = Some(warning(&path, examined).unwrap_or_else(missing));
        return Some(ExaminedLibrary { path, form: LibraryForm::Split, wrappers, sizes, problem });
    }
    let place = file.staying().filter(|found| !found.targets.is_empty()).map(|found| found.place).max()?;
    let form = match place {
        DeviceCodePlace::File => LibraryForm::Bundle,
        DeviceCodePlace::Object => LibraryForm::Object,
        DeviceCodePlace::Data | DeviceCodePlace::Wrapper => LibraryForm::Embedded,
    };
    let targets: BTreeSet<_> = file.staying().flat_map(|found| found.targets.keys()).cloned().collect();
    Some(ExaminedLibrary { path, form, wrappers: vec![targets.into_iter().collect()], sizes, problem: None })
}

/// Files with code for one target each belong together if they are in one directory, which stands for them: a program opens, and
/// a linker takes, the one for its GPU.
fn together(files: impl Iterator<Item = ExaminedLibrary>) -> Vec<ExaminedLibrary> {
    let mut all = Vec::<ExaminedLibrary>::new();
    let mut directories = BTreeMap::new();
    for mut file in files {
        let is_one_of_many =
            matches!(file.form, LibraryForm::Bundle | LibraryForm::Object) && file.targets().len() == 1;
        let directory = file.path.parent().filter(|directory| is_one_of_many && !directory.is_root());
        let Some(directory) = directory else {
            all.push(file);
            continue;
        };
        let first = *directories.entry((directory.clone(), file.form)).or_insert(all.len());
        match all.get_mut(first) {
            Some(first) => {
                first.path = directory;
                if let Some(code) = first.wrappers.first_mut() {
                    code.extend(file.wrappers.drain(..).flatten());
                }
            }
            None => all.push(file),
        }
    }
    all
}

/// What planning said about a file.
fn warning(path: &EntryPath, examined: &CoverageInput<'_>) -> Option<String> {
    let prefix = format!("{path}: ");
    examined.plan.warnings.iter().find_map(|warning| warning.strip_prefix(&prefix)).map(str::to_owned)
}

/// The targets of each wrapper of a fat binary.
fn targets(content: &Arc<dyn Content>, resources: &Arc<Resources>) -> Option<Vec<Vec<TargetId>>> {
    let binary = FatBinary::scan(content).ok()??;
    let of_wrapper = |bundle: u64, limit: u64| {
        let bundle = Bundle::read(content, bundle, limit, resources).ok()?;
        Some(bundle.targets().into_iter().collect())
    };
    binary.wrappers().iter().map(|wrapper| of_wrapper(wrapper.bundle, wrapper.limit)).collect()
}
