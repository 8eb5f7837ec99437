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

use crate::source::EntryPath;

pub(crate) use model::Coverage;
pub(crate) use pattern::Pattern;
pub(crate) use question::{CoverageInput, Requirement};

impl Coverage {
    /// Judges an input. Reads the files of the host part once more, to find split libraries without archives.
    pub(crate) fn of(examined: &CoverageInput<'_>, requirement: &Requirement) -> Self {
        let is_judged = |path: &EntryPath, name: &str| {
            requirement.patterns.is_empty() || requirement.patterns.iter().any(|it| it.matches(path, name))
        };
        let mut libraries = libraries::find(examined);
        let metadata = metadata::compare(examined, &libraries);
        libraries.retain(|library| is_judged(&library.path, ""));
        let unreachable = unreachable::find(examined, &libraries, &requirement.gpus);
        let databases = databases::find(examined, &requirement.gpus, is_judged);
        let libraries = libraries.into_iter().map(|library| library.judge(&requirement.gpus)).collect();
        Self::conclude(requirement, libraries, databases, unreachable, metadata)
    }
}
