//! Statements of splits: their restrictions and parts.

use std::io::Read;
use std::path::Path;

use super::VerifyError;
use super::input::{Part, read_directory};
use super::report::{Check, Findings};
use crate::disk;
use crate::gpu::BundleKey;
use crate::rope::to_usize;
use crate::source::{EntryPath, SourceError};
use crate::split::{STATEMENT, Statement, StatementError, component_of_statement};
use crate::view::{MERGED, REPORTS, THIN};
use crate::wheel;

/// The longest statement that is read, in bytes.
const MOST_STATED: u64 = 1 << 20;

/// A statement, and its path.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    pub(super) path: String,
    pub(super) statement: Statement,
}

impl Said {
    /// The statement of this name in the output of `split` or in a mount; `None` if there is none.
    pub(super) fn read(directory: &Path, name: &str) -> Result<Option<Self>, VerifyError> {
        let path = directory.join(REPORTS).join(name);
        if !path.is_file() {
            return Ok(None);
        }
        let io = |source| SourceError::Io { path: path.clone(), source };
        let mut bytes = Vec::new();
        let (file, _) = disk::open(&path).map_err(io)?;
        Read::take(file, MOST_STATED).read_to_end(&mut bytes).map_err(io)?;
        Self::parse(path.display().to_string(), &bytes).map(Some)
    }

    /// The statement of the split to which a directory belongs as a part, a merged view or a thin view.
    pub(super) fn beside(part: &Path) -> Result<Option<Self>, VerifyError> {
        let Ok(part) = part.canonicalize() else { return Ok(None) };
        let (Some(name), Some(directory)) = (part.file_name(), part.parent()) else { return Ok(None) };
        let (directory, is_whole) = match directory.parent() {
            Some(above) if directory.ends_with(MERGED) || directory.ends_with(THIN) => (above, true),
            _ => (directory, false),
        };
        let said = Self::read(directory, STATEMENT)?;
        let has =
            |said: &Self| said.parts().is_ok_and(|parts| parts.iter().any(|part| part.as_path() == Path::new(name)));
        Ok(said.filter(|said| is_whole || has(said)))
    }

    /// The statement in a `*.dist-info` directory of the host part, if there is exactly one.
    pub(super) fn of_wheel(host: &Part) -> Result<Option<Self>, VerifyError> {
        let is_it = |path: &EntryPath| {
            path.depth() == 2 && Part::is_metadata(path) && path.name() == wheel::STATEMENT.as_bytes()
        };
        let mut found = host.files().filter(|(path, content)| is_it(path) && content.size() <= MOST_STATED);
        let (Some((path, content)), None) = (found.next(), found.next()) else { return Ok(None) };
        let mut bytes = vec![0; to_usize(content.size())];
        match content.read_at(0, &mut bytes) {
            Ok(()) => Self::parse(host.label(path), &bytes).map(Some),
            // Comparing RECORD reports unreadable files.
            Err(_) => Ok(None),
        }
    }

    fn parse(path: String, bytes: &[u8]) -> Result<Self, VerifyError> {
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
        check: Check,
        findings: &Findings,
    ) -> Result<(), VerifyError> {
        let parts = self.parts()?;
        for part in parts.iter().filter(|part| directory.join(part.as_path()).symlink_metadata().is_err()) {
            findings.add(check, part.to_string(), format!("{} names it, but there is no such directory", self.path));
        }
        let is_named = |other: &String| parts.iter().any(|part| part.as_path() == Path::new(other));
        for other in others.into_iter().filter(|other| !is_named(other)) {
            findings.add(check, other, format!("{} does not name it: another split left it there", self.path));
        }
        Ok(())
    }
}

/// The components with statements in a directory of artifacts.
pub(super) fn components(directory: &Path) -> Result<Vec<String>, VerifyError> {
    let reports = directory.join(REPORTS);
    if !reports.is_dir() {
        return Ok(Vec::new());
    }
    let names = read_directory(&reports)?;
    let names = names.iter().filter_map(|path| component_of_statement(path.file_name()?.to_str()?));
    Ok(names.map(str::to_owned).collect())
}
