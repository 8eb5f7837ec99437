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

/// What was seen and what follows from it, in order.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Trail(Vec<Evidence>);

/// What was seen on the way to the files of a GPU.
#[derive(Debug, Default)]
pub(crate) struct LookupEvidence {
    /// The directory in which the library finds its database, if it is there.
    pub(crate) directory: Option<String>,
    pub(crate) trail: Trail,
}

impl Trail {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Evidence> {
        self.0.iter()
    }

    pub(crate) fn extend(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    pub(crate) fn saw(&mut self, text: impl Into<String>) {
        self.0.push(Evidence { model: false, text: text.into() });
    }

    pub(crate) fn follows(&mut self, text: impl Into<String>) {
        self.0.push(Evidence { model: true, text: text.into() });
    }
}
