//! The judgement of a library or a database.

use std::collections::BTreeSet;

use super::code::{CodePlace, LibraryCode};
use super::model::{
    Cell, CellKind, CoverageFailure, CoveredDatabase, CoveredLibrary, DatabaseAnswer, FailureKind, GenericCode,
};
use crate::database::KernelFiles;
use crate::gpu::{CodeKind, FALLBACKS, FallbackState, FoundCode, TargetId};
use crate::report::table::size;
use crate::text::some_of;

impl LibraryCode {
    pub(super) fn judge(&self, gpus: &[TargetId]) -> CoveredLibrary {
        CoveredLibrary {
            path: self.path.to_string(),
            form: self.form,
            wrappers: self.wrappers.iter().filter(|code| !code.is_empty()).count(),
            targets: self.targets().iter().map(ToString::to_string).collect(),
            gpus: gpus.iter().map(|gpu| (gpu.to_string(), self.loaded(gpu))).collect(),
            problem: self.problem.clone(),
            damaged: gpus.iter().filter_map(|gpu| Some((gpu.to_string(), self.damage_for(gpu)?.to_owned()))).collect(),
            generic: self.generic(),
        }
    }

    /// What can be loaded for a GPU.
    fn loaded(&self, gpu: &TargetId) -> Cell {
        if self.damage_for(gpu).is_some() { Cell::of(&[]) } else { self.cell(gpu, |_| true) }
    }

    /// What a runtime finds for a GPU behind the wrappers that are asked about. A wrapper without any code has no kernels. No
    /// release takes SPIR-V out of archives (ROCm/rocm-systems#11040 is open).
    pub(crate) fn cell(&self, gpu: &TargetId, is_asked: impl Fn(usize) -> bool) -> Cell {
        let is_taken = |code: &&TargetId| self.form != CodePlace::Split || !code.is_spirv();
        let wrappers = self.wrappers.iter().enumerate().filter(|(number, code)| is_asked(*number) && !code.is_empty());
        let found = wrappers
            .map(|(number, code)| WrapperCode::of(number, gpu, &code.iter().filter(is_taken).collect::<Vec<_>>()));
        Cell::of(&found.collect::<Vec<_>>())
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

impl WrapperCode {
    pub(super) fn of(number: usize, gpu: &TargetId, present: &[&TargetId]) -> Self {
        let served = gpu.served_by(present);
        let found = served.found.iter().filter_map(|&at| present.get(at)).map(ToString::to_string).collect();
        Self { number, found, served }
    }
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
            return Self { code, found: Vec::new(), modes, without: Vec::new(), with_code: 0 };
        };
        let found: BTreeSet<_> = wrappers.iter().flat_map(|wrapper| &wrapper.found).cloned().collect();
        let without = wrappers.iter().filter(|wrapper| wrapper.served.kind.is_none()).map(|wrapper| wrapper.number);
        let without: Vec<_> = without.collect();
        Self {
            code: CellKind::Found(kind),
            found: found.into_iter().collect(),
            modes: modes(|served| &served.modes_without, true),
            with_code: wrappers.len() - without.len(),
            without,
        }
    }

    /// Code that a family of GPUs shares.
    pub(super) fn of_family(key: String) -> Self {
        let code = CellKind::Found(CodeKind::Native);
        Self { code, found: vec![key], modes: Vec::new(), without: Vec::new(), with_code: 1 }
    }

    /// What is missing for a GPU, if something is. `targets` are those that there is code for.
    fn problem(&self, gpu: &str, what: &str, targets: &[String]) -> Option<String> {
        let others = || match targets {
            [] => String::new(),
            targets => format!("; it has {what} for {}", some_of(targets)),
        };
        match self.code {
            CellKind::None => Some(format!("no {what} for {gpu}{}", others())),
            CellKind::Mode => {
                Some(format!("{what} for {gpu} only in the mode {}, which is not the default", self.modes.join(" or ")))
            }
            CellKind::Found(_) => None,
        }
    }
}

