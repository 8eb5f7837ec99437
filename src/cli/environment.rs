//! Where the packages of a Python environment are.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::memory::Parser;
use crate::source::{DirectoryListing, EntryPath};
use crate::wheel::{Claims, normalise};

/// The directories of packages that an interpreter imports from.
const SITES: &str =
    "import os, sys; sys.stdout.write('\\0'.join(p for p in sys.path if p.endswith('-packages') and os.path.isdir(p)))";

/// A Python environment.
pub(super) enum PythonEnvironment {
    /// The directory of a virtual environment, or of one of conda.
    Prefix(PathBuf),
    /// An interpreter.
    Interpreter(PathBuf),
}

impl PythonEnvironment {
    /// The one that the user named, by its interpreter or by its directory.
    pub(super) fn named(python: &Path) -> Self {
        let interpreter = if python.is_dir() { interpreter_in(python) } else { python.to_owned() };
        Self::Interpreter(interpreter)
    }

    /// The one that is activated, or that of `python3`.
    pub(super) fn active(variables: &BTreeMap<OsString, OsString>) -> Self {
        let value = |name| variables.get(OsStr::new(name)).filter(|value| !value.is_empty());
        match ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().find_map(value) {
            Some(prefix) => Self::Prefix(prefix.into()),
            None => Self::Interpreter("python3".into()),
        }
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Prefix(path) | Self::Interpreter(path) => path,
        }
    }

    /// What is examined of it: libraries of a conda environment are next to its packages.
    pub(super) fn places(&self) -> anyhow::Result<Vec<PathBuf>> {
        match self {
            Self::Prefix(prefix) => Ok(vec![prefix.clone()]),
            Self::Interpreter(_) => self.sites(),
        }
    }

    /// The directories of its packages, as its interpreter says. This starts a program.
    pub(super) fn sites(&self) -> anyhow::Result<Vec<PathBuf>> {
        let python = match self {
            Self::Prefix(prefix) => interpreter_in(prefix),
            Self::Interpreter(python) => python.clone(),
        };
        let shown = python.display();
        let output = Command::new(&python).args(["-c", SITES]).output();
        let output = output
            .with_context(|| format!("--python {shown}: name an interpreter, or the directory of an environment"))?;
        if !output.status.success() || output.stdout.is_empty() {
            bail!("--python {shown}: it does not say where its packages are");
        }
        Ok(output.stdout.split(|byte| *byte == 0).map(|site| OsStr::from_bytes(site).into()).collect())
    }
}

fn interpreter_in(prefix: &Path) -> PathBuf {
    let found = ["bin/python", "bin/python3"].map(|name| prefix.join(name)).into_iter().find(|path| path.exists());
    found.unwrap_or_else(|| prefix.join("bin/python"))
}

/// Whether a word may be the name of a package, and is no path. Names with dots look like those of files.
pub(super) fn is_package(word: &Path) -> bool {
    is_name(word) && word.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

fn is_name(word: &Path) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    word.as_os_str().as_bytes().iter().all(is_part)
}

/// The names of the packages that are installed, also those by which they are imported.
pub(super) fn packages_in(sites: &[PathBuf]) -> Vec<String> {
    let listings: Vec<_> = sites.iter().filter_map(|site| DirectoryListing::read(site).ok()).collect();
    let names = listings.iter().flat_map(DirectoryListing::directories);
    names.filter_map(|entry| distribution(&entry.name).or(entry.name.to_str())).map(str::to_owned).collect()
}

/// The name of the distribution that a dist-info directory is of.
fn distribution(directory: &OsStr) -> Option<&str> {
    Some(directory.to_str()?.strip_suffix(".dist-info")?.split_once('-')?.0)
}

/// The libraries of an installed distribution, by its RECORD, or the directory that is imported by this name; `None` if there
/// is neither.
pub(super) fn libraries_of(word: &Path, sites: &[PathBuf]) -> anyhow::Result<Option<Vec<PathBuf>>> {
    let wanted = normalise(&word.to_string_lossy());
    let is_wanted = |directory: &OsStr| distribution(directory).is_some_and(|name| normalise(name) == wanted);
    for site in sites {
        let listing = DirectoryListing::read(site)?;
        if let Some(found) = listing.directories().find(|entry| is_wanted(&entry.name)) {
            let record = site.join(&found.name).join("RECORD");
            let bytes = crate::disk::read(&record, Parser::Record).with_context(|| record.display().to_string())?;
            let claims = Claims::parse(&bytes);
            let paths = claims.rows().filter_map(|(path, _)| EntryPath::new(path).ok());
            let libraries = paths.filter(|path| memchr::memmem::find(path.name(), b".so").is_some());
            let libraries: Vec<_> = libraries.map(|path| site.join(path.as_path())).filter(|it| it.exists()).collect();
            if libraries.is_empty() {
                bail!("{}: the package has no libraries; name the one that has them", record.display());
            }
            return Ok(Some(libraries));
        }
    }
    let mut imported = sites.iter().map(|site| site.join(word)).filter(|path| is_name(word) && path.is_dir());
    Ok(imported.next().map(|path| vec![path]))
}
