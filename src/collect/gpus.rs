//! What of a result lacks code for a wanted GPU.

use std::collections::BTreeSet;

use super::known::stem;
use super::model::{CollectReport, MissingKind, MissingPiece, Reason};
use crate::coverage::{Coverage, CoverageFailure, CoveredDatabase, FailureKind};
use crate::database::Handler;
use crate::gpu::TargetId;
use crate::split::Plan;

/// Libraries that ROCm does not build for all GPUs, and that others do without: the projects in `EXCLUDE_TARGET_PROJECTS`
/// of ROCm/TheRock 02eb4a57, `cmake/therock_amdgpu_targets.cmake`.
const NOT_FOR_ALL: [&str; 3] = ["hipblaslt", "hipsparselt", "rccl"];

impl CollectReport {
    /// Adds the split libraries whose archives are there and have no code for them, or cannot be read.
    pub(crate) fn add_unjoined(&mut self, split: &BTreeSet<String>, plan: &Plan, gpus: &[TargetId]) {
        let joined: BTreeSet<_> = plan.joined.iter().map(ToString::to_string).collect();
        for path in split.difference(&joined) {
            if self.lacks_archive(path) {
                continue;
            }
            let begin = format!("{path}: ");
            let warning = plan.warnings.iter().find_map(|warning| warning.strip_prefix(&begin));
            let reason = warning.unwrap_or("its archives have no code for it");
            let gpus: Vec<_> = gpus.iter().map(ToString::to_string).collect();
            self.missing.push(MissingPiece {
                kind: MissingKind::Code,
                name: format!("code for {}", gpus.join(", ")),
                by: path.clone(),
                reason: format!("{reason}; name a tree that has its archives of the same version"),
            });
        }
    }

    fn lacks_archive(&self, library: &str) -> bool {
        self.missing.iter().any(|it| it.kind == MissingKind::Archive && it.by == library)
    }

    /// Whether it is said already that the database of a library is nowhere.
    fn lacks_whole(&self, failure: &CoverageFailure, coverage: &Coverage) -> bool {
        let databases = || coverage.found.databases.iter().filter(|it| it.path == failure.path);
        let is_of = |by: &str| {
            let read = std::str::from_utf8(name_of(by)).ok().and_then(Handler::read_by);
            read.is_some_and(|(handler, _)| databases().any(|it| it.library == handler.name()))
        };
        self.missing.iter().any(|it| it.kind == MissingKind::Data && is_of(&it.by))
    }

    /// Adds the libraries and databases without code for a GPU that others have. `coverage` is that of the result.
    pub(crate) fn add_uncovered(&mut self, coverage: &Coverage) {
        for failure in coverage.failures.iter().chain(&coverage.remarks) {
            if self.lacks_archive(&failure.path) || self.lacks_whole(failure, coverage) {
                continue;
            }
            let remedy = match self.reason_of(&failure.path) {
                Some(Reason::App) => "build it for this GPU, too",
                _ => "name a tree that has its code for this GPU first, or leave this GPU out",
            };
            let (kind, what) = match failure.what {
                FailureKind::Database => (MissingKind::Database, "files"),
                FailureKind::Library | FailureKind::Wrapper => (MissingKind::Code, "code"),
            };
            let piece = MissingPiece {
                kind,
                name: failure.file.clone().unwrap_or_else(|| format!("{what} for {}", failure.target)),
                by: failure.path.clone(),
                reason: format!("{}; {remedy}", failure.reason),
            };
            if self.is_required(failure, coverage) { self.missing.push(piece) } else { self.absent.push(piece) }
        }
    }

    fn reason_of(&self, path: &str) -> Option<&Reason> {
        self.files.iter().find(|file| file.path == path).map(|file| &file.reason)
    }

    /// Whether nothing works without this code. Libraries that are not collected may read a database, except that of rocBLAS,
    /// which ends the process without it (`tensile_host.cpp`).
    fn is_required(&self, failure: &CoverageFailure, coverage: &Coverage) -> bool {
        match failure.what {
            FailureKind::Library => {
                let is_for_all = stem(name_of(&failure.path)).is_none_or(|stem| !NOT_FOR_ALL.contains(&stem));
                let reason = self.reason_of(&failure.path);
                is_for_all && matches!(reason, Some(Reason::App | Reason::Needed | Reason::Included))
            }
            FailureKind::Database => {
                let is_needed =
                    |it: &CoveredDatabase| it.lacks(&failure.target) || it.library == Handler::Rocblas.name();
                coverage.found.databases.iter().any(|it| it.path == failure.path && is_needed(it))
            }
            FailureKind::Wrapper => false,
        }
    }
}

fn name_of(path: &str) -> &[u8] {
    path.rsplit('/').next().unwrap_or(path).as_bytes()
}
