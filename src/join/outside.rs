//! Libraries with device code and archives outside of the input, to which its symlinks lead. Installers that save space make such
//! symlinks (`uv --link-mode symlink`, profiles of Nix). A runtime looks for archives next to the file that is loaded,
//! symlinks resolved.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;
use rocm_kpack::Marker;
use rocm_kpack::search::PLACEHOLDER;

use crate::binary::{FatBinary, SplitBinary};
use crate::loader::{DOT_KPACK, begins_archive, named_target};
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{EntryPath, Input, may_be_binary, open_file};

/// A file outside of the input, to which a symlink of the input leads.
#[derive(Debug)]
pub struct OutsideFile {
    /// The symlink.
    pub link: EntryPath,
    /// A sentence about the file, without its full stop.
    pub problem: String,
    /// Whether it is a split library for which a runtime finds no archives.
    pub lacks_archives: bool,
    /// Whether it holds its device code itself.
    pub is_fat: bool,
}

/// The libraries with device code and archives outside of a directory, to which its symlinks lead.
pub fn outside(input: &Input, resources: &Arc<Resources>) -> Vec<OutsideFile> {
    let links: Vec<_> = input.links_out(|_| true).collect();
    let file = |(link, target): &(&EntryPath, PathBuf)| file(link, target, resources);
    links.par_iter().filter_map(file).collect()
}

/// A file outside of the input, if the user has to know of it.
fn file(link: &EntryPath, target: &Path, resources: &Arc<Resources>) -> Option<OutsideFile> {
    let name = target.display();
    let found = |problem| Some(OutsideFile { link: link.clone(), problem, lacks_archives: false, is_fat: false });
    let unread = |what| found(format!("a symlink to {what} {name}, which is outside of the input and is not read"));
    if link.name() == DOT_KPACK.as_bytes() && target.is_dir() {
        return unread("the archives in");
    }
    let content = open_file(target, resources).ok()?;
    if begins_archive(&content) {
        return unread("the archive");
    }
    if !is_split(&content) {
        let is_fat = may_be_binary(&*content) && matches!(FatBinary::scan(&content), Ok(Some(_)));
        return unread("the library with device code").filter(|_| is_fat).map(|file| OutsideFile { is_fat, ..file });
    }
    let has_archives = has_archives(&content, target);
    let problem = if has_archives {
        format!("a symlink to the split library {name}; it and its archives are outside of the input and are not read")
    } else {
        format!(
            "a symlink to the split library {name}, next to which a runtime finds no archives (KPACK_ERROR_ARCHIVE_NOT_FOUND); \
             install copies (uv: --link-mode copy), or name the archives in ROCM_KPACK_PATH"
        )
    };
    Some(OutsideFile { lacks_archives: !has_archives, ..found(problem)? })
}

/// The symlinks out of a directory to anything but binaries without device code.
pub fn links_to_code<'a>(input: &'a Input, resources: &Arc<Resources>) -> Vec<&'a EntryPath> {
    let links: Vec<_> = input.links_out(|_| true).collect();
    let links = links.into_par_iter().filter(|(_, target)| !is_without_code(target, resources));
    links.map(|(link, _)| link).collect()
}

/// Whether a file is a binary without device code.
fn is_without_code(file: &Path, resources: &Arc<Resources>) -> bool {
    let is_plain = |content| !is_split(&content) && matches!(FatBinary::scan(&content), Ok(None));
    open_file(file, resources).is_ok_and(|content| may_be_binary(&*content) && is_plain(content))
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
