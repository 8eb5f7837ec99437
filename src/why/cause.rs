//! Causes of missing code.

use serde::Serialize;

use crate::coverage::CauseKind;

/// A cause, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Cause {
    /// Its kind.
    #[serde(rename = "id")]
    pub kind: CauseKind,
    /// One sentence without its full stop.
    pub reason: String,
    /// A shell command, if there is one.
    pub command: Option<String>,
}

impl Cause {
    pub(super) fn new(kind: CauseKind, reason: impl Into<String>, command: Option<String>) -> Self {
        Self { kind, reason: reason.into(), command }
    }

    /// Adds to the reason.
    pub(super) fn add(&mut self, text: &str) {
        self.reason.push_str(text);
    }

    /// With an addition to the reason, if there is one.
    #[must_use]
    pub(super) fn with(mut self, text: Option<&str>) -> Self {
        self.add(text.unwrap_or_default());
        self
    }
}

/// Whether a cause says no more than that the code is not where it was looked for.
pub(super) fn is_of_place(kind: CauseKind) -> bool {
    use CauseKind::{ArchiveAlone, ArchivesNone, NoCode, NotInstalled, PackageMissing, PackageNone, PackageVersion};
    matches!(kind, PackageMissing | PackageVersion | PackageNone | NotInstalled | ArchivesNone | ArchiveAlone | NoCode)
}
