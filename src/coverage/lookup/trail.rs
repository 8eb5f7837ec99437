//! What was seen on the way to the files of a GPU.

use serde::Serialize;

/// An observation or a conclusion.
#[derive(Debug, Serialize)]
pub(crate) struct Evidence {
    /// Whether it follows from how runtimes work, without being observed.
    pub model: bool,
    /// The text.
    pub text: String,
}

/// What was seen on the way to the files of a GPU.
#[derive(Debug, Default)]
pub(crate) struct LookupEvidence {
    /// The directory in which the library finds its database, if it is there.
    pub(crate) directory: Option<String>,
    pub(crate) evidence: Vec<Evidence>,
}

impl LookupEvidence {
    pub(super) fn saw(&mut self, text: impl Into<String>) {
        self.evidence.push(Evidence { model: false, text: text.into() });
    }

    pub(super) fn follows(&mut self, text: impl Into<String>) {
        self.evidence.push(Evidence { model: true, text: text.into() });
    }
}