impl CoveredLibrary {
    /// What fails. `is_named` says that the user names what is judged.
    pub(super) fn failures(&self, is_named: bool) -> impl Iterator<Item = CoverageFailure> {
        self.lacking(FailureKind::Library, move |gpu, cell| {
            self.reason(gpu, cell).filter(|_| is_named || !self.may_lack(gpu, cell))
        })
    }

    /// Wrappers without code where others have some: their kernels may be for other GPUs only. And files that have nothing for
    /// a GPU.
    pub(super) fn remarks(&self, is_named: bool) -> impl Iterator<Item = CoverageFailure> {
        let wrappers =
            self.lacking(FailureKind::Wrapper, |gpu, cell| wrappers_without_code(&cell.without, self.wrappers, gpu));
        wrappers.chain(self.lacking(FailureKind::Library, move |gpu, cell| {
            self.reason(gpu, cell).filter(|_| !is_named && self.may_lack(gpu, cell))
        }))
    }

    fn reason(&self, gpu: &str, cell: &Cell) -> Option<String> {
        match self.problem.as_ref().or(self.damaged.get(gpu)) {
            Some(problem) => Some(format!("its code for {gpu} is not known: {problem}")),
            None => cell.problem(gpu, "code", &self.targets),
        }
    }

    /// Whether only the program that opens its files knows if the GPU needs one.
    fn may_lack(&self, gpu: &str, cell: &Cell) -> bool {
        let is_known = self.problem.is_none() && !self.damaged.contains_key(gpu);
        is_known && self.form.may_lack(cell)
    }

    fn lacking(
        &self,
        what: FailureKind,
        reason: impl Fn(&str, &Cell) -> Option<String>,
    ) -> impl Iterator<Item = CoverageFailure> {
        self.gpus.iter().filter_map(move |(gpu, cell)| {
            let reason = reason(gpu, cell)?;
            Some(CoverageFailure { what, path: self.path.clone(), target: gpu.clone(), reason, file: None })
        })
    }
}

/// What the wrappers with these numbers lack, of `count` ones. `None` if there are none.
pub(crate) fn wrappers_without_code(numbers: &[usize], count: usize, gpu: &str) -> Option<String> {
    let (noun, verb) = match numbers {
        [] => return None,
        [_] => ("wrapper", "has"),
        _ => ("wrappers", "have"),
    };
    let numbers = some_of(numbers);
    Some(format!("{noun} {numbers} of {count} {verb} no code for {gpu}, which the others have"))
}

impl CoveredDatabase {
    /// What a database lacks for a GPU, if no library of the input reads it.
    pub(crate) fn problem(&self, gpu: &str) -> Option<String> {
        let what = match self.files {
            KernelFiles::Code => "code files",
            KernelFiles::Catalogue => "catalogues",
            KernelFiles::Any => "files",
        };
        let reason = self.gpus.get(gpu)?.problem(gpu, what, &self.targets)?;
        Some(format!("{} has {reason}", self.library))
    }

    /// Says of those of these GPUs that it has no file for, and that are `optional`, that it is not built for them: only the
    /// program that opens its files knows.
    pub(super) fn need_not_have(&mut self, gpus: &[TargetId], optional: impl Fn(&TargetId) -> bool) {
        for gpu in gpus {
            let name = gpu.to_string();
            let is_absent = self.gpus.get(&name).is_some_and(|cell| cell.code == CellKind::None);
            if is_absent
                && optional(gpu)
                && let Some(reason) = self.problem(&name)
            {
                self.answers.entry(name).or_insert(DatabaseAnswer::NotBuilt(reason));
            }
        }
    }

    /// Whether the library that reads it does not work for a GPU.
    pub(crate) fn lacks(&self, gpu: &str) -> bool {
        matches!(self.answers.get(gpu), Some(DatabaseAnswer::Lacks { .. }))
    }

