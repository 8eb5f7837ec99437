//! Statements of splits: their restrictions and parts.

use std::path::Path;

use super::error::VerifyError;
use super::report::Findings;
use super::rules::Rule;
use crate::disk;
use crate::gpu::BundleKey;
use crate::memory::Parser;
use crate::source::{EntryPath, SourceError};
use crate::split::{STATEMENT, Statement, StatementError};
use crate::view::{MERGED, REPORTS, THIN};

/// A statement, and its path.
#[derive(Clone, Debug, Default)]
pub(super) struct LocatedStatement {
    pub(super) path: String,
    pub(super) statement: Statement,
}

/// The same directory; the current one has no empty path.
fn here(directory: &Path) -> &Path {
    if directory.as_os_str().is_empty() { Path::new(".") } else { directory }
}

impl LocatedStatement {
    /// The statement of this name in the output of `split` or in a mount; `None` if there is none.
    pub(super) fn read(directory: &Path, name: &str) -> Result<Option<Self>, VerifyError> {
        let path = directory.join(REPORTS).join(name);
        if !path.is_file() {
            return Ok(None);
        }
        let io = |source| SourceError::Io { path: path.clone(), source };
        let bytes = disk::read(&path, Parser::Statement).map_err(io)?;
        Self::parse(path.display().to_string(), &bytes).map(Some)
    }

    /// The statement of the split to which a directory belongs as a part, a merged view or a thin view.
    pub(super) fn of_part(part: &Path) -> Result<Option<Self>, VerifyError> {
        let Ok(real) = part.canonicalize() else { return Ok(None) };
        let (Some(name), Some(directory)) = (real.file_name(), real.parent()) else { return Ok(None) };
        let is_whole = directory.ends_with(MERGED) || directory.ends_with(THIN);
        let level = if is_whole { 2 } else { 1 };
        let Some(directory) = real.ancestors().nth(level) else { return Ok(None) };
        // Messages have the path as it was given, unless it leads elsewhere through a symlink or `..`.
        let given = part.ancestors().nth(level);
        let given = given.filter(|given| here(given).canonicalize().is_ok_and(|it| it == directory));
        let directory = given.unwrap_or(directory);
        let is_of =
            |it: &Self| it.parts().is_ok_and(|parts| parts.iter().any(|part| part.as_path() == Path::new(name)));
        Ok(Self::read(directory, STATEMENT)?.filter(|it| is_whole || is_of(it)))
    }

    pub(super) fn parse(path: String, bytes: &[u8]) -> Result<Self, VerifyError> {
        match Statement::parse(bytes) {
            Ok(statement) => Ok(Self { path, statement }),
            Err(source) => Err(VerifyError::Statement { path, source }),
        }
    }

    pub(super) fn failed(&self, source: impl Into<StatementError>) -> VerifyError {
        VerifyError::Statement { path: self.path.clone(), source: source.into() }
    }

    /// The targets laid over the host part.
    pub(super) fn arch(&self) -> Result<Vec<BundleKey>, VerifyError> {
        self.statement.arch().map_err(|source| self.failed(source))
    }

    /// The parts that must exist.
    pub(super) fn parts(&self) -> Result<Vec<EntryPath>, VerifyError> {
        self.statement.parts().map_err(|source| self.failed(source))
    }

    /// Compares the parts that must exist with those that do. `others` are directories that look like parts.
    pub(super) fn check_parts(
        &self,
        directory: &Path,
        others: impl IntoIterator<Item = String>,
        findings: &Findings,
    ) -> Result<(), VerifyError> {
        let parts = self.parts()?;
        for part in parts.iter().filter(|part| directory.join(part.as_path()).symlink_metadata().is_err()) {
            findings.add(
                Rule::PartMissing,
                part.to_string(),
                format!("{} names it, but there is no such directory", self.path),
            );
        }
        let is_named = |other: &String| parts.iter().any(|part| part.as_path() == Path::new(other));
        for other in others.into_iter().filter(|other| !is_named(other)) {
            findings.add(
                Rule::PartUnnamed,
                other,
                format!("{} does not name it: another split left it there", self.path),
            );
        }
        Ok(())
    }
}
