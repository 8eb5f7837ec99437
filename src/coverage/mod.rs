//! Whether an input has code for given GPUs: in each library, each wrapper and each kernel database.
//!
//! What lacks code that its others have is a failure. Which code object a GPU runs is decided by `gpu`.

mod cause;
mod code;
mod databases;
mod judge;
mod libraries;
mod lookup;
mod metadata;
mod model;
mod pattern;
mod tables;
mod unreachable;

use crate::gpu::TargetId;
use crate::opened::InnerSplits;
use crate::source::EntryPath;

pub(crate) use cause::CauseKind;
pub(crate) use code::{CodePlace, LibraryCode};
pub(crate) use databases::{DatabaseQuestion, InputDatabases, serves};
pub(crate) use judge::wrappers_without_code;
pub(crate) use libraries::together;
pub(crate) use lookup::{
    DatabasePlace, DatabaseSearch, DiskFiles, LoadedLibrary, LookupEvidence, Problem, Severity, Trail,
};
use model::UnjudgedCode;
pub(crate) use model::{Coverage, CoverageFailure, CoveredDatabase, DatabaseAnswer, FailureKind, InputCoverage};
pub(crate) use model::{CoverageInput, Requirement};
pub(crate) use pattern::Pattern;

impl InputCoverage {
    /// Judges the libraries and databases that planning found, and reads the headers of their code.
    pub(crate) fn of_plan(examined: &CoverageInput<'_>, gpus: &[TargetId]) -> Self {
        let libraries = libraries::read(examined);
        let all: Vec<_> = libraries.iter().collect();
        let databases = InputDatabases::planned(examined, &all).judge(DatabaseQuestion::all(gpus));
        Self { libraries: libraries.iter().map(|it| it.judge(gpus)).collect(), databases, ..Self::default() }
    }

    /// Judges an input.
    pub(crate) fn of(examined: &CoverageInput<'_>, requirement: &Requirement) -> Self {
        let splits = InnerSplits::in_parts(examined.input);
        let is_asked = |path: &EntryPath, name: &str| {
            let within = examined.within.and_then(|within| EntryPath::new(format!("{within}/{path}").as_bytes()).ok());
            let path = within.as_ref().unwrap_or(path);
            requirement.patterns.is_empty() || requirement.patterns.iter().any(|it| it.matches(path, name))
        };
        let is_judged = |path: &EntryPath, name: &str| !splits.hold(path) && is_asked(path, name);
        let mut libraries = libraries::find(examined, &requirement.gpus);
        let mut not_judged = libraries::unjudged(examined, &requirement.gpus);
        not_judged.extend(libraries::of_other_gpu(&mut libraries, &requirement.gpus));
        let metadata = metadata::compare(examined, &libraries);
        let is_named = !requirement.patterns.is_empty();
        let question = DatabaseQuestion { gpus: &requirement.gpus, is_judged: &is_judged, is_named };
        let all: Vec<_> = libraries.iter().collect();
        let databases = InputDatabases::planned(examined, &all).judge(question);
        libraries.retain(|library| is_judged(&library.path, ""));
        let mut unreachable = unreachable::find(examined, &libraries, &requirement.gpus);
        unreachable.retain(|code| EntryPath::new(code.path.as_bytes()).is_ok_and(|path| !splits.hold(&path)));
        let libraries = libraries.into_iter().map(|library| library.judge(&requirement.gpus)).collect();
        not_judged.retain(|code| EntryPath::new(code.path.as_bytes()).is_ok_and(|path| is_judged(&path, "")));
        not_judged.extend(splits.0.iter().filter(|split| is_asked(split, "")).map(|split| of_split(split, examined)));
        let mut found = Self { libraries, databases, unreachable, metadata, not_judged };
        if let Some(within) = examined.within {
            found.paths().for_each(|path| *path = format!("{within}/{path}"));
        }
        found
    }
}

/// A split in a tree. The parts of it have their files where these are installed, and not where the parts are.
fn of_split(split: &EntryPath, examined: &CoverageInput<'_>) -> UnjudgedCode {
    let place = examined.input.directory().map(|tree| tree.join(split.as_path()));
    let way = place.map(|place| format!("; name {} to judge it", place.display())).unwrap_or_default();
    UnjudgedCode { path: split.to_string(), reason: format!("a split is not judged with the tree around it{way}") }
}
