//! Findings, and how much has been checked.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;

use crate::index::Counter;

/// What was found.
#[derive(Debug, Serialize)]
pub struct Report {
    /// How much has been checked.
    pub counts: Counts,
    /// What is wrong, sorted by path.
    pub findings: Vec<Finding>,
}

/// How much has been checked.
#[derive(Debug, Default, Serialize)]
pub struct Counts {
    /// Files looked at.
    pub files: Counter,
    /// Split binaries among them.
    pub binaries: Counter,
    /// Wrappers of these.
    pub wrappers: Counter,
    /// Archives.
    pub archives: Counter,
    /// Code objects in archives that have been read.
    pub code_objects: Counter,
    /// Bytes of these.
    pub code_bytes: Counter,
    /// Wrapper and target pairs that have been looked up as a runtime does.
    pub lookups: Counter,
    /// Files compared with what a RECORD states.
    pub recorded_files: Counter,
    /// Code objects compared with those of the fat input.
    pub compared_code_objects: Counter,
    /// Files compared with those of the fat input.
    pub compared_files: Counter,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// The file it concerns.
    pub path: String,
    /// What was being checked.
    pub check: Check,
    /// What is wrong, in words.
    pub reason: String,
}

/// What a finding comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Check {
    /// A binary by itself.
    Binary,
    /// An archive by itself.
    Archive,
    /// The way from wrappers to code objects.
    Lookup,
    /// Manifests and names of artifacts.
    Artifact,
    /// What wheels state about their files.
    Record,
    /// What belongs into which part.
    Separation,
    /// The comparison with the fat input.
    Against,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, self.reason)
    }
}

/// Where all threads put what they find.
#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) counts: Counts,
    found: Mutex<Vec<Finding>>,
}

impl Findings {
    pub(super) fn add(&self, check: Check, path: impl Into<String>, reason: impl fmt::Display) {
        let finding = Finding { path: path.into(), check, reason: reason.to_string() };
        self.found.lock().unwrap_or_else(PoisonError::into_inner).push(finding);
    }

    /// How many there are.
    pub(super) fn number(&self) -> usize {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The same findings in the same order, whichever thread was faster.
    pub(super) fn into_report(self) -> Report {
        let mut findings = self.found.into_inner().unwrap_or_else(PoisonError::into_inner);
        findings.sort();
        findings.dedup();
        Report { counts: self.counts, findings }
    }
}

/// `0, 1, 2 and 5 more`: a list for people that does not get long.
pub(super) fn enumerate<T: fmt::Display>(items: &[T]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<_> = items.iter().take(SHOWN).map(ToString::to_string).collect();
    match items.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
