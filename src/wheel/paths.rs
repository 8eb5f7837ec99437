//! Maps paths of a wheel to paths in the wheels made from it: the dist-info and data directories have the name of their
//! wheel.

use std::collections::BTreeSet;

use super::{PART_MANIFEST, STATEMENT};
use crate::source::EntryPath;

/// RECORD, its signatures (PEP 815), and what installers leave in a dist-info directory (Recording installed projects, PEP
/// 710; uv).
const RECORD_AND_INSTALLERS: [&[u8]; 9] = [
    b"RECORD",
    b"RECORD.jws",
    b"RECORD.p7s",
    b"INSTALLER",
    b"REQUESTED",
    b"direct_url.json",
    b"provenance_url.json",
    b"uv_cache.json",
    b"uv_build.json",
];

/// Where Python puts what it compiles.
pub(crate) const PYCACHE: &[u8] = b"__pycache__";

/// Further files of a dist-info directory that are made again, and not copied.
const MADE_AGAIN: [&[u8]; 4] = [b"METADATA", b"WHEEL", STATEMENT.as_bytes(), PART_MANIFEST.as_bytes()];

/// Whether an installed file of a wheel with this dist-info directory is none of the wheel's own: it is of an installer, or
/// was compiled by Python.
pub(crate) fn is_of_installer(dist_info: &EntryPath, path: &EntryPath) -> bool {
    is_in_cache(path) || path.below(dist_info).is_some_and(|rest| RECORD_AND_INSTALLERS.contains(&rest.as_bytes()))
}

/// Whether a file was compiled by Python from a source that `exists`: in `__pycache__`, or next to the source (`compileall
/// -b`). Without a source, a `.pyc` is a module itself.
pub(crate) fn is_compiled(path: &EntryPath, exists: impl Fn(&EntryPath) -> bool) -> bool {
    let Some(stem) = path.name().strip_suffix(b".pyc") else { return false };
    // The interpreter and the level of optimisation follow the name of the module, which has no dot.
    let module = if is_in_cache(path) { stem.split(|byte| *byte == b'.').next().unwrap_or_default() } else { stem };
    let directory = if is_in_cache(path) { path.parent().and_then(|cache| cache.parent()) } else { path.parent() };
    directory.is_some_and(|directory| exists(&directory.child(&[module, b".py"].concat())))
}

/// Whether it is a compiled file where Python itself puts those (PEP 3147).
fn is_in_cache(path: &EntryPath) -> bool {
    path.name().ends_with(b".pyc") && path.parent().is_some_and(|it| it.name() == PYCACHE)
}

/// Whether a file of this dist-info directory is made again for each wheel, or left out.
pub(crate) fn is_made_again(dist_info: &EntryPath, path: &EntryPath) -> bool {
    let is = |rest: EntryPath| [&RECORD_AND_INSTALLERS[..], &MADE_AGAIN].iter().any(|it| it.contains(&rest.as_bytes()));
    path.below(dist_info).is_some_and(is)
}

/// Maps paths of the input to paths in one wheel.
#[derive(Debug)]
pub struct Paths<'a> {
    /// The input's dist-info directory.
    pub(crate) old: &'a EntryPath,
    /// That of the wheel.
    pub(crate) dist_info: EntryPath,
    /// The data directory of the wheel.
    pub(crate) data: EntryPath,
    /// Whether the wheel is a variant.
    pub(crate) has_variant: bool,
    /// Further files of the input's dist-info directory that are not copied.
    pub(crate) left_out: &'a BTreeSet<EntryPath>,
}

impl Paths<'_> {
    /// The path in the wheel of a path of the input; `None` if the file is not copied.
    pub fn of(&self, path: &EntryPath) -> Option<EntryPath> {
        if path.is_below(self.old) || path == self.old {
            let rest = path.below(self.old)?;
            let is_left_out = self.left_out.contains(path) || is_made_again(self.old, path);
            let is_taken_over = !is_left_out && (self.has_variant || rest.as_bytes() != b"variant.json");
            return is_taken_over.then(|| below(&self.dist_info, &rest));
        }
        if self.is_data(path) {
            let first = EntryPath::root().child(path.components().next()?);
            return Some(below(&self.data, &path.below(&first)?));
        }
        Some(path.clone())
    }

    /// Whether a path of the input is surely the same in the wheel, as most are.
    pub fn keeps(&self, path: &EntryPath) -> bool {
        !path.as_bytes().starts_with(self.old.as_bytes()) && !self.is_data(path)
    }

    /// Whether it is a data directory, or in one. Of top-level names, only those of directories count, and only the
    /// wheel's own is certain to be a data directory.
    fn is_data(&self, path: &EntryPath) -> bool {
        let mut components = path.components();
        let Some(name) = components.next().and_then(|first| first.strip_suffix(b".data")) else { return false };
        components.next().is_some() || self.old.as_bytes().strip_suffix(b".dist-info") == Some(name)
    }
}

fn below(directory: &EntryPath, rest: &EntryPath) -> EntryPath {
    if rest.is_root() { directory.clone() } else { directory.child(rest.as_bytes()) }
}
