//! Device code that no wrapper and no archive leads to. A runtime does not look it up: programs load it themselves, and linkers
//! read it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::found::FoundLookups;
use super::libraries::LibraryFile;
use super::library::Library;
use super::question::Question;
use crate::binary::FileCode;
use crate::coverage::{LibraryCode, together};
use crate::devicecode::{UnpackedFile, code_by_name, files_behind, unpacked};
use crate::opened::InnerSplits;
use crate::remote::is_url;
use crate::resources::Resources;
use crate::source::{EntryPath, Input, InputKind, open_file};
use crate::split::unjoined_code;

impl Question {
    /// Looks such code up as `inspect --require` judges it. What is not judged is named.
    pub(super) fn look_up_unwrapped(&self, paths: &[PathBuf], found: &mut FoundLookups) {
        for path in paths {
            let mut judged = Vec::new();
            for (file, unpacked, mut code) in self.searched(path) {
                found.seen.has_wanted = true;
                let foreign = code.found.iter().find(|found| !found.form.is_amd());
                found.foreign.extend(foreign.map(|code| format!("{} ({})", file.display(), code.form.name())));
                let name = unpacked.path.name();
                code.found.retain(|found| found.form.is_amd() && !found.is_for_compilers(name));
                let relative = file.strip_prefix(path).unwrap_or(&file).as_os_str().as_encoded_bytes();
                let place = EntryPath::new(relative).unwrap_or_else(|_| EntryPath::root());
                judged.extend(LibraryCode::unwrapped(place, code.found.iter()));
                found.unjudged.extend(unjudged(&file, &unpacked, &code));
            }
            for code in together(judged.into_iter()) {
                let place = if code.path.is_root() { path.clone() } else { path.join(code.path.as_path()) };
                let library = Library::Held(code, None);
                let lookups = self.look_up_whole(&LibraryFile::at(place), &library, &self.all_gpus(), found);
                found.add(lookups);
            }
        }
    }

    /// The files at a path, with the code in each.
    fn searched(&self, path: &Path) -> Vec<(PathBuf, UnpackedFile, FileCode)> {
        let (root, files) = files(path, &self.resources);
        let with_code = |file: UnpackedFile| {
            let place = root.join(file.path.as_path());
            let wanted = || FileCode::of(&file.content, false, &self.resources).unwrap_or_else(|_| FileCode::unread());
            let mut code =
                if self.is_wanted(&place) { wanted() } else { FileCode::unsearched(&file.content, &self.resources) };
            code.found.extend(unjoined_code(&file));
            (place, file, code)
        };
        let mut all = Vec::new();
        for (place, file, code) in files.into_iter().map(with_code) {
            let has_files = code.has_zip && !file.is_in_archive;
            let behind = has_files.then(|| files_behind(&file.path, &file.content, &self.resources));
            all.push((place, file, code));
            all.extend(behind.into_iter().flatten().map(with_code));
        }
        all.retain(|(place, ..)| self.is_wanted(place));
        all
    }
}

/// The files at a path, and the directory that their paths are below. What cannot be read has none here.
fn files(path: &Path, resources: &Arc<Resources>) -> (PathBuf, Vec<UnpackedFile>) {
    // On a server all of it would have to be fetched.
    if is_url(path) {
        return (path.to_owned(), Vec::new());
    }
    // Wheels and archives are read as directories are.
    match Input::survey(path, resources) {
        Ok((mut input, _)) if !matches!(input.kind, InputKind::Binary) => {
            InnerSplits::in_parts(&input).leave_out_of(&mut input);
            let files = input.files().flat_map(|(below, content)| unpacked(below, content, resources));
            (path.to_owned(), files.collect())
        }
        _ => {
            let name = path.file_name().and_then(|name| EntryPath::new(name.as_encoded_bytes()).ok());
            let named = name.into_iter().zip(open_file(path, resources));
            let files = named.flat_map(|(name, content)| unpacked(&name, &content, resources));
            (path.parent().unwrap_or(path).to_owned(), files.collect())
        }
    }
}

/// What is said about a file with code whose targets are not known, or that is not searched.
fn unjudged(path: &Path, file: &UnpackedFile, code: &FileCode) -> Option<String> {
    let form = match code.found.first() {
        _ if file.is_packed_tree || code.has_archive || file.is_in_archive && code.has_zip => {
            "an archive, which is not searched"
        }
        _ if code.is_unfinished => "not searched to the end",
        Some(found) if !found.is_for_targets() => found.form.name(),
        Some(_) => return None,
        None => code_by_name(file.path.name(), &*file.content)?.form.name(),
    };
    Some(format!("{} ({form})", path.display()))
}
