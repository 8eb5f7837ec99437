//! Statements of splits on a disk: `.kpackfs/split.json` in the directory of a split.

use std::fmt::Display;
use std::path::Path;

use anyhow::anyhow;

use super::error::NotUnderstood;
use crate::gpu::{BundleKey, GpuSet};
use crate::memory::{Parser, WholeFile};
use crate::source::{EntryPath, Input, SourceError};
use crate::split::{FAT, MERGED, STATEMENT, Statement, THIN};
use crate::view::REPORTS;
use crate::{disk, wheel};

/// A statement, and its path.
#[derive(Clone, Debug, Default)]
pub struct LocatedStatement {
    /// Its path, for messages.
    pub path: String,
    /// What it says.
    pub statement: Statement,
}

/// That the input of the mount around a directory has changed; `None` outside of mounts by kpackfs.
fn changed_mount(directory: &Path) -> Option<anyhow::Error> {
    let (mounts, place) = (disk::list_all_mounts().ok()?, here(directory).canonicalize().ok()?);
    let mount = disk::mount_around(&mounts, &place).filter(|mount| mount.kind == disk::KPACKFS)?;
    Some(NotUnderstood::ChangedMount(mount.mount_point.clone()).into())
}

/// The statement in a `*.dist-info` directory; `None` if there is none that can be read.
pub fn statement_in(input: &Input, dist_info: &EntryPath) -> Option<Statement> {
    let path = dist_info.child(wheel::STATEMENT.as_bytes());
    let bytes = WholeFile::of(Parser::Statement, &**input.content(&path)?).ok()?;
    Statement::parse(&bytes).ok()
}

/// The GPUs of a thin wheel, by the statement in it; `None` for any other input.
pub fn thin_gpus(wheel: &Input) -> Option<GpuSet> {
    statement_in(wheel, wheel.dist_info()?)?.thin()
}

/// The same directory; the current one has no empty path.
fn here(directory: &Path) -> &Path {
    if directory.as_os_str().is_empty() { Path::new(".") } else { directory }
}

impl LocatedStatement {
    /// The statement in the output of `split` or in a mount; `None` if there is none.
    pub fn of_split(directory: &Path) -> anyhow::Result<Option<Self>> {
        Self::read(directory, STATEMENT)
    }

    /// The statement of this name in the output of `split` or in a mount; `None` if there is none.
    pub fn read(directory: &Path, name: &str) -> anyhow::Result<Option<Self>> {
        let path = directory.join(REPORTS).join(name);
        if !path.is_file() {
            return Ok(None);
        }
        let bytes = disk::read(&path, Parser::Statement).map_err(|error| {
            let is_stale = error.raw_os_error() == Some(libc::ESTALE);
            let changed = is_stale.then(|| changed_mount(directory)).flatten();
            changed.unwrap_or_else(|| SourceError::at(&path)(error).into())
        })?;
        Self::parse(path.display().to_string(), &bytes).map(Some)
    }

    /// The statement of the split to which a directory belongs as a part, a merged view or a thin view.
    pub fn of_part(part: &Path) -> anyhow::Result<Option<Self>> {
        let Ok(real) = part.canonicalize() else { return Ok(None) };
        // What was joined is no part of a split any more.
        let name = real.file_name().filter(|name| *name != FAT);
        let (Some(name), Some(directory)) = (name, real.parent()) else { return Ok(None) };
        let is_whole = directory.ends_with(MERGED) || directory.ends_with(THIN);
        let level = if is_whole { 2 } else { 1 };
        let Some(directory) = real.ancestors().nth(level) else { return Ok(None) };
        // Messages have the path as it was given, unless it leads elsewhere through a symlink or `..`.
        let given = part.ancestors().nth(level);
        let given = given.filter(|given| here(given).canonicalize().is_ok_and(|it| it == directory));
        let directory = given.unwrap_or(directory);
        let is_of =
            |it: &Self| it.parts().is_ok_and(|parts| parts.iter().any(|part| part.as_path() == Path::new(name)));
        Ok(Self::of_split(directory)?.filter(|it| is_whole || is_of(it)))
    }

    /// Parses a statement.
    pub fn parse(path: String, bytes: &[u8]) -> anyhow::Result<Self> {
        Ok(Self { statement: Statement::parse(bytes).map_err(|error| unusable(&path, &error))?, path })
    }

    /// The error of a field that cannot be used.
    pub fn failed(&self, error: &impl Display) -> anyhow::Error {
        unusable(&self.path, error)
    }

    /// The targets laid over the host part.
    pub fn arch(&self) -> anyhow::Result<Vec<BundleKey>> {
        self.statement.arch().map_err(|error| self.failed(&error))
    }

    /// The parts that must exist.
    pub fn parts(&self) -> anyhow::Result<Vec<EntryPath>> {
        self.statement.parts().map_err(|error| self.failed(&error))
    }
}

fn unusable(path: &str, error: &impl Display) -> anyhow::Error {
    anyhow!("{path}: this statement of a split cannot be read: {error}; split again, or copy the whole output again")
}
