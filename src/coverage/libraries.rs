//! The libraries of an input.

use std::collections::{BTreeMap, BTreeSet};
use std::slice;

use super::code::{CodePlace, LibraryCode};
use super::model::{CoverageInput, UnjudgedCode};
use crate::binary::FatBinary;
use crate::devicecode::{CodeOfForm, DeviceForm, UNJOINED};
use crate::fatbin::{CodeDamage, damage_for};
use crate::gpu::TargetId;
use crate::report::table::counted;
use crate::rope::to_usize;
use crate::source::{EntryKind, EntryPath};
use crate::split::{CodeOfFile, Plan, PlannedBinary, wrapped_damage};

/// All libraries with device code, or that ask for some in archives, sorted by path.
pub(super) fn find(examined: &CoverageInput<'_>, gpus: &[TargetId]) -> Vec<LibraryCode> {
    let damage: BTreeMap<_, _> = examined.code.iter().map(|file| (&file.path, &file.damage)).collect();
    let with_damage = |library: LibraryCode| {
        let damage = damage.get(&library.path).copied().cloned().unwrap_or_default();
        LibraryCode { damage, ..library }
    };
    let mut libraries: Vec<_> = planned(examined.plan).map(with_damage).collect();
    libraries.extend(damaged(examined, gpus));
    libraries.extend(unsplit(examined));
    let is_known = |library: &&LibraryCode| library.problem.is_some() || !library.targets().is_empty();
    let known: BTreeSet<_> = libraries.iter().filter(is_known).map(|library| library.path.clone()).collect();
    let others = examined.code.iter().filter_map(|file| other(file, examined, gpus));
    libraries.extend(together(others.filter(|library| !known.contains(&library.path))));
    let is_asking = |library: &LibraryCode| library.form == CodePlace::Split;
    libraries.retain(|library| library.problem.is_some() || is_asking(library) || !library.targets().is_empty());
    libraries.sort_by(|a, b| a.path.cmp(&b.path));
    libraries.dedup_by(|a, b| a.path == b.path);
    libraries
}

/// The files with code for a required GPU that nothing can load.
fn damaged(examined: &CoverageInput<'_>, gpus: &[TargetId]) -> impl Iterator<Item = LibraryCode> {
    examined.code.iter().filter_map(|file| {
        let found = file.found.iter().flat_map(|(_, found)| found.targets.keys());
        // What is truncated may not be among what was found.
        let present = found.chain(file.damage.keys().flatten()).cloned().collect();
        let reason = gpus.iter().find_map(|gpu| damage_for(&file.damage, gpu, slice::from_ref(&present)))?;
        Some(LibraryCode::unknown(file.path.clone(), CodePlace::Unreadable, reason.to_owned()))
    })
}

/// The libraries whose code planning found, with what is known of its damage.
pub(super) fn read(examined: &CoverageInput<'_>) -> Vec<LibraryCode> {
    let read = |library: LibraryCode| {
        let damage = match (examined.joined.binaries.get(&library.path), examined.input.content(&library.path)) {
            (Some(split), _) => split.damage.clone(),
            (None, Some(content)) => wrapped_damage(content, examined.resources),
            (None, None) => CodeDamage::new(),
        };
        LibraryCode { damage, ..library }
    };
    planned(examined.plan).map(read).chain(unsplit(examined)).collect()
}

