//! Whether an input has code for given GPUs: in each library, each wrapper and each kernel database.
//!
//! What lacks code that its others have is a failure. Which code object a GPU runs is decided by `gpu`.

mod databases;
mod judge;
mod libraries;
mod metadata;
mod model;
mod pattern;
mod question;
mod tables;
mod unreachable;

use crate::gpu::TargetId;
use crate::source::EntryPath;

pub(crate) use judge::wrappers_without_code;
pub(crate) use model::{Coverage, CoverageFailure, FailureKind, InputCoverage};
pub(crate) use pattern::Pattern;
pub(crate) use question::{CoverageInput, Requirement};

impl InputCoverage {
    /// Judges the libraries and databases that planning found, and reads nothing.
    pub(crate) fn of_plan(examined: &CoverageInput<'_>, gpus: &[TargetId]) -> Self {
        let libraries = libraries::planned(examined.plan).map(|library| library.judge(gpus)).collect();
        let databases = databases::find(examined, gpus, |_, _| true);
        Self { libraries, databases, ..Self::default() }
    }

    /// Judges an input.
    pub(crate) fn of(examined: &CoverageInput<'_>, requirement: &Requirement) -> Self {
        let is_judged = |path: &EntryPath, name: &str| {
            let within = examined.within.and_then(|within| EntryPath::new(format!("{within}/{path}").as_bytes()).ok());
            let path = within.as_ref().unwrap_or(path);
            requirement.patterns.is_empty() || requirement.patterns.iter().any(|it| it.matches(path, name))
        };
        let mut libraries = libraries::find(examined);
        let mut not_judged = libraries::unjudged(examined);
        not_judged.extend(libraries::of_other_gpu(&mut libraries, &requirement.gpus));
        let metadata = metadata::compare(examined, &libraries);
        libraries.retain(|library| is_judged(&library.path, ""));
        let unreachable = unreachable::find(examined, &libraries, &requirement.gpus);
        let databases = databases::find(examined, &requirement.gpus, is_judged);
        let libraries = libraries.into_iter().map(|library| library.judge(&requirement.gpus)).collect();
        not_judged.retain(|code| EntryPath::new(code.path.as_bytes()).is_ok_and(|path| is_judged(&path, "")));
        let mut found = Self { libraries, databases, unreachable, metadata, not_judged };
        if let Some(within) = examined.within {
            found.paths().for_each(|path| *path = format!("{within}/{path}"));
        }
        found
    }
}
