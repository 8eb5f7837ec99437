//! Compares files with what the manifest of their part lists.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use rayon::prelude::*;

use super::context::Context;
use super::parts::Part;
use super::record::ComparedFiles;
use super::report::enumerate;
use super::rules::Rule;
use super::stated::StatedPart;
use crate::kpack::ArchiveReader;
use crate::loader::is_archive;
use crate::metrics::Portion;
use crate::rope::{Content, Xxh3, read_range};
use crate::source::{EntryPath, SourceError};
use crate::split::{FileDigest, HOST, PartManifest, StatedCode, StatedPartFile};
use crate::wheel::Claim;

/// The files that are as the manifest of their part lists them, by part and path.
pub(super) type ProvenFiles = HashSet<(usize, EntryPath)>;

impl Context<'_> {
    /// Compares the files of a part with its manifest. Those that are as listed are added to `as_listed`.
    pub(super) fn check_listed(
        &self,
        stated: &StatedPart<'_>,
        manifest: &PartManifest,
        compared: &ComparedFiles,
        as_listed: &Mutex<ProvenFiles>,
    ) {
        let progress = self.progress;
        progress.expect(manifest.files.iter().map(|file| file.size).fold(0, u64::saturating_add));
        manifest.files.par_iter().with_max_len(1).for_each(|file| {
            let Ok(path) = EntryPath::new(file.path.as_bytes()) else {
                let reason = format!("it lists {:?}, and a part can have no such path", file.path);
                return self.findings.add(Rule::ManifestUnreadable, stated.place.as_str(), reason);
            };
            self.findings.counts.listed_files.add(1);
            let portion = progress.portion(file.size);
            let _named = progress.at(|| file.path.clone());
            if self.check_file(stated, &path, file, manifest.digest, compared, &portion) {
                as_listed.lock().insert((stated.number, self.place(stated.part, &path)));
            }
        });
        self.check_unlisted(stated, manifest, compared);
    }

    /// Whether a file is as listed.
    fn check_file(
        &self,
        stated: &StatedPart<'_>,
        path: &EntryPath,
        file: &StatedPartFile,
        digest: FileDigest,
        compared: &ComparedFiles,
        portion: &Portion<'_>,
    ) -> bool {
        let part = stated.part;
        let say = |rule, reason: String| {
            self.findings.add(rule, part.label(path), reason);
            false
        };
        let content = match self.listed_content(stated, path) {
            Ok(Some(content)) => content,
            // Scripts, headers and data are installed in another directory.
            Ok(None) if self.parts.component.is_none() && part.is_elsewhere(path) => return false,
            Ok(None) => {
                return say(Rule::ListedMissing, format!("{} lists it, but there is no such file", stated.place));
            }
            Err(error) => return say(Rule::ListedChanged, error.to_string()),
        };
        // The comparison with RECORD has the same result, and has been reported.
        let is_same = |claim: &Claim| claim.size == file.size && claim.sha256[..] == file.digest[..];
        let of_record = compared.get(&(stated.number, self.place(part, path)));
        if let Some((_, is_equal)) = of_record.filter(|(claim, _)| is_same(claim)) {
            return *is_equal;
        }
        let wrong = if content.size() == file.size {
            match digest.of(&*content, |bytes| portion.advance(bytes)) {
                // A RECORD that states another file than the manifest proves neither.
                Ok(found) if found[..] == file.digest[..] => return of_record.is_none_or(|(_, is_equal)| *is_equal),
                Ok(_) => format!("it is not the file that {} lists", stated.place),
                Err(error) => error.to_string(),
            }
        } else {
            format!("it has {} bytes, but {} lists {}", content.size(), stated.place, file.size)
        };
        let problems = file.entries.as_ref().map_or_else(Vec::new, |entries| entry_problems(&content, entries));
        if problems.is_empty() {
            return say(Rule::ListedChanged, wrong);
        }
        for problem in problems {
            say(Rule::ListedEntry, format!("{problem}, by {}", stated.place));
        }
        false
    }

    /// The path of a listed file among the files of its part. Files of an artifact are listed at their paths in it, and
    /// have others in an installation.
    fn place(&self, part: &Part, path: &EntryPath) -> EntryPath {
        let installed = part.recorded(path).filter(|_| self.parts.component.is_none());
        installed.unwrap_or_else(|| path.clone())
    }

    /// Whether a file of a part is one that was compared with the manifest of its part and is as listed.
    pub(super) fn is_as_listed(&self, listed: &ProvenFiles, part: usize, path: &EntryPath) -> bool {
        let origins = self.parts.all.get(part).filter(|_| self.parts.component.is_some()).map(|it| &it.origins);
        let path = origins.and_then(|origins| origins.get(path)).unwrap_or(path);
        listed.contains(&(part, path.clone()))
    }

    /// A file that a manifest lists; `None` if there is none.
    fn listed_content(
        &self,
        stated: &StatedPart<'_>,
        path: &EntryPath,
    ) -> Result<Option<Arc<dyn Content>>, SourceError> {
        let place = self.place(stated.part, path);
        let own = Some(&place).filter(|_| self.parts.component.is_none());
        stated.part.file(own, place.as_path(), self.resources)
    }

    /// The names under which a split binary looks for its code.
    fn kernel_names(&self, path: &EntryPath) -> impl Iterator<Item = &str> {
        let wrappers = self.binaries.split.get(path).into_iter().flatten().flatten();
        wrappers.map(|request| request.marker.kernel_name.as_str())
    }

    /// Whether a binary of a tree is equal to a listed one in the same directory. Copies that follow symlinks (`cp -L`) make
    /// such files of the links to a library, and a loader finds the same archives from each.
    fn is_former_link(&self, stated: &StatedPart<'_>, path: &EntryPath, manifest: &PartManifest) -> bool {
        let is_beside = |listed: &StatedPartFile| {
            EntryPath::new(listed.path.as_bytes()).is_ok_and(|listed| listed.parent() == path.parent())
        };
        let content = self.listed_content(stated, path).ok().flatten().filter(|_| stated.distribution.is_none());
        let digest = content.and_then(|content| Some((content.size(), manifest.digest.of(&*content, |_| {}).ok()?)));
        digest.is_some_and(|(size, digest)| {
            let is_equal = |it: &&StatedPartFile| it.size == size && it.digest[..] == digest[..];
            manifest.files.iter().filter(is_equal).any(is_beside)
        })
    }

    /// Reports device code that belongs to the part but is not listed, and copies of binaries.
    fn check_unlisted(&self, stated: &StatedPart<'_>, manifest: &PartManifest, compared: &ComparedFiles) {
        let part = stated.part;
        let place = |path: &EntryPath| part.recorded(path).unwrap_or_else(|| path.clone());
        let listed = manifest.files.iter().filter_map(|file| Some(place(&EntryPath::new(file.path.as_bytes()).ok()?)));
        let listed: HashSet<_> = listed.collect();
        let is_host = manifest.part == HOST || !manifest.parts.is_empty();
        let names: HashSet<_> = listed.iter().flat_map(|path| self.kernel_names(path)).collect();
        // A split of an installation may have binaries that were split before, without being among those of its manifest: those
        // for which there were no archives.
        let is_of = |key: &String, name: &str| key.rsplit_once('#').is_some_and(|(binary, _)| binary == name);
        let is_served = |name: &str| {
            self.archives.list.iter().any(|archive| archive.asked.lock().iter().any(|key| is_of(key, name)))
        };
        let is_as_recorded =
            |path: &EntryPath| compared.get(&(stated.number, path.clone())).is_none_or(|(_, is_equal)| *is_equal);
        let is_copy = |path: &EntryPath| {
            self.kernel_names(path).any(|name| !is_host || names.contains(name) || is_served(name))
                && is_as_recorded(path)
                && !self.is_former_link(stated, path, manifest)
        };
        let is_device = |path: &EntryPath, content: &Arc<dyn Content>| {
            if is_host { is_archive(path, content) } else { part.is_device_file(path, content) }
        };
        let is_about =
            |path: &EntryPath| part.input.content(path).is_some_and(|it| is_copy(path) || is_device(path, it));
        let own: Vec<EntryPath> = if let Some(distribution) = stated.distribution {
            let is_unlisted = |path: &EntryPath| !listed.contains(&place(path));
            let of_record = distribution.named().filter(|path| path.below(&distribution.directory).is_none());
            of_record.filter(is_unlisted).collect()
        } else {
            let original = |path: &EntryPath| part.origins.get(path).unwrap_or(path).clone();
            let files = part.files().filter(|(path, _)| !listed.contains(&place(&original(path))));
            files.map(|(path, _)| path.clone()).collect()
        };
        for path in own {
            if part.recorded(&path).is_some_and(|path| is_about(&path)) {
                let reason = format!("{} does not list it", stated.place);
                self.findings.add(Rule::Unlisted, part.label(&path), reason);
            }
        }
    }
}

