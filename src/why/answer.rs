//! The answer as data. `docs/json.md` describes it as JSON, and `docs/why-json.md` for tools that build on it.

use std::collections::BTreeSet;

use serde::Serialize;

use super::cause::Cause;
use super::lookup::Lookup;
use crate::coverage::Trail;

/// The answer.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Explanation {
    /// Whether every library has code for every GPU.
    pub found: bool,
    /// The kind of the answer.
    pub status: AnswerStatus,
    /// A sentence with the result, or the first cause.
    pub sentence: String,
    /// A shell command that fixes it.
    pub command: Option<String>,
    /// All causes, the one to fix first at the beginning.
    pub causes: Vec<FoundCause>,
    /// The look-ups of each library and GPU.
    pub lookups: Vec<Lookup>,
    /// The look-ups of each kernel database and GPU.
    pub databases: Vec<DatabaseLookup>,
    /// Files that could not be read, with reasons.
    pub unread: Vec<String>,
    /// What was not looked at.
    #[serde(skip)]
    pub left_out: BTreeSet<String>,
}

/// The kind of an answer. Each has an exit code of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum AnswerStatus {
    /// Every library has code for every GPU.
    #[default]
    Found,
    /// A library or a database has no code for a GPU, or there is no GPU.
    NoCode,
    /// All that could be read has code, and something could not be read.
    Unreadable,
    /// Nothing there has device code, or no GPU is known.
    Nothing,
    /// Something that was named is not understood, or is not there, and all else has code.
    Unknown,
}

/// A cause, and what it concerns.
#[derive(Debug, Serialize)]
pub(crate) struct FoundCause {
    /// The cause.
    #[serde(flatten)]
    pub cause: Cause,
    /// The GPUs.
    pub targets: Vec<String>,
    /// The libraries, or the directories of databases.
    pub paths: Vec<String>,
}

/// The look-up of a kernel database for a GPU.
#[derive(Debug, Default, Serialize)]
pub(crate) struct DatabaseLookup {
    /// The handler: `rocblas`, `miopen`, …
    pub database: &'static str,
    /// The library that reads it.
    pub library: String,
    /// The directory in which that library finds it, if it is there.
    pub directory: Option<String>,
    /// The GPU's own name.
    pub target: String,
    /// Whether the library finds what the GPU needs. A library that is not built for the GPU finds nothing, without a
    /// cause.
    pub found: bool,
    /// Why the library finds no kernels there.
    pub cause: Option<Cause>,
    /// What makes the library slow, or what it does without, although it works.
    pub remark: Option<Cause>,
    /// Why the library finds nothing, if it may not be built for the GPU.
    #[serde(skip)]
    pub not_built: Option<Cause>,
    /// Evidence, in the order in which the library would find it.
    pub evidence: Trail,
}

impl DatabaseLookup {
    /// Its cause, with what it concerns.
    pub(super) fn failure(&self) -> Option<(&Cause, &String, &String)> {
        Some((self.cause.as_ref()?, &self.target, self.directory.as_ref().unwrap_or(&self.library)))
    }

    /// Whether nothing is there for the GPU, and the library works without it.
    pub(super) fn is_empty(&self) -> bool {
        !self.found && self.cause.is_none() && self.not_built.is_none() && self.remark.is_none()
    }
}

impl Explanation {
    /// The answer if there is no GPU, for one cause.
    pub(super) fn without_gpu(cause: Cause) -> Self {
        Self {
            status: AnswerStatus::NoCode,
            sentence: format!("runtimes find no GPU: {}", cause.reason),
            command: cause.command.clone(),
            causes: vec![FoundCause { cause, targets: Vec::new(), paths: Vec::new() }],
            ..Self::default()
        }
    }

    /// The answer if nothing could be looked up.
    pub(crate) fn failed(status: AnswerStatus, sentence: String) -> Self {
        Self { status, sentence, ..Self::default() }
    }

    /// What may be wrong with what is found, with the libraries.
    pub(crate) fn remarks(&self) -> Vec<FoundCause> {
        let of_code = self.lookups.iter().map(|it| (&it.remark, &it.target, &it.library));
        let of_databases = self.databases.iter().map(|it| (&it.remark, &it.target, &it.library));
        let remarks = of_code.chain(of_databases);
        FoundCause::group(remarks.filter_map(|(remark, target, library)| Some((remark.as_ref()?, target, library))))
    }
}

impl FoundCause {
    /// Causes, each with all the targets and paths that it comes with.
    pub(super) fn group<'a>(causes: impl Iterator<Item = (&'a Cause, &'a String, &'a String)>) -> Vec<Self> {
        let mut groups = Vec::<Self>::new();
        for (cause, target, path) in causes {
            let Some(known) = groups.iter_mut().find(|it| it.cause == *cause) else {
                groups.push(Self { cause: cause.clone(), targets: vec![target.clone()], paths: vec![path.clone()] });
                continue;
            };
            for (list, text) in [(&mut known.targets, target), (&mut known.paths, path)] {
                if !list.contains(text) {
                    list.push(text.clone());
                }
            }
        }
        groups
    }
}
