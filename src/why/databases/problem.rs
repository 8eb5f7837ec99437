//! What is wrong with a database, and the causes of this room.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use crate::why::cause::{CauseKind, cause_kinds};
use crate::why::lookup::quoted;

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

/// What is wrong with a database.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// Its kind.
    pub(super) kind: &'static CauseKind,
    /// One sentence without its full stop.
    pub(super) reason: String,
    /// The file that is concerned, or the directory.
    pub(super) path: PathBuf,
    /// What the library prints, and where its source says so.
    pub(super) prints: Option<String>,
    /// A command that does not depend on where the files come from.
    pub(super) command: Option<String>,
    /// Whether a library that is not built for the GPU looks the same.
    pub(super) is_doubtful: bool,
}

impl Problem {
    pub(super) fn new(kind: &'static CauseKind, reason: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        let (reason, path) = (reason.into(), path.into());
        Self { kind, reason, path, prints: None, command: None, is_doubtful: false }
    }

    /// The problem of a file or a directory that may not be read, or of a directory above it that may not be entered.
    pub(super) fn denied(path: &Path) -> Self {
        let above: Vec<_> = path.ancestors().skip(1).collect();
        let closed = above.into_iter().rev().find(|it| it.exists() && access(*it, Access::EXEC_OK).is_err());
        let place = closed.unwrap_or(path);
        let (what, mode) = match (closed, path.is_dir()) {
            (Some(_), _) => ("entered", "a+x"),
            (None, true) => ("read", "a+rx"),
            (None, false) => ("read", "a+r"),
        };
        let reason = format!("{} may not be {what}", place.display());
        Self::new(&DATABASE_DENIED, reason, place).mended_by(format!("chmod {mode} {}", quoted(place)))
    }

    #[must_use]
    pub(super) fn printing(self, text: impl Into<String>) -> Self {
        Self { prints: Some(text.into()), ..self }
    }

    #[must_use]
    pub(super) fn mended_by(self, command: impl Into<String>) -> Self {
        Self { command: Some(command.into()), ..self }
    }

    #[must_use]
    pub(super) fn doubtful(self) -> Self {
        Self { is_doubtful: true, ..self }
    }
}
