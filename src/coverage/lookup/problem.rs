//! What is wrong with a database.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::coverage::cause::CauseKind;
use crate::database::Handler;
use crate::text::quoted;

/// How much a problem says about a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Severity {
    /// What it needs is missing or damaged.
    Broken,
    /// A library that is not built for the GPU looks the same.
    NotBuilt,
    /// It works, without some of its kernels.
    Remark,
}

/// What is wrong with a database.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// Its kind.
    pub(crate) kind: CauseKind,
    /// One sentence without its full stop.
    pub(crate) reason: String,
    /// The file that is concerned, or the directory.
    pub(crate) path: PathBuf,
    /// What the library prints, and where its source says so.
    pub(crate) prints: Option<String>,
    /// A command that does not depend on where the files come from.
    pub(crate) command: Option<String>,
    pub(crate) severity: Severity,
}

impl Problem {
    pub(crate) fn new(kind: CauseKind, reason: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        let (reason, path) = (reason.into(), path.into());
        Self { kind, reason, path, prints: None, command: None, severity: Severity::Broken }
    }

    /// The problem of a file or a directory that may not be read, or of a directory above it that may not be entered.
    pub(crate) fn denied(path: &Path) -> Self {
        let above: Vec<_> = path.ancestors().skip(1).collect();
        let closed = above.into_iter().rev().find(|it| it.exists() && access(*it, Access::EXEC_OK).is_err());
        let place = closed.unwrap_or(path);
        let (what, mode) = match (closed, path.is_dir()) {
            (Some(_), _) => ("entered", "a+rx"),
            (None, true) => ("read", "a+rx"),
            (None, false) => ("read", "a+r"),
        };
        let reason = format!("{} may not be {what}", place.display());
        Self::new(CauseKind::DatabaseDenied, reason, place).mended_by(format!("chmod {mode} {}", quoted(place)))
    }

    #[must_use]
    pub(crate) fn printing(self, text: impl Into<String>) -> Self {
        Self { prints: Some(text.into()), ..self }
    }

    #[must_use]
    pub(crate) fn mended_by(self, command: impl Into<String>) -> Self {
        Self { command: Some(command.into()), ..self }
    }

    #[must_use]
    pub(crate) fn doubtful(self) -> Self {
        Self { severity: Severity::NotBuilt, ..self }
    }

    #[must_use]
    pub(crate) fn remark(self) -> Self {
        Self { severity: Severity::Remark, ..self }
    }

    /// Whether the library does not work for the GPU. Some are not built for all GPUs, except rocBLAS, which ends the process.
    /// `has_code` is whether the library has code of its own for the GPU, `is_named` whether the user asks about it.
    pub(crate) fn is_failure(&self, handler: Handler, has_code: bool, is_named: bool) -> bool {
        let is_optional = handler.reader().is_some_and(|reader| reader.is_optional);
        let is_needed = has_code || is_named || handler == Handler::Rocblas;
        !is_optional && (self.severity == Severity::Broken || self.severity == Severity::NotBuilt && is_needed)
    }
}
