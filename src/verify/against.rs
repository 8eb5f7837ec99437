//! The comparison with the fat input: nothing lost, nothing changed, nothing added.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use super::binary::Binaries;
use super::lookup::Shelf;
use super::report::{Check, Findings};
use super::subject::{Kind, Part, Parts};
use super::{Options, Progress};
use crate::index::Resources;
use crate::rope::{Content, equal};
use crate::source::{Entry, EntryKind, EntryPath, Input};
use crate::split::is_wanted;
use crate::target::BundleKey;

/// A fat input, or several builds of it, and what they became.
pub(super) struct Comparison<'a> {
    fats: &'a [Input],
    pub(super) parts: &'a Parts,
    pub(super) shelf: &'a Shelf,
    pub(super) binaries: &'a Binaries,
    options: &'a Options,
    pub(super) resources: &'a Arc<Resources>,
    pub(super) findings: &'a Findings,
    /// The keys that an installation has; `None` if it is a split, which has all of them.
    present: Option<HashSet<BundleKey>>,
    /// Code objects in archives, by archive, name and target, that a wrapper of the fat input accounts for.
    pub(super) accounted: Mutex<HashSet<(usize, String, String)>>,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(
        fats: &'a [Input],
        parts: &'a Parts,
        shelf: &'a Shelf,
        binaries: &'a Binaries,
        options: &'a Options,
        resources: &'a Arc<Resources>,
        findings: &'a Findings,
    ) -> Self {
        let present = (parts.kind == Kind::Installation).then(|| {
            let of_archives = shelf.targets.iter().map(BundleKey::of);
            let of_databases = parts.files().filter_map(|file| Some(options.databases.classify(file.path)?.arch.key()));
            of_archives.chain(of_databases).collect()
        });
        let accounted = Mutex::default();
        Self { fats, parts, shelf, binaries, options, resources, findings, present, accounted }
    }

    pub(super) fn run(&self, progress: &Progress) {
        let mut entries = BTreeMap::<&EntryPath, Vec<&Entry>>::new();
        for entry in self.fats.iter().flat_map(|fat| &fat.entries).filter(|entry| !Part::is_metadata(&entry.path)) {
            entries.entry(&entry.path).or_default().push(entry);
        }
        let size = |versions: &Vec<&Entry>| versions.iter().map(|entry| size(entry)).sum::<u64>();
        let mut entries: Vec<_> = entries.into_values().collect();
        entries.sort_by_key(|versions| std::cmp::Reverse(size(versions)));
        progress.expect(entries.iter().map(size).sum());
        entries.par_iter().with_max_len(1).for_each(|versions| {
            self.compare(versions);
            progress.advance(size(versions));
        });
        self.extra_files();
        self.extra_code_objects();
    }

    pub(super) fn say(&self, path: &EntryPath, reason: impl std::fmt::Display) {
        self.findings.add(Check::Against, path.to_string(), reason);
    }

    /// Whether code and databases for this key have to be there.
    pub(super) fn is_expected(&self, key: &BundleKey) -> bool {
        let Options { gpu_targets, exclude_targets, .. } = self.options;
        is_wanted(key, gpu_targets.as_deref(), exclude_targets)
            && self.present.as_ref().is_none_or(|present| present.contains(key))
    }

    /// Compares what all fat inputs have at one path with what it became.
    fn compare(&self, versions: &[&Entry]) {
        let Some(entry) = versions.first() else { return };
        match &entry.kind {
            EntryKind::Directory => self.compare_directory(entry),
            EntryKind::Symlink(_) => match self.twin(0, &entry.path).map(|twin| &twin.kind) {
                Some(EntryKind::Symlink(other)) if versions.iter().any(|it| is_symlink(it, other)) => {}
                Some(EntryKind::Symlink(_)) => self.say(&entry.path, "the symlink leads elsewhere"),
                Some(_) => self.say(&entry.path, "it was a symlink"),
                None if versions.len() < self.fats.len() => {}
                None => self.say(&entry.path, "the symlink is lost"),
            },
            EntryKind::File { .. } => self.compare_file(entry, versions),
        }
    }

    /// A directory may be missing in the host part if it held nothing but databases; those are compared themselves.
    fn compare_directory(&self, entry: &Entry) {
        let twins: Vec<_> = (0..self.parts.all.len()).filter_map(|part| self.twin(part, &entry.path)).collect();
        let is_empty = |fat: &Input| {
            let next = fat.entries.partition_point(|other| other.path <= entry.path);
            fat.entries.get(next).is_none_or(|next| next.path.below(&entry.path).is_none())
        };
        if twins.is_empty() && self.fats.iter().all(is_empty) {
            self.say(&entry.path, "the empty directory is lost");
        }
        for twin in twins {
            self.compare_mode(&[entry], twin);
        }
    }

    fn compare_file(&self, entry: &Entry, versions: &[&Entry]) {
        self.findings.counts.compared_files.add(1);
        let database = self.options.databases.classify(&entry.path);
        let key = database.as_ref().map(|found| self.parts.packaging().key_of_database(&found.arch));
        let is_expected = key.as_ref().is_none_or(|key| self.is_expected(key));
        let places: Vec<_> =
            (0..self.parts.all.len()).filter_map(|part| Some((part, self.twin(part, &entry.path)?))).collect();
        let (&(part, twin), rest) = match (places.split_first(), is_expected) {
            (Some(found), true) => found,
            (Some(_), false) => return self.say(&entry.path, "it is for a target that is not wanted"),
            // Host code is that of one of several builds.
            (None, true) if database.is_none() && versions.len() < self.fats.len() => return,
            (None, true) => return self.say(&entry.path, "the file is lost"),
            (None, false) => return,
        };
        // Packages for groups of processors share databases of their family.
        let is_shared = part > 0 && self.parts.component.is_some();
        if !rest.is_empty() && !is_shared {
            self.say(&entry.path, format!("it is in {} parts", places.len()));
        }
        let in_host = part == 0;
        if self.parts.kind == Kind::Split && in_host == database.is_some() {
            self.say(
                &entry.path,
                if in_host { "the database file is in the host part" } else { "it is in a device part" },
            );
        }
        self.compare_mode(versions, twin);
        let EntryKind::File { content: other, .. } = &twin.kind else {
            return self.say(&entry.path, "it was a file");
        };
        let contents: Vec<_> = versions.iter().filter_map(|entry| content(entry)).collect();
        if database.is_none() && self.compare_code(&entry.path, &contents, other) {
            return;
        }
        let others = rest.iter().filter(|_| is_shared).filter_map(|(_, twin)| content(twin));
        for other in std::iter::once(other).chain(others) {
            let equal = contents.iter().map(|content| equal(&***content, &**other));
            match equal.reduce(|one, next| Ok(one? || next?)) {
                Some(Ok(false)) => self.say(&entry.path, "its bytes differ"),
                Some(Err(error)) => self.say(&entry.path, error),
                Some(Ok(true)) | None => {}
            }
        }
    }

    fn compare_mode(&self, versions: &[&Entry], twin: &Entry) {
        let is = twin.attributes.mode;
        let Some(was) = versions.first().map(|entry| entry.attributes.mode) else { return };
        // A split leaves out set-ID bits unless it is asked to keep them.
        if versions.iter().all(|entry| entry.attributes.mode != is && entry.attributes.mode & !0o6000 != is) {
            self.say(&twin.path, format!("its mode was {was:04o} and is {is:04o}"));
        }
    }

    fn is_in_fat(&self, path: &EntryPath) -> bool {
        self.fats.iter().any(|fat| fat.entry(path).is_some())
    }

    fn twin(&self, part: usize, path: &EntryPath) -> Option<&'a Entry> {
        self.parts.all.get(part)?.input.entry(path)
    }

    /// Whatever is in the parts but not in the fat input, except archives.
    fn extra_files(&self) {
        let reached = self.shelf.archives.iter().filter(|archive| archive.is_reached());
        let archives: HashSet<_> = reached.map(|archive| (archive.part, &archive.path)).collect();
        let mut above: HashSet<EntryPath> = HashSet::new();
        for (_, path) in &archives {
            above.extend(std::iter::successors(path.parent(), EntryPath::parent));
        }
        for (number, part) in self.parts.all.iter().enumerate() {
            let is_known = |entry: &&Entry| {
                Part::is_metadata(&entry.path)
                    || self.is_in_fat(&entry.path)
                    || self.parts.component.is_some() && entry.path.name().ends_with(b".kpm")
                    || archives.contains(&(number, &entry.path))
                    || above.contains(&entry.path)
            };
            for entry in part.input.entries.iter().filter(|entry| !is_known(entry)) {
                self.findings.add(Check::Against, part.label(&entry.path), "the fat input does not have it");
            }
        }
    }

    /// Whatever is in archives and belongs to no wrapper of the fat input.
    fn extra_code_objects(&self) {
        let accounted = self.accounted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut by_archive: HashMap<usize, HashSet<(&str, &str)>> = HashMap::new();
        for (archive, key, target) in &*accounted {
            by_archive.entry(*archive).or_default().insert((key, target));
        }
        for (number, archive) in self.shelf.archives.iter().enumerate() {
            // Archives that were in the fat input are files like others.
            if self.is_in_fat(&archive.path) {
                continue;
            }
            let known = by_archive.remove(&number).unwrap_or_default();
            for (key, target, _) in
                archive.reader.entries().filter(|(key, target, _)| !known.contains(&(*key, *target)))
            {
                let reason = format!("{key} for {target}: the fat input has no such code object");
                self.findings.add(Check::Against, archive.label.as_str(), reason);
            }
        }
    }
}

fn content(entry: &Entry) -> Option<&Arc<dyn Content>> {
    match &entry.kind {
        EntryKind::File { content, .. } => Some(content),
        EntryKind::Directory | EntryKind::Symlink(_) => None,
    }
}

fn is_symlink(entry: &Entry, to: &[u8]) -> bool {
    matches!(&entry.kind, EntryKind::Symlink(target) if **target == *to)
}

fn size(entry: &Entry) -> u64 {
    content(entry).map_or(0, |content| content.size())
}
