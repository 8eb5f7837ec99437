//! Files that the commands of `kpack` write. All names are checked before the first file is written.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use tempfile::{Builder, NamedTempFile};

use super::inputs::Inputs;
use super::output::refuse_existing;

/// Whether existing files are replaced.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct Replacing {
    /// Replace existing files
    #[arg(long)]
    force: bool,
}

/// Files to write: the path of each, what it is made of, and how it is named in messages.
pub(super) struct NewFiles<T> {
    files: BTreeMap<PathBuf, (String, T)>,
    replacing: Replacing,
}

impl<T> NewFiles<T> {
    pub(super) fn new(replacing: Replacing) -> Self {
        Self { files: BTreeMap::new(), replacing }
    }

    /// Adds a file. Fails if another one has the same path.
    pub(super) fn add(&mut self, path: PathBuf, name: String, source: T) -> anyhow::Result<()> {
        if let Some((other, _)) = self.files.get(&path) {
            let path = path.display();
            bail!(
                "{path}: both {other} and {name} would be written to it; write them one at a time, to different names"
            );
        }
        self.files.insert(path, (name, source));
        Ok(())
    }

    /// Writes all files by `write`, or none if one of them may not be written.
    pub(super) fn write(
        &self,
        inputs: &Inputs,
        write: impl Fn(&T, &mut NamedTempFile, &Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.check(inputs)?;
        for (path, (_, source)) in &self.files {
            let directory = parent(path);
            fs::create_dir_all(directory).with_context(|| directory.display().to_string())?;
            let mut name = Builder::new();
            name.prefix(".kpackfs-").suffix(".partial").permissions(fs::Permissions::from_mode(0o666));
            let mut file = name.tempfile_in(directory).with_context(|| path.display().to_string())?;
            write(source, &mut file, path)?;
            let persisted = if self.replacing.force { file.persist(path) } else { file.persist_noclobber(path) };
            persisted.with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// Fails if a file would be written to an input, in place of something else, or where a directory has to be.
    fn check(&self, inputs: &Inputs) -> anyhow::Result<()> {
        // A path sorts right before the paths below it.
        for ((outer, (name, _)), (inner, (other, _))) in self.files.iter().zip(self.files.iter().skip(1)) {
            if inner.starts_with(outer) {
                let path = outer.display();
                bail!("{path}: it would be a file for {name}, and a directory for {other}; write them one at a time");
            }
        }
        self.files.keys().try_for_each(|path| inputs.check(path))?;
        if let Some(other) = self.files.keys().find(|path| is_no_file(path)) {
            bail!("{}: it is no regular file, and is not replaced by one; name another output", other.display());
        }
        let taken: Vec<_> =
            self.files.keys().map(PathBuf::as_path).filter(|it| it.symlink_metadata().is_ok()).collect();
        if self.replacing.force { Ok(()) } else { refuse_existing(&taken) }
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether there is a directory, a device or the like. A symlink to a device, such as /dev/stdout, is not replaced either.
fn is_no_file(path: &Path) -> bool {
    path.metadata().is_ok_and(|existing| !existing.is_file() && !existing.is_dir())
        || path.symlink_metadata().is_ok_and(|existing| existing.is_dir())
}