    pub(super) fn failures(&self) -> impl Iterator<Item = CoverageFailure> {
        self.gpus.keys().filter_map(|gpu| match self.answers.get(gpu) {
            Some(DatabaseAnswer::Lacks { file, reason }) => {
                Some(CoverageFailure { file: Some(file.clone()), ..self.lacking(gpu, reason.clone()) })
            }
            Some(_) => None,
            None => Some(self.lacking(gpu, self.problem(gpu)?)),
        })
    }

    pub(super) fn remarks(&self) -> impl Iterator<Item = CoverageFailure> {
        self.answers.iter().filter_map(|(gpu, answer)| match answer {
            DatabaseAnswer::Remark(reason) | DatabaseAnswer::NotBuilt(reason) => {
                Some(self.lacking(gpu, reason.clone()))
            }
            DatabaseAnswer::Found | DatabaseAnswer::Lacks { .. } => None,
        })
    }

    fn lacking(&self, gpu: &str, reason: String) -> CoverageFailure {
        CoverageFailure {
            what: FailureKind::Database,
            path: self.path.clone(),
            target: gpu.to_owned(),
            reason,
            file: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{CellKind, CodeKind, CodePlace, FailureKind, LibraryCode, TargetId};
    use crate::source::EntryPath;

    fn library(wrappers: &[&[&str]]) -> LibraryCode {
        let code = |targets: &&[&str]| targets.iter().map(|target| target.parse().unwrap()).collect();
        let wrappers: Vec<BTreeSet<TargetId>> = wrappers.iter().map(code).collect();
        let sizes = wrappers.iter().flatten().map(|target| (target.clone(), 10)).collect();
        let path = EntryPath::new(b"lib/libx.so").unwrap();
        LibraryCode { sizes, ..LibraryCode::new(path, CodePlace::Fat, wrappers.into_iter().collect()) }
    }

    #[test]
    fn cells_and_failures() {
        use CellKind::{Mode, None as Nothing};
        use FailureKind::{Library, Wrapper};
        let [native, generic, spirv] = [CodeKind::Native, CodeKind::Generic, CodeKind::Spirv].map(CellKind::Found);
        for (gpu, wrappers, code, without, failure) in [
            ("gfx942", &[&["gfx942", "gfx90a"][..], &["gfx942"]][..], native, &[][..], None),
            ("gfx942", &[&["gfx942"], &["gfx90a"]], native, &[1], Some(Wrapper)),
            ("gfx942", &[&["gfx90a"], &["gfx942"], &["gfx90a"]], native, &[0, 2], Some(Wrapper)),
            // A wrapper without any code needs none.
            ("gfx942", &[&["gfx942"], &[]], native, &[], None),
            ("gfx942", &[&["gfx90a"]], Nothing, &[], Some(Library)),
            ("gfx942", &[&["gfx942:xnack+"]], Mode, &[], Some(Library)),
            ("gfx942", &[&["gfx942:xnack-"]], native, &[], None),
            ("gfx942:xnack+", &[&["gfx942:xnack-"]], Nothing, &[], Some(Library)),
            ("gfx942", &[&["gfx942:xnack+"], &["gfx942"]], native, &[0], Some(Wrapper)),
            ("gfx1151", &[&["gfx11-generic"], &["gfx1151"]], generic, &[], None),
            ("gfx1151", &[&["amdgcnspirv"], &["gfx11-generic"]], spirv, &[], None),
            ("gfx1151", &[&["gfx11-generic"], &["gfx1100"]], generic, &[1], Some(Wrapper)),
            ("gfx1250", &[&["gfx1250-strict"]], Nothing, &[], Some(Library)),
            ("gfx1170", &[&["gfx11-7-generic"]], Nothing, &[], Some(Library)),
        ] {
            let gpus: Vec<TargetId> = vec![gpu.parse().unwrap()];
            let judged = library(wrappers).judge(&gpus);
            let cell = &judged.gpus[gpu];
            assert_eq!((cell.code, &*cell.without), (code, without), "{gpu} {wrappers:?}");
            let failures: Vec<_> = judged.failures(false).chain(judged.remarks(false)).map(|it| it.what).collect();
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
