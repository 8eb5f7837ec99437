//! The statement that `split` writes with its parts for `verify`: the restrictions and the list of parts.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::output::Output;
use super::terminal::message;
use crate::source::EntryPath;
use crate::split::Statement;
use crate::view::REPORTS;

/// A statement, and parts of an earlier split that are replaced in addition to those with the same names.
pub(super) struct StatementChange {
    file: PathBuf,
    statement: Statement,
    replaced: Vec<PathBuf>,
}

impl StatementChange {
    /// The statement for `output` after the parts are written. If they are a whole split, it replaces the earlier
    /// statement; otherwise the parts are added to that. `is_part` says whether a name can be that of a part, since
    /// nothing else may be replaced.
    pub(super) fn new(
        output: &Path,
        name: &str,
        statement: Statement,
        is_whole: bool,
        is_part: impl Fn(&EntryPath) -> bool,
    ) -> anyhow::Result<Self> {
        let file = output.join(REPORTS).join(name);
        let mut stated = Self { statement, replaced: Vec::new(), file };
        let Some(earlier) = stated.earlier()? else { return Ok(stated) };
        let mut there = earlier.parts()?;
        there.retain(|part| is_part(part));
        if is_whole {
            there.retain(|part| output.join(part.as_path()).symlink_metadata().is_ok());
            let new = stated.statement.parts()?;
            let is_below = |part: &EntryPath, other: &EntryPath| part != other && part.below(other).is_some();
            let is_gone =
                |part: &EntryPath| new.contains(part) || new.iter().chain(&there).any(|other| is_below(part, other));
            let replaced = there.iter().filter(|part| !is_gone(part));
            stated.replaced = replaced.map(|part| output.join(part.as_path())).collect();
        } else {
            let earlier = earlier.with_parts(there.iter().map(ToString::to_string));
            stated.statement = stated.statement.after(earlier);
        }
        Ok(stated)
    }

    /// The statement of an earlier split.
    fn earlier(&self) -> anyhow::Result<Option<Statement>> {
        let name = || self.file.display().to_string();
        let bytes = match fs::read(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.with_context(name)?,
        };
        match Statement::parse(&bytes) {
            Ok(statement) => Ok(Some(statement)),
            Err(error) => {
                eprintln!("kpackfs: warning: {}", message(&format!("{}: {error}; it is replaced", name())));
                Ok(None)
            }
        }
    }

    /// Parts of an earlier split that the new one does not have.
    pub(super) fn replaced(&self) -> impl Iterator<Item = PathBuf> {
        self.replaced.iter().cloned()
    }

    /// Adds the statement to an output.
    pub(super) fn write(&self, output: &mut Output) -> anyhow::Result<()> {
        output.write_file(&self.file, &self.statement.to_json())
    }
}
