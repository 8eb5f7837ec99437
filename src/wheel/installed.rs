//! Installed paths of a wheel's files ("Binary distribution format", The .data directory).

use crate::source::EntryPath;

/// The data directory for scripts, headers and data of an installation. No distribution has an empty name.
const ELSEWHERE: &[u8] = b".data";

/// The installed path of a wheel's file, relative to the directory of packages. Files in a data directory's `platlib`
/// or `purelib` are installed there, too. These two are one directory, except in the Python of a few distributions.
/// Other schemes lead elsewhere. Their files are put into one data directory here, whatever wheel they belong to.
pub fn installed(path: &EntryPath) -> EntryPath {
    installed_with(path, ELSEWHERE)
}

/// Whether a file with this installed path is not installed next to the packages.
pub fn is_elsewhere(installed: &EntryPath) -> bool {
    installed.components().next() == Some(ELSEWHERE)
}

/// Like [`installed`], with another data directory for files that are not installed next to the packages.
pub(crate) fn installed_with(path: &EntryPath, elsewhere: &[u8]) -> EntryPath {
    let mut components = path.components().peekable();
    let is_data = components.next().is_some_and(|first| first.ends_with(b".data"));
    let Some(scheme) = components.peek().filter(|_| is_data) else { return path.clone() };
    let start = if matches!(*scheme, b"platlib" | b"purelib") {
        components.next();
        EntryPath::root()
    } else {
        EntryPath::root().child(elsewhere)
    };
    components.fold(start, |path, component| path.child(component))
}