/// What is wrong with the entries of an archive. Empty if it cannot be opened, which its own check reports.
fn entry_problems(content: &Arc<dyn Content>, listed: &[StatedCode]) -> Vec<String> {
    let Ok(reader) = ArchiveReader::open(Arc::clone(content)) else { return Vec::new() };
    let stored: HashMap<_, _> = reader.entries().map(|(name, _, entry)| (name, entry)).collect();
    let names: HashMap<_, _> = listed.iter().map(|StatedCode(name, .., sum)| (sum, name)).collect();
    let (mut missing, mut changed, mut mixed) = (Vec::new(), Vec::new(), Vec::new());
    for StatedCode(name, _, size, sum) in listed {
        let Some(entry) = stored.get(name.as_str()) else {
            missing.push(name.as_str());
            continue;
        };
        let mut found = Xxh3::default();
        let blob = reader.stored(entry).ok().map(|(blob, _)| blob.offset..blob.offset.saturating_add(blob.size));
        let is_read = blob.is_some_and(|blob| read_range(&**content, blob, |piece| found.update(piece)).is_ok());
        match (is_read, found.finish()) {
            (true, found) if found == *sum && entry.original_size == *size => {}
            (true, found) if names.get(&found).is_some_and(|other| *other != name) => mixed.push(name.as_str()),
            _ => changed.push(name.as_str()),
        }
    }
    let known: HashSet<_> = listed.iter().map(|entry| entry.0.as_str()).collect();
    let mut foreign: Vec<_> = stored.keys().copied().filter(|name| !known.contains(name)).collect();
    foreign.sort_unstable();
    let problems = [
        (missing, "it lacks the code for"),
        (mixed, "other entries' code stands in"),
        (changed, "it has other code for"),
        (foreign, "it has code that is not of this split, for"),
    ];
    let said = problems.iter().filter(|(names, _)| !names.is_empty());
    said.map(|(names, problem)| format!("{problem} {}", enumerate(names))).collect()
}
