//! The paths of an input's files in a comparison: those of an installation, whatever form the input has.

use std::collections::HashSet;

use crate::source::{Entry, EntryPath, Input};
use crate::wheel::installed;

/// Directories into which packages are installed (docs.python.org/3/library/site.html; Debian's Python policy).
const SITES: [&[u8]; 2] = [b"site-packages", b"dist-packages"];

/// The path of each entry in the comparison, below `place`. Paths of packages are relative to the directory into which they
/// are installed, so that an environment or an image and a wheel have the same ones.
pub(super) fn compared(input: &Input, place: &EntryPath) -> Vec<EntryPath> {
    let sites: HashSet<_> = input.entries.iter().filter_map(site).collect();
    let is_wheel = input.dist_info().is_some();
    let mut taken = HashSet::new();
    let relative = |path: &EntryPath| {
        let above = std::iter::successors(path.parent(), EntryPath::parent);
        let site = above.into_iter().find(|directory| sites.contains(directory))?;
        let below = path.below(&site)?;
        // Of several directories of packages, another one may have this path.
        (input.entry(&below).is_none() && taken.insert(below.clone())).then_some(below)
    };
    let mut relative = if sites.is_empty() { None } else { Some(relative) };
    let path = |entry: &Entry| {
        let below = relative.as_mut().and_then(|relative| relative(&entry.path));
        let path = below.unwrap_or_else(|| if is_wheel { installed(&entry.path) } else { entry.path.clone() });
        joined(place, &without_version(path))
    };
    input.entries.iter().map(path).collect()
}

/// The directory of packages that has this entry as the `*.dist-info` directory of one.
fn site(entry: &Entry) -> Option<EntryPath> {
    let site = entry.path.parent().filter(|site| SITES.contains(&site.name()))?;
    entry.path.name().ends_with(b".dist-info").then_some(site)
}

/// The path without the version in the name of a distribution's own directory. With the version, all of its files would
/// differ.
fn without_version(path: EntryPath) -> EntryPath {
    let Some(first) = path.components().next() else { return path };
    let Some(name) = first.strip_suffix(b".dist-info").and_then(|own| own.split(|&byte| byte == b'-').next()) else {
        return path;
    };
    let directory = EntryPath::root().child(&[name, b".dist-info"].concat());
    path.below(&EntryPath::root().child(first)).map_or_else(|| directory.clone(), |rest| joined(&directory, &rest))
}

/// A path below a directory.
pub(super) fn joined(root: &EntryPath, path: &EntryPath) -> EntryPath {
    if path.is_root() { root.clone() } else { root.child(path.as_bytes()) }
}
