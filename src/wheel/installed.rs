//! Installed paths of a wheel's files ("Binary distribution format", The .data directory).

use crate::source::EntryPath;

/// The data directory for scripts, headers and data of an installation. No distribution has an empty name.
const ELSEWHERE: &[u8] = b".data";

/// The installed path of a wheel's file, relative to the directory of packages. Files in a data directory's `platlib`
/// or `purelib` are installed there, too. These two are one directory, except in the Python of a few distributions.
/// Other schemes lead elsewhere, `scripts` to a directory of `data`. Their files are put into one data directory here, whatever wheel they belong to.
pub fn installed(path: &EntryPath) -> EntryPath {
    installed_with(path, ELSEWHERE)
}

/// Whether a file with this installed path is not installed next to the packages.
pub fn is_elsewhere(installed: &EntryPath) -> bool {
    installed.components().next() == Some(ELSEWHERE)
}

/// Like [`installed`], with another data directory for files that are not installed next to the packages.
pub(crate) fn installed_with(path: &EntryPath, elsewhere: &[u8]) -> EntryPath {
    moved(&among_data(path), elsewhere)
}

/// The place among `data` where a file of `scripts` is installed, which is `bin` in the prefix, and `Scripts` on Windows
/// (sysconfig). Archives of programs have to be there: uv refuses directories in `scripts`. Other paths stay.
pub(crate) fn among_data(path: &EntryPath) -> EntryPath {
    let mut components = path.components();
    let data = components.next().filter(|first| first.ends_with(b".data"));
    let Some(data) = data.filter(|_| components.next() == Some(b"scripts")) else { return path.clone() };
    let directory: &[u8] = if path.name().ends_with(b".exe") { b"Scripts" } else { b"bin" };
    let place = EntryPath::root().child(data).child(b"data").child(directory);
    components.fold(place, |place, component| place.child(component))
}

/// The path after files of `platlib` and `purelib` were moved to the packages, and others to one data directory.
pub(crate) fn moved(path: &EntryPath, elsewhere: &[u8]) -> EntryPath {
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
