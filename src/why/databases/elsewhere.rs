//! Directories of databases that a library does not search.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::database::{Handler, is_version};
use crate::disk;

/// The most directories that are listed, and how deep below a root. A ROCm installation has about 5,000.
const MAX_DIRECTORIES: usize = 20_000;
const MAX_DEPTH: usize = 10;

/// The directories below `roots` whose path ends as that of the handler's database.
pub(super) fn find(handler: Handler, roots: &[PathBuf]) -> Vec<PathBuf> {
    let ending = match handler {
        Handler::Miopen => Path::new("miopen/db"),
        Handler::Aotriton => Path::new("aotriton.images"),
        Handler::Rocblas => Path::new("rocblas/library"),
        Handler::Hipblaslt => Path::new("hipblaslt/library"),
        Handler::Hipsparselt => Path::new("hipsparselt/library"),
        _ => return Vec::new(),
    };
    // A mount of kpackfs is not of the tree around it, and its daemon may be stopped.
    let below = |root: &PathBuf| disk::mounts_below(root).into_iter().map(|mount| root.join(mount)).collect::<Vec<_>>();
    let mounts: BTreeSet<_> = roots.iter().flat_map(below).collect();
    let mut found = Vec::new();
    let mut listed = 0;
    let mut waiting: Vec<_> = roots.iter().map(|root| (root.clone(), 0)).collect();
    while let Some((directory, depth)) = waiting.pop() {
        listed += 1;
        if listed > MAX_DIRECTORIES {
            break;
        }
        if directory.ends_with(ending) || without_version(&directory).is_some_and(|it| it.ends_with(ending)) {
            found.push(directory);
            continue;
        }
        if depth == MAX_DEPTH {
            continue;
        }
        let entries = fs::read_dir(&directory).into_iter().flatten().filter_map(Result::ok);
        let below = entries.filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir())).map(|entry| entry.path());
        waiting.extend(below.filter(|path| !mounts.contains(path)).map(|path| (path, depth + 1)));
    }
    found.sort();
    found.dedup();
    found
}

/// The path without the version of the library above its last component: `rocblas/4.4.1/library`.
fn without_version(directory: &Path) -> Option<PathBuf> {
    let version = directory.parent()?;
    is_version(version.file_name()?.to_str()?)
        .then(|| version.with_file_name(directory.file_name().unwrap_or_default()))
}
