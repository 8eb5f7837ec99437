//! Which files of an input are archives.

use std::collections::HashSet;
use std::sync::Arc;

use crate::gpu::TargetId;
use crate::kpack::MAGIC;
use crate::rope::Content;
use crate::source::{Entry, EntryKind, EntryPath, Input, Resolved};

/// Name of the directories of archives, and suffix of the names of archives.
pub(crate) const DOT_KPACK: &str = ".kpack";

/// The directory whose `.kpack` directory holds an archive.
pub(crate) fn archive_root(archive: &EntryPath) -> Option<EntryPath> {
    archive.parent().filter(|directory| directory.name() == DOT_KPACK.as_bytes())?.parent()
}

/// The path of an archive for `target` below the directory that holds `.kpack`.
pub(crate) fn archive_path(root: &EntryPath, stem: &str, target: &TargetId) -> EntryPath {
    root.child(format!("{DOT_KPACK}/{stem}_{target}{DOT_KPACK}").as_bytes())
}

/// Whether a file is an archive by its name or its magic.
pub(crate) fn is_archive(path: &EntryPath, content: &Arc<dyn Content>) -> bool {
    // Names are checked first, since that reads nothing. Only files in a `.kpack` directory are opened.
    path.as_bytes().ends_with(DOT_KPACK.as_bytes()) || (is_in_kpack(path.directory()) && begins_archive(content))
}

/// Whether a file begins with the magic of archives.
pub(crate) fn begins_archive(content: &Arc<dyn Content>) -> bool {
    content.beginning(MAGIC.len()).is_ok_and(|head| head == MAGIC)
}

/// The archives of an input to which symlinks called `*.kpack` lead, whatever the names of the archives are.
pub(crate) fn linked_archives(input: &Input) -> HashSet<EntryPath> {
    let archive = |link: &Entry| match input.follow(&link.path) {
        Resolved::Entry(path) => input.content(&path).is_some_and(begins_archive).then_some(path),
        Resolved::Outside(_) | Resolved::Nothing => None,
    };
    input.entries.iter().filter(|entry| is_archive_link(entry)).filter_map(archive).collect()
}

/// Whether an entry is a symlink called `*.kpack`.
pub(crate) fn is_archive_link(entry: &Entry) -> bool {
    matches!(entry.kind, EntryKind::Symlink(_)) && entry.path.name().ends_with(DOT_KPACK.as_bytes())
}

/// Whether a directory is called `.kpack`.
fn is_in_kpack(directory: &[u8]) -> bool {
    directory.strip_suffix(DOT_KPACK.as_bytes()).is_some_and(|above| above.is_empty() || above.ends_with(b"/"))
}

/// The target at the end of an archive's name.
pub(crate) fn named_target(name: &str) -> Option<&str> {
    let stem = name.trim_end_matches(DOT_KPACK);
    let start = ["_gfx", "_amdgcnspirv", "_unknown-"].iter().filter_map(|start| Some(stem.rfind(start)? + 1)).max()?;
    stem.get(start..)
}
