//! The judgement of a library or a database.

use std::collections::BTreeSet;

use super::model::{
    Cell, CellKind, CoverageFailure, CoveredDatabase, CoveredLibrary, FailureKind, GenericCode, LibraryForm,
};
use crate::database::KernelFiles;
use crate::gpu::{CodeKind, FALLBACKS, FallbackState, FoundCode, TargetId};
use crate::join::some_of;
use crate::report::table::size;
use crate::source::EntryPath;

/// A library, and what was found in it.
#[derive(Debug)]
pub(super) struct ExaminedLibrary {
    pub(super) path: EntryPath,
    pub(super) form: LibraryForm,
    /// For each wrapper, the targets of its code, and bytes if they are known.
    pub(super) wrappers: Vec<Vec<TargetId>>,
    /// Its code objects and their bytes, as far as these are known.
    pub(super) sizes: Vec<(TargetId, u64)>,
    /// Why its code is not known.
    pub(super) problem: Option<String>,
}

impl ExaminedLibrary {
    /// All targets.
    pub(super) fn targets(&self) -> BTreeSet<&TargetId> {
        self.wrappers.iter().flatten().collect()
    }

    pub(super) fn judge(&self, gpus: &[TargetId]) -> CoveredLibrary {
        let wrappers: Vec<_> = self.wrappers.iter().enumerate().filter(|(_, code)| !code.is_empty()).collect();
        let cell = |gpu: &TargetId| {
            let served = wrappers.iter().map(|(number, code)| {
                let present: Vec<_> = code.iter().collect();
                let served = gpu.served_by(&present);
                let found = served.found.iter().filter_map(|&at| present.get(at)).map(ToString::to_string).collect();
                WrapperCode { number: *number, found, served }
            });
            Cell::of(&served.collect::<Vec<_>>())
        };
        CoveredLibrary {
            path: self.path.to_string(),
            form: self.form,
            wrappers: wrappers.len(),
            targets: self.targets().iter().map(ToString::to_string).collect(),
            gpus: gpus.iter().map(|gpu| (gpu.to_string(), cell(gpu))).collect(),
            problem: self.problem.clone(),
            generic: self.generic(),
        }
    }

    /// Generic targets whose code at least two targets of this library run.
    fn generic(&self) -> Vec<GenericCode> {
        let rows = FALLBACKS.iter().filter(|row| row.state == FallbackState::Merged);
        let code = rows.map(|row| {
            let covered = |target: &TargetId| row.processors.contains(&target.processor());
            let sizes = self.sizes.iter().filter(|(target, _)| covered(target)).map(|(_, size)| size);
            let all = self.targets();
            let targets: Vec<_> = all.iter().filter(|target| covered(target)).map(ToString::to_string).collect();
            let verb =
                if all.iter().any(|target| target.processor() == row.generic) { "answers" } else { "would answer" };
            let code_size = sizes.sum();
            let bytes = if code_size == 0 { String::new() } else { format!(", {}", size(code_size)) };
            let sentence = format!("{} {verb} for {} targets of this library{bytes}", row.generic, targets.len());
            GenericCode { target: row.generic.to_owned(), targets, code_size, sentence }
        });
        code.filter(|code| code.targets.len() > 1).collect()
    }
}

/// What a runtime finds for a GPU behind one wrapper.
pub(super) struct WrapperCode {
    pub(super) number: usize,
    pub(super) found: BTreeSet<String>,
    pub(super) served: FoundCode,
}

impl Cell {
    /// The result of all wrappers that have code.
    pub(super) fn of(wrappers: &[WrapperCode]) -> Self {
        let kind = wrappers.iter().filter_map(|wrapper| wrapper.served.kind).max();
        let modes = |list: fn(&FoundCode) -> &Vec<String>, is_found: bool| {
            let of_kind = wrappers.iter().filter(|wrapper| wrapper.served.kind.is_some() == is_found);
            let modes: BTreeSet<_> = of_kind.flat_map(|wrapper| list(&wrapper.served)).cloned().collect();
            modes.into_iter().collect::<Vec<_>>()
        };
        let Some(kind) = kind else {
            let modes = modes(|served| &served.modes_with, false);
            let code = if modes.is_empty() { CellKind::None } else { CellKind::Mode };
            return Self { code, found: Vec::new(), modes, without: Vec::new() };
        };
        let found: BTreeSet<_> = wrappers.iter().flat_map(|wrapper| &wrapper.found).cloned().collect();
        let without = wrappers.iter().filter(|wrapper| wrapper.served.kind.is_none()).map(|wrapper| wrapper.number);
        Self {
            code: kind.into(),
            found: found.into_iter().collect(),
            modes: modes(|served| &served.modes_without, true),
            without: without.collect(),
        }
    }

    /// Code that a family of GPUs shares.
    pub(super) fn of_family(key: String) -> Self {
        Self { code: CodeKind::Native.into(), found: vec![key], modes: Vec::new(), without: Vec::new() }
    }

    /// What is missing for a GPU, if something is. `targets` are those that there is code for.
    fn problem(&self, gpu: &str, what: &str, targets: &[String]) -> Option<String> {
        let others = || match targets {
            [] => String::new(),
            targets => format!("; it has {what} for {}", some_of(&targets.iter().map(String::as_str).collect())),
        };
        match self.code {
            CellKind::None => Some(format!("no {what} for {gpu}{}", others())),
            CellKind::Mode => {
                Some(format!("{what} for {gpu} only in the mode {}, which is not the default", self.modes.join(" or ")))
            }
            _ => None,
        }
    }
}

