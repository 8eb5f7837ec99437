//! What a process has: its environment, and the files that it has mapped (proc(5)).

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::ensure;

use super::error::WhyError;
use super::library::open;
use crate::disk;
use crate::memory::Parser;
use crate::resources::Resources;
use crate::source::{SourceError, may_be_binary, open_file};

/// What the kernel appends to the path of a mapped file that was deleted or replaced since.
const DELETED: &[u8] = b" (deleted)";

/// What `why` asks of a process.
#[derive(Debug)]
pub(crate) struct Process {
    /// Its environment variables.
    pub variables: BTreeMap<OsString, OsString>,
    /// The files that it has mapped.
    pub mapped: Vec<PathBuf>,
    /// Why libraries that it has mapped cannot be examined as its runtime does: they are not at their paths.
    pub gone: Vec<String>,
}

impl Process {
    /// Reads what the kernel says about the process `id`.
    pub(crate) fn read(id: u32, resources: &Arc<Resources>) -> anyhow::Result<Self> {
        let directory = PathBuf::from(format!("/proc/{id}"));
        if !directory.exists() {
            ensure!(Path::new("/proc/self").exists(), "/proc/self: no such directory; mount /proc");
            return Err(WhyError::NoProcess(id).into());
        }
        let read = |name: &str| {
            let path = directory.join(name);
            disk::read(&path, Parser::Text).map_err(|source| SourceError::Io { path, source })
        };
        let (variables, maps) = (variables(&read("environ")?), read("maps")?);
        let mut process = Self { variables, mapped: Vec::new(), gone: Vec::new() };
        let mut seen = BTreeSet::new();
        for (range, name) in maps.split(|&byte| byte == b'\n').filter_map(mapping) {
            if seen.insert(name) {
                process.add(id, name, &directory.join("map_files").join(OsStr::from_bytes(range)), resources);
            }
        }
        process.mapped.sort();
        Ok(process)
    }

    /// Adds a mapped file. `mapped` leads to it, for a process that may read it there.
    fn add(&mut self, process: u32, name: &[u8], mapped: &Path, resources: &Arc<Resources>) {
        let path = PathBuf::from(OsStr::from_bytes(name));
        if path.is_file() {
            return self.mapped.push(path);
        }
        let deleted = name.strip_suffix(DELETED);
        let path = deleted.map_or(path, |name| PathBuf::from(OsStr::from_bytes(name)));
        if (deleted.is_some() || !path.exists()) && has_code(mapped, &path, resources) {
            let why = if deleted.is_some() {
                format!(
                    "deleted or replaced since process {process} loaded it, as by an upgrade; restart the program, and ask again"
                )
            } else {
                format!(
                    "process {process} has it in another root; ask there (nsenter --mount --root --target {process})"
                )
            };
            self.gone.push(format!("{}: {why}", path.display()));
        }
    }
}

/// Whether a mapped file is a library with device code. Where only its name is known, that of a library counts.
fn has_code(mapped: &Path, path: &Path, resources: &Arc<Resources>) -> bool {
    match open_file(mapped, resources) {
        Ok(content) => may_be_binary(&*content) && !matches!(open(mapped, resources), Ok(None)),
        Err(_) => path.file_name().is_some_and(|name| name.as_bytes().windows(3).any(|part| part == b".so")),
    }
}

/// The range of addresses and the path in a line of `/proc/PID/maps`, if it has a path.
fn mapping(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let range = line.get(..line.iter().position(|&byte| byte == b' ')?)?;
    Some((range, line.get(line.iter().position(|&byte| byte == b'/')?..)?))
}

/// The variables in `/proc/PID/environ`.
fn variables(environ: &[u8]) -> BTreeMap<OsString, OsString> {
    let pair = |variable: &[u8]| {
        let at = variable.iter().position(|&byte| byte == b'=')?;
        let (name, value) = variable.split_at(at);
        Some((OsString::from_vec(name.to_owned()), OsString::from_vec(value.get(1..)?.to_owned())))
    };
    environ.split(|&byte| byte == 0).filter_map(pair).collect()
}