/// Takes files with code for one GPU out of `libraries` if a required GPU does not run it: whether it needs one, nothing says.
/// hipBLASLt has `rr_custom_kernels.co` for gfx950 only.
pub(super) fn of_other_gpu(libraries: &mut Vec<LibraryCode>, gpus: &[TargetId]) -> Vec<UnjudgedCode> {
    let only = |library: &LibraryCode| {
        let targets: Vec<_> = library.targets().into_iter().collect();
        let is_run = |gpu: &TargetId| gpu.served_by(&targets).kind.is_some();
        library.only_processor().filter(|_| !gpus.iter().all(is_run)).map(str::to_owned)
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
pub(super) fn unjudged(examined: &CoverageInput<'_>, gpus: &[TargetId]) -> Vec<UnjudgedCode> {
    let of_file = |file: &CodeOfFile| -> Vec<UnjudgedCode> {
        let code = |reason: String| UnjudgedCode { path: file.path.to_string(), reason };
        let is_unknown = |found: &&CodeOfForm| {
            let is_judged = found.unknown.code_objects == 0 && found.is_for_targets();
            let needs_none = found.form == DeviceForm::SplitMarker || found.is_for_compilers(file.path.name());
            found.form.is_amd() && !is_judged && !needs_none
        };
        let unjoined = is_unjoined(file, examined, gpus).then(|| code(UNJOINED.to_owned()));
        let name = |found: &CodeOfForm| found.form.name();
        let of_forms = file
            .staying()
            .filter(is_unknown)
            .map(|found| code(format!("{}: {}", name(found), found.form.stays().unwrap_or("its target is not known"))));
        let unfinished = file.is_unfinished.then(|| code("not searched to the end".to_owned()));
        let packed = file.has_archive.then(|| code("an archive, which is not searched".to_owned()));
        of_forms.chain(unjoined).chain(unfinished).chain(packed).collect()
    };
    let input = examined.input;
    let joined = input.is_joined.then(|| UnjudgedCode {
        path: input.location.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        reason: "another archive is joined to it, which is not read".to_owned(),
    });
    examined.code.iter().flat_map(of_file).chain(joined).collect()
}

/// The libraries whose code planning found. Wrappers whose bundles are all empty need none.
fn planned(plan: &Plan) -> impl Iterator<Item = LibraryCode> {
    let examined = |binary: &PlannedBinary| {
        let with_code = |code: &Vec<(TargetId, u64)>| {
            code.iter().filter(|(_, size)| *size > 0).map(|(target, _)| target.clone()).collect()
        };
        let is_split = plan.joined.contains(&binary.path);
        let form = if is_split { CodePlace::Split } else { CodePlace::Fat };
        let wrappers = binary.wrappers.iter().map(with_code).collect();
        let sizes = binary.bundles().flatten().cloned().collect();
        LibraryCode { sizes, ..LibraryCode::new(binary.path.clone(), form, wrappers) }
    };
    plan.binaries.iter().map(examined).filter(|library| !library.targets().is_empty())
}

/// The libraries that cannot be split.
fn unsplit(examined: &CoverageInput<'_>) -> impl Iterator<Item = LibraryCode> {
    examined.plan.unsplit.iter().filter_map(|path| {
        let EntryKind::File { content, .. } = &examined.input.entry(path)?.kind else { return None };
        let binary = FatBinary::scan(content).ok().flatten();
        let code = binary.map(|binary| LibraryCode::of_fat(path.clone(), content, &binary, examined.resources));
        let Some(Ok(code)) = code else {
            let problem = warning(path, examined).unwrap_or_else(|| "it cannot be read".to_owned());
            return Some(LibraryCode::unknown(path.clone(), CodePlace::Unreadable, problem));
        };
        code
    })
}

/// Whether a split library may have archives for all of these GPUs that are not read for it, so that it is not judged.
fn is_unjoined(file: &CodeOfFile, examined: &CoverageInput<'_>, gpus: &[TargetId]) -> bool {
    let is_known = || examined.joined.without_code.contains(&file.path) || warning(&file.path, examined).is_some();
    file.is_unjoined() && gpus.iter().all(|gpu| file.may_be_joined_for(gpu)) && !is_known()
}

/// A library that was split and could not be joined, or code that programs and linkers find without a wrapper. All code of one
/// file is judged together.
fn other(file: &CodeOfFile, examined: &CoverageInput<'_>, gpus: &[TargetId]) -> Option<LibraryCode> {
    let path = file.path.clone();
    if is_unjoined(file, examined, gpus) {
        return None;
    }
    if let Some(split) = file.staying().find(|found| found.form == DeviceForm::SplitMarker) {
        let count = split.pieces;
        let missing = || {
            let asking = counted(count, "wrapper asks", "wrappers ask");
            format!("it is split, and no archive for it is in the input ({asking} for code)")
        };
        if examined.joined.without_code.contains(&path) {
            let nothing = std::iter::repeat_n(BTreeSet::new(), to_usize(count));
            return Some(LibraryCode::new(path, CodePlace::Split, nothing.collect()));
        }
        let problem = warning(&path, examined).unwrap_or_else(missing);
        return Some(LibraryCode::unknown(path, CodePlace::Split, problem));
    }
    LibraryCode::unwrapped(path, file.staying())
}

/// Files with code for one target each belong together if they are in one directory, which stands for them: a program opens, and
/// a linker takes, the one for its GPU.
pub(crate) fn together(files: impl Iterator<Item = LibraryCode>) -> Vec<LibraryCode> {
    let mut all = Vec::new();
    let mut directories = BTreeMap::<(EntryPath, CodePlace), Vec<LibraryCode>>::new();
    for file in files {
        let directory = file.path.parent().filter(|directory| !directory.is_root());
        match directory.filter(|_| file.form.is_file() && file.targets().len() == 1) {
            Some(directory) => directories.entry((directory, file.form)).or_default().push(file),
            None => all.push(file),
        }
    }
    for ((directory, form), files) in directories {
        if files.len() == 1 {
            all.extend(files);
            continue;
        }
        let targets = files.iter().flat_map(LibraryCode::targets).cloned().collect();
        all.push(LibraryCode::new(directory, form, std::iter::once(targets).collect()));
    }
    all
}

/// What planning said about a file.
fn warning(path: &EntryPath, examined: &CoverageInput<'_>) -> Option<String> {
    let prefix = format!("{path}: ");
    examined.plan.warnings.iter().find_map(|warning| warning.strip_prefix(&prefix)).map(str::to_owned)
}
