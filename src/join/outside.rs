//! Split libraries and archives outside of the input, to which its symlinks lead. Installers that save space make such
//! symlinks (`uv --link-mode symlink`, profiles of Nix). A runtime looks for archives next to the file that is loaded,
//! symlinks resolved.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use rocm_kpack::Marker;
use rocm_kpack::search::PLACEHOLDER;

use crate::binary::SplitBinary;
use crate::loader::{DOT_KPACK, begins_archive, named_target};
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{Entry, EntryKind, EntryPath, Input, InputKind, Resolved, may_be_binary, open_file};

/// A file outside of the input, to which a symlink of the input leads.
#[derive(Debug)]
pub struct OutsideFile {
    /// The symlink.
    pub link: EntryPath,
    /// A sentence about the file, without its full stop.
    pub problem: String,
    /// Whether it is a split library for which a runtime finds no archives.
    pub lacks_archives: bool,
}

/// The split libraries and archives outside of a directory, to which its symlinks lead.
pub fn outside(input: &Input, resources: &Arc<Resources>) -> Vec<OutsideFile> {
    // Only a directory has places outside of it.
    if !matches!(input.kind, InputKind::Tree | InputKind::UnpackedWheel(_)) || input.file.is_some() {
        return Vec::new();
    }
    let is_outside = |entry: &&Entry| {
        matches!(entry.kind, EntryKind::Symlink(_)) && matches!(input.follow(&entry.path), Resolved::Outside(_))
    };
    let links: Vec<_> = input.entries.iter().filter(is_outside).collect();
    let problem = |link: &&Entry| {
        let target = input.location.join(link.path.as_path()).canonicalize().ok()?;
        let (problem, lacks_archives) = problem(&link.path, &target, resources)?;
        Some(OutsideFile { link: link.path.clone(), problem, lacks_archives })
    };
    links.par_iter().filter_map(problem).collect()
}

/// The problem with a file outside of the input, and whether it is a split library without archives.
fn problem(link: &EntryPath, target: &Path, resources: &Arc<Resources>) -> Option<(String, bool)> {
    let name = target.display();
    let unread =
        |what| Some((format!("a symlink to {what} {name}, which is outside of the input and is not read"), false));
    if link.name() == DOT_KPACK.as_bytes() && target.is_dir() {
        return unread("the archives in");
    }
    let content = open_file(target, resources).ok()?;
    if begins_archive(&content) {
        return unread("the archive");
    }
    if !is_split(&content) {
        return None;
    }
    let has_archives = has_archives(&content, target);
    let problem = if has_archives {
        format!("a symlink to the split library {name}; it and its archives are outside of the input and are not read")
    } else {
        format!(
            "a symlink to the split library {name}, next to which a runtime finds no archives (error 13); install copies \
             (uv: --link-mode copy), or name the archives in ROCM_KPACK_PATH"
        )
    };
    Some((problem, !has_archives))
}

fn is_split(content: &Arc<dyn Content>) -> bool {
    may_be_binary(&**content) && SplitBinary::find(content).is_ok_and(|split| split.is_some())
}

/// Whether there is an archive where the first marker of a library leads.
fn has_archives(content: &Arc<dyn Content>, library: &Path) -> bool {
    let Ok(Some(split)) = SplitBinary::find(content) else { return false };
    let marker = split.wrappers.iter().find_map(|wrapper| wrapper.marker.as_ref().ok());
    let Some(marker) = marker.and_then(|bytes| Marker::decode(bytes).ok()) else { return false };
    let directory = library.parent().unwrap_or(Path::new("/"));
    marker.kpack_search_paths.iter().any(|path| {
        let place = directory.join(path);
        let (Some(above), Some(name)) = (place.parent(), place.file_name().and_then(|name| name.to_str())) else {
            return false;
        };
        let (start, end) = name.split_once(PLACEHOLDER).unwrap_or((name, ""));
        let mut names = fs::read_dir(above).into_iter().flatten().flatten().map(|entry| entry.file_name());
        names.any(|found| {
            let found = found.to_string_lossy();
            found.starts_with(start) && found.ends_with(end) && (found == name || named_target(&found).is_some())
        })
    })
}
