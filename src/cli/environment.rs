//! Where the packages of a Python environment are.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, PidfdFlags, geteuid, pidfd_open};

use crate::memory::Parser;
use crate::mount;
use crate::opened::is_environment;
use crate::source::{DirectoryListing, EntryPath};
use crate::threads;
use crate::wheel::{Claims, normalise};
use crate::why::source_tree;

/// The directories of packages that an interpreter imports from.
const SITES: &str =
    "import os, sys; sys.stdout.write('\\0'.join(p for p in sys.path if p.endswith('-packages') and os.path.isdir(p)))";

/// How long an interpreter may take to answer. Some are on file servers; wrappers of others wait for a user.
const PATIENCE: Duration = Duration::from_secs(30);

/// The most that an interpreter may print.
const MOST_PRINTED: u64 = 1 << 20;

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

    /// The one that is activated, or that of the project (docs.astral.sh/uv, "Discovery of Python environments"), or of `python3`.
    /// The project's has to be of this user or of root, since its interpreter is run: anyone may create `/tmp/.venv`.
    pub(super) fn active(variables: &BTreeMap<OsString, OsString>) -> Self {
        let value = |name| variables.get(OsStr::new(name)).filter(|value| !value.is_empty()).map(PathBuf::from);
        let here = std::env::current_dir().unwrap_or_default();
        let is_one = |it: &PathBuf| DirectoryListing::read(it).is_ok_and(|listing| is_environment(&listing));
        let is_own = |it: &PathBuf| it.symlink_metadata().is_ok_and(|it| [0, geteuid().as_raw()].contains(&it.uid()));
        let of_project = || here.ancestors().map(|it| it.join(".venv")).find(|it| is_own(it) && is_one(it));
        let prefix = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().find_map(value).or_else(of_project);
        prefix.map_or_else(|| Self::Interpreter("python3".into()), Self::Prefix)
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
        let printed = printed_by(&python, PATIENCE).with_context(|| {
            format!("{shown}: let --python name an interpreter, or the directory of an environment")
        })?;
        let Some(printed) = printed else { bail!("{shown}: it does not say where its packages are") };
        Ok(printed.split(|byte| *byte == 0).map(|site| OsStr::from_bytes(site).into()).collect())
    }
}

/// What an interpreter answers; `None` if that is nothing or too much, or if it fails or takes too long.
fn printed_by(python: &Path, patience: Duration) -> anyhow::Result<Option<Vec<u8>>> {
    let mut command = Command::new(python);
    command.args(["-c", SITES]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let printed = printed_within(&mut child, patience);
    // It may go on without output.
    child.kill()?;
    let is_answer = child.wait()?.success();
    Ok(printed?.filter(|printed| is_answer && (1..MOST_PRINTED).contains(&(printed.len() as u64))))
}

/// What a process prints until it ends; `None` if that takes too long.
fn printed_within(child: &mut Child, patience: Duration) -> anyhow::Result<Option<Vec<u8>>> {
    let limit = Instant::now() + patience;
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let (sender, receiver) = mpsc::channel();
    let stdout = child.stdout.take();
    // Processes that it has started may hold the pipe longer than it lives.
    threads::spawn("python", move || {
        let mut printed = Vec::new();
        let read = stdout.map(|stdout| stdout.take(MOST_PRINTED).read_to_end(&mut printed));
        sender.send(read.is_some_and(|read| read.is_ok()).then_some(printed)).ok();
    })?;
    let printed = receiver.recv_timeout(patience).ok().flatten();
    mount::ends(&process, limit);
    Ok(printed)
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
            if let Some(tree) = source_tree(&site.join(&found.name)).filter(|_| libraries.is_empty()) {
                let (record, tree) = (record.display(), tree.display());
                bail!(
                    "{record}: the installation is editable, and its sources in {tree} are not searched; name that directory"
                );
            }
            if libraries.is_empty() {
                bail!("{}: the package has no libraries; name the one that has them", record.display());
            }
            return Ok(Some(libraries));
        }
    }
    let mut imported = sites.iter().map(|site| site.join(word)).filter(|path| is_name(word) && path.is_dir());
    Ok(imported.next().map(|path| vec![path]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_has_to_answer_in_time_and_without_failure() {
        assert!(printed_by("python3".as_ref(), PATIENCE).unwrap().is_some_and(|printed| printed.starts_with(b"/")));
        assert_eq!(printed_by("python3".as_ref(), Duration::ZERO).unwrap(), None);
        // It prints a number, and finds nothing.
        assert_eq!(printed_by("grep".as_ref(), PATIENCE).unwrap(), None);
    }
}
