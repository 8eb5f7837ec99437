//! `ROCM_KPACK_PATH` and `ROCM_KPACK_PATH_PREFIX`: archives, divided by colons. A loader searches no directory that
//! they name, replaces no placeholder, and cannot be given an archive with a colon in its path (`librocm_kpack` 0.1.0,
//! `findings/kpack-path-prefix-takes-files.sh`).

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::text::quoted;

/// A command for a shell, after which a loader searches these archives. One with a colon in its path gets a symlink
/// without: a loader goes by the targets that an archive lists, not by its name.
pub(super) fn export(archives: &BTreeSet<PathBuf>) -> String {
    let mut links = Vec::new();
    let mut name = |archive: &PathBuf| {
        if !archive.as_os_str().as_bytes().contains(&b':') {
            return quoted(archive);
        }
        let link = format!("\"$links/{}.kpack\"", links.len() + 1);
        links.push(format!("ln -s {} {link}", quoted(archive)));
        link
    };
    let names: Vec<_> = archives.iter().map(&mut name).collect();
    let export = format!("export ROCM_KPACK_PATH={}", names.join(":"));
    if links.is_empty() { export } else { format!("links=$(mktemp -d) && {} && {export}", links.join(" && ")) }
}

/// Why a loader finds no archive at one of these parts of a variable.
pub(super) fn misnamed(parts: &[PathBuf]) -> Option<String> {
    if let Some(directory) = parts.iter().find(|part| part.is_dir()) {
        return Some(format!("{} is a directory, and only archives can be named", directory.display()));
    }
    // The parts of a path with a colon.
    let whole = parts.windows(2).find_map(|pair| {
        let [begin, end] = pair else { return None };
        let bytes = [begin.as_os_str().as_bytes(), b":", end.as_os_str().as_bytes()].concat();
        let path = PathBuf::from(std::ffi::OsStr::from_bytes(&bytes));
        path.is_file().then_some(path)
    })?;
    Some(format!("{} has a colon in its path, and colons divide the list: name a symlink to it", whole.display()))
}
