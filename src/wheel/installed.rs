//! Where installers put the files of wheels ("Binary distribution format", The .data directory).

use crate::source::EntryPath;

/// The data directory that stands for the places where an installation has scripts, headers and data. No distribution has
/// an empty name.
const ELSEWHERE: &[u8] = b".data";

/// Where installers put a file of a wheel, relative to the directory of packages: what lies in a data directory's `platlib`
/// or `purelib` goes there, too. These two are one directory but for a few distributions' own Python. Other schemes lead
/// elsewhere; their files are in one data directory here, whatever wheel they are of.
pub fn installed(path: &EntryPath) -> EntryPath {
    installed_with(path, ELSEWHERE)
}

/// Whether a file is not installed next to the packages, if this is where it is installed.
pub fn is_elsewhere(installed: &EntryPath) -> bool {
    installed.components().next() == Some(ELSEWHERE)
}

/// The same with another data directory for what is not installed next to the packages.
pub(super) fn installed_with(path: &EntryPath, elsewhere: &[u8]) -> EntryPath {
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
