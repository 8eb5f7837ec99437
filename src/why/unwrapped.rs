//! Device code that no wrapper and no archive leads to. A runtime does not look it up: programs load it themselves, and linkers
//! read it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::found::FoundLookups;
use super::libraries::LibraryFile;
use super::{Library, Question};
use crate::binary::FileCode;
use crate::coverage::{LibraryCode, together};
use crate::devicecode::{code_by_name, is_packed_tree, unpacked};
use crate::remote::is_url;
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{EntryPath, Input, InputKind, open_file};

impl Question {
    /// Looks such code up as `inspect --require` judges it. What is not judged is named.
    pub(super) fn look_up_unwrapped(&self, paths: &[PathBuf], found: &mut FoundLookups) {
        for path in paths {
            let mut judged = Vec::new();
            for (file, content) in files(path, &self.resources).iter().filter(|(file, _)| self.is_wanted(file)) {
                let mut code = FileCode::of(content, false, &self.resources).unwrap_or_default();
                code.found.retain(|found| found.form.is_amd());
                let relative = file.strip_prefix(path).unwrap_or(file).as_os_str().as_encoded_bytes();
                let place = EntryPath::new(relative).unwrap_or_else(|_| EntryPath::root());
                judged.extend(LibraryCode::unwrapped(place, code.found.iter()));
                found.unjudged.extend(unjudged(file, content, &code));
            }
            for code in together(judged.into_iter()) {
                let place = if code.path.is_root() { path.clone() } else { path.join(code.path.as_path()) };
                let library = Library::Held(code, None);
                let lookups = self.look_up_whole(&LibraryFile::at(place), &library, &self.all_gpus(), found);
                found.add(lookups);
            }
        }
    }
}

/// The files at a path. What cannot be read has none here.
fn files(path: &Path, resources: &Arc<Resources>) -> Vec<(PathBuf, Arc<dyn Content>)> {
    // On a server all of it would have to be fetched.
    if is_url(path) {
        return Vec::new();
    }
    // Wheels and archives are read as directories are.
    match Input::survey(path, resources) {
        Ok((input, _)) if input.kind != InputKind::Binary => {
            let files = input.files().flat_map(|(below, content)| unpacked(below, content, resources));
            files.map(|(below, content)| (path.join(below.as_path()), content)).collect()
        }
        _ => open_file(path, resources).into_iter().map(|content| (path.to_owned(), content)).collect(),
    }
}

/// What is said about a file with code whose targets are not known, or that is not searched.
fn unjudged(path: &Path, content: &Arc<dyn Content>, code: &FileCode) -> Option<String> {
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let form = match code.found.first() {
        _ if is_packed_tree(name) => "an archive, which is not searched",
        _ if code.is_unfinished => "not searched to the end",
        Some(found) if found.targets.is_empty() => found.form.row().name,
        Some(_) => return None,
        None => code_by_name(name, &**content)?.form.row().name,
    };
    Some(format!("{} ({form})", path.display()))
}
