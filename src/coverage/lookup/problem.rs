//! What is wrong with a database, and the causes of this room.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::coverage::cause::{CauseKind, cause_kinds};
use crate::database::Handler;
use crate::text::quoted;

cause_kinds! { KINDS:
    DATABASE_MISSING "database-missing"
        "a library that reads kernels from files finds none of them for this GPU"
        "`pip install` of the package that has them; `export` of the library's variable, if they are elsewhere";
    DATABASE_FILE_MISSING "database-file-missing"
        "a file that a kernel database needs for this GPU is missing"
        "`pip install --force-reinstall --no-deps …`";
    DATABASE_DENIED "database-denied"
        "a file or the directory of a kernel database may not be read"
        "`chmod`";
    DATABASE_DAMAGED "database-damaged"
        "a file of a kernel database is empty, truncated, or for another GPU than its name says"
        "`pip install --force-reinstall --no-deps …`";
    DATABASE_VERSION "database-version"
        "files of a kernel database are of another version than the others"
        "`pip install --force-reinstall --no-deps …`";
    DATABASE_VARIABLE "database-variable"
        "an environment variable leads the library to a directory without kernels for this GPU"
        "`unset`, or `export` with the right directory";
    DATABASE_HIDDEN "database-hidden"
        "a directory that is named after the GPU hides the files for the GPU above it"
        "`rmdir` if it is empty";
    DATABASE_GENERIC "database-generic"
        "there are files for a generic target, which no released library reads, or not all of them"
        "`ln -s` for kernels that are looked for under the name of the GPU";
    DATABASE_MODE "database-mode"
        "the GPU is in another mode than the code of a kernel database needs"
        "`export HSA_XNACK=1`, or `unset HSA_XNACK`";
}

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
    pub(crate) kind: &'static CauseKind,
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
    pub(crate) fn new(kind: &'static CauseKind, reason: impl Into<String>, path: impl Into<PathBuf>) -> Self {
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
        Self::new(&DATABASE_DENIED, reason, place).mended_by(format!("chmod {mode} {}", quoted(place)))
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