impl CoveredLibrary {
    pub(super) fn failures(&self) -> impl Iterator<Item = CoverageFailure> {
        self.gpus.iter().filter_map(|(gpu, cell)| {
            let (what, reason) = self.failure(gpu, cell)?;
            Some(CoverageFailure { what, path: self.path.clone(), target: gpu.clone(), reason })
        })
    }

    fn failure(&self, gpu: &str, cell: &Cell) -> Option<(FailureKind, String)> {
        if let Some(problem) = &self.problem {
            return Some((FailureKind::Library, format!("its code for {gpu} is not known: {problem}")));
        }
        if let Some(reason) = cell.problem(gpu, "code", &self.targets) {
            return Some((FailureKind::Library, reason));
        }
        wrappers_without_code(&cell.without, self.wrappers, gpu).map(|reason| (FailureKind::Wrapper, reason))
    }
}

/// What the wrappers with these numbers lack, of `count` ones. `None` if there are none.
pub(crate) fn wrappers_without_code(numbers: &[usize], count: usize, gpu: &str) -> Option<String> {
    let (noun, verb) = match numbers {
        [] => return None,
        [_] => ("wrapper", "has"),
        _ => ("wrappers", "have"),
    };
    let numbers: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    let numbers = some_of(&numbers.iter().map(String::as_str).collect());
    Some(format!("{noun} {numbers} of {count} {verb} no code for {gpu}, which the others have"))
}

impl CoveredDatabase {
    pub(super) fn failures(&self) -> impl Iterator<Item = CoverageFailure> {
        let what = match self.files {
            KernelFiles::Code => "code files",
            KernelFiles::Catalogue => "catalogues",
            KernelFiles::Any => "files",
        };
        self.gpus.iter().filter_map(move |(gpu, cell)| {
            let reason = cell.problem(gpu, what, &self.targets)?;
            let reason = format!("{} has {reason}", self.library);
            Some(CoverageFailure { what: FailureKind::Database, path: self.path.clone(), target: gpu.clone(), reason })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{CellKind, EntryPath, ExaminedLibrary, FailureKind, LibraryForm, TargetId};

    fn library(wrappers: &[&[&str]]) -> ExaminedLibrary {
        let code = |targets: &&[&str]| targets.iter().map(|target| target.parse().unwrap()).collect();
        let wrappers: Vec<Vec<TargetId>> = wrappers.iter().map(code).collect();
        let sizes = wrappers.iter().flatten().map(|target| (target.clone(), 10)).collect();
        let path = EntryPath::new(b"lib/libx.so").unwrap();
        ExaminedLibrary { path, form: LibraryForm::Fat, wrappers, sizes, problem: None }
    }

    #[test]
    fn cells_and_failures() {
        use CellKind::{Generic, Mode, Native, None as Nothing, Spirv};
        use FailureKind::{Library, Wrapper};
        for (gpu, wrappers, code, without, failure) in [
            ("gfx942", &[&["gfx942", "gfx90a"][..], &["gfx942"]][..], Native, &[][..], None),
            ("gfx942", &[&["gfx942"], &["gfx90a"]], Native, &[1], Some(Wrapper)),
            ("gfx942", &[&["gfx90a"], &["gfx942"], &["gfx90a"]], Native, &[0, 2], Some(Wrapper)),
            // A wrapper without any code needs none.
            ("gfx942", &[&["gfx942"], &[]], Native, &[], None),
            ("gfx942", &[&["gfx90a"]], Nothing, &[], Some(Library)),
            ("gfx942", &[&["gfx942:xnack+"]], Mode, &[], Some(Library)),
            ("gfx942", &[&["gfx942:xnack-"]], Native, &[], None),
            ("gfx942:xnack+", &[&["gfx942:xnack-"]], Nothing, &[], Some(Library)),
            ("gfx942", &[&["gfx942:xnack+"], &["gfx942"]], Native, &[0], Some(Wrapper)),
            ("gfx1151", &[&["gfx11-generic"], &["gfx1151"]], Generic, &[], None),
            ("gfx1151", &[&["amdgcnspirv"], &["gfx11-generic"]], Spirv, &[], None),
            ("gfx1151", &[&["gfx11-generic"], &["gfx1100"]], Generic, &[1], Some(Wrapper)),
            ("gfx1250", &[&["gfx1250-strict"]], Nothing, &[], Some(Library)),
            ("gfx1170", &[&["gfx11-7-generic"]], Nothing, &[], Some(Library)),
        ] {
            let gpus: Vec<TargetId> = vec![gpu.parse().unwrap()];
            let judged = library(wrappers).judge(&gpus);
            let cell = &judged.gpus[gpu];
            assert_eq!((cell.code, &*cell.without), (code, without), "{gpu} {wrappers:?}");
            let failures: Vec<_> = judged.failures().map(|failure| failure.what).collect();
            assert_eq!(failures, failure.into_iter().collect::<Vec<_>>(), "{gpu} {wrappers:?}");
        }
    }

    #[test]
    fn generic_code_for_several_targets() {
        let generic = library(&[&["gfx1100", "gfx1151", "gfx1200", "gfx942"], &["gfx1100"]]).generic();
        let found: Vec<_> = generic.iter().map(|it| (it.target.as_str(), it.targets.len(), it.code_size)).collect();
        assert_eq!(found, [("gfx11-generic", 2, 30)]);
        assert_eq!(generic[0].sentence, "gfx11-generic would answer for 2 targets of this library, 30 B");
        let both = library(&[&["gfx11-generic", "gfx1100", "gfx1101"]]).generic();
        assert_eq!(both[0].sentence, "gfx11-generic answers for 2 targets of this library, 20 B");
    }
}
