//! The comparison with the fat input: nothing lost, nothing changed, nothing added.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use rayon::prelude::*;

use super::against_own::OwnFiles;
use super::context::Context;
use super::lookup::names_archive;
use super::parts::{Part, PartsKind};
use super::rules::Rule;
use crate::database::{Arch, Databases};
use crate::gpu::{BundleKey, TargetId};
use crate::memory::{Parser, WholeFile};
use crate::rope::{Content, Sha256, equal};
use crate::source::{Entry, EntryKind, EntryPath, Input, Resolved, resolve_links};
use crate::wheel::{Claims, Stated, is_elsewhere};

/// A fat input, or several builds of it, and their split.
pub(super) struct Comparison<'a> {
    pub(super) fats: &'a [Input],
    pub(super) context: &'a Context<'a>,
    /// The databases, including those of the fat input, which may be in no part.
    databases: Databases,
    own: OwnFiles,
    /// Code objects in archives, by archive, name and target, that belong to a wrapper of the fat input.
    pub(super) accounted: Mutex<HashSet<(usize, String, String)>>,
}

impl<'a> Comparison<'a> {
    pub(super) fn new(fats: &'a [Input], fat_name: Option<&'a str>, context: &'a Context<'a>) -> Self {
        let Context { parts, choices, resources, .. } = *context;
        let of_parts = parts.files().map(|file| (file.path, file.content));
        let databases = choices.databases.of(fats.iter().flat_map(Input::files).chain(of_parts), resources);
        let own = OwnFiles::of(context, fats, fat_name, &databases);
        Self { fats, context, databases, own, accounted: Mutex::default() }
    }

    pub(super) fn run(&self) {
        let progress = self.context.progress;
        let mut entries = BTreeMap::<&EntryPath, Vec<&Entry>>::new();
        let is_in_parts = |path: &EntryPath| self.context.parts.all.iter().any(|part| part.input.entry(path).is_some());
        let is_left = |entry: &Entry| is_lock(entry) && !is_in_parts(&entry.path);
        let is_compared = |entry: &&Entry| {
            !Part::is_metadata(&entry.path) && !is_left(entry) && !self.is_of_earlier_split(&entry.path)
        };
        for entry in self.fats.iter().flat_map(|fat| &fat.entries).filter(is_compared) {
            entries.entry(&entry.path).or_default().push(entry);
        }
        let size = |versions: &Vec<&Entry>| versions.iter().map(|entry| entry.size()).sum::<u64>();
        let mut entries: Vec<_> = entries.into_values().collect();
        entries.sort_by_key(|versions| std::cmp::Reverse(size(versions)));
        progress.expect_files(entries.iter().map(size).sum(), self.context.resources);
        entries.par_iter().with_max_len(1).for_each(|versions| {
            let _named = progress.at(|| versions.first().map(|entry| entry.path.to_string()).unwrap_or_default());
            self.compare(versions);
            progress.advance(size(versions));
        });
        self.extra_files();
        self.extra_code_objects();
    }

    pub(super) fn say(&self, rule: Rule, path: &EntryPath, reason: impl std::fmt::Display) {
        self.context.findings.add(rule, path.to_string(), reason);
    }

    /// Whether code and databases for this key must exist.
    pub(super) fn is_expected(&self, key: &BundleKey) -> bool {
        self.context.choices.wants(key) && self.own.has_part(key)
    }

    /// Notes SPIR-V code of a fat binary that is in archives now.
    pub(super) fn note_spirv(&self, path: &EntryPath, target: &TargetId) {
        if target.is_spirv() && self.is_expected(&self.context.parts.packaging().key_of(target)) {
            self.context.findings.note(format!(
                "{path}: its SPIR-V code is in an archive, where no released HIP runtime finds it; GPUs without other code of it in the fat \
                 input were served by that"
            ));
        }
    }

    /// Whether a file of a database is for a mode that the GPUs of a thin view can be in.
    fn is_of_modes(&self, path: &EntryPath, arch: &Arch) -> bool {
        match (arch, self.context.thin.gpus(path)) {
            (Arch::Target(target), Some(gpus)) => gpus.has_modes_of(target),
            _ => true,
        }
    }

    /// Compares the entries of all fat inputs at one path with the result.
    fn compare(&self, versions: &[&Entry]) {
        let Some(entry) = versions.first() else { return };
        match &entry.kind {
            EntryKind::Directory => self.compare_directory(entry),
            EntryKind::Symlink(_) => match self.counterpart(0, &entry.path).map(|counterpart| &counterpart.kind) {
                Some(EntryKind::Symlink(other)) if versions.iter().any(|it| is_symlink(it, other)) => {}
                Some(EntryKind::Symlink(_)) => {
                    self.say(Rule::AgainstChanged, &entry.path, "the symlink leads elsewhere");
                }
                Some(EntryKind::File { .. }) if self.followed(entry).is_some() => {
                    // Wheels do not contain symlinks, but copies of their targets.
                    let copies: Vec<_> = versions.iter().filter_map(|entry| self.followed(entry)).collect();
                    self.compare_file(entry, &copies.iter().collect::<Vec<_>>());
                }
                Some(_) => self.say(Rule::AgainstChanged, &entry.path, "it was a symlink"),
                None => self.say(Rule::AgainstLost, &entry.path, "the symlink is lost"),
            },
            EntryKind::File { .. } => self.compare_file(entry, versions),
        }
    }

    /// The file to which a symlink of a fat input leads, at the path of the symlink.
    fn followed(&self, entry: &Entry) -> Option<Entry> {
        let find = |path: &EntryPath| self.fats.iter().find_map(|fat| fat.entry(path));
        let Resolved::Entry(path) = resolve_links(&entry.path, None, |path| Some(&find(path)?.kind)) else {
            return None;
        };
        let target = find(&path)?;
        target.content().is_some().then(|| Entry { path: entry.path.clone(), ..target.clone() })
    }

    /// A directory may be missing from the host part if it contained nothing but databases, which are compared
    /// themselves.
    fn compare_directory(&self, entry: &Entry) {
        // Of a wheel only files are installed (pip), so that a directory may be there or not, with any mode.
        if self.fats.iter().any(|fat| fat.dist_info().is_some()) {
            return;
        }
        let counterparts: Vec<_> =
            (0..self.context.parts.all.len()).filter_map(|part| self.counterpart(part, &entry.path)).collect();
        let is_empty = |fat: &Input| {
            let next = fat.entries.partition_point(|other| other.path <= entry.path);
            fat.entries.get(next).is_none_or(|next| next.path.below(&entry.path).is_none())
        };
        if counterparts.is_empty() && self.fats.iter().all(is_empty) {
            self.say(Rule::AgainstLost, &entry.path, "the empty directory is lost");
        }
        for counterpart in counterparts {
            self.compare_mode(&[entry], counterpart);
        }
    }

    fn compare_file(&self, entry: &Entry, versions: &[&Entry]) {
        if self.own.is_compiled(&entry.path, |source| self.is_in_fat(source)) {
            return;
        }
        self.context.findings.counts.compared_files.add(1);
        let database = self.databases.classify(&entry.path);
        let key = database.as_ref().map(|found| self.context.parts.packaging().key_of_database(&found.arch));
        let is_expected = key.as_ref().is_none_or(|key| self.is_expected(key))
            && database.as_ref().is_none_or(|found| self.is_of_modes(&entry.path, &found.arch));
        let places: Vec<_> = (0..self.context.parts.all.len())
            .filter_map(|part| Some((part, self.counterpart(part, &entry.path)?)))
            .collect();
        let (&(part, counterpart), rest) = match (places.split_first(), is_expected) {
            (Some(found), true) => found,
            (Some(_), false) => {
                return self.say(Rule::AgainstPlace, &entry.path, "it is for a target that is not wanted");
            }
            // Another splitter may have made it from one of several builds.
            (None, true) if self.context.parts.component.is_some() && is_of_device_part(&entry.path) => return,
            // Scripts, headers and data are installed elsewhere.
            (None, true) if is_elsewhere(&entry.path) && self.is_installed() => return,
            (None, true) => return self.say(Rule::AgainstLost, &entry.path, "the file is lost"),
            (None, false) => return,
        };
        // Packages for groups of processors share the databases of their family.
        let is_shared = part > 0 && self.context.parts.component.is_some();
        if !rest.is_empty() && !is_shared {
            self.say(Rule::AgainstPlace, &entry.path, format!("it is in {} parts", places.len()));
        }
        let in_host = part == 0;
        if self.context.parts.kind.is_separate() && in_host == database.is_some() {
            let reason = if in_host { "the database file is in the host part" } else { "it is in a device part" };
            self.say(Rule::AgainstPlace, &entry.path, reason);
        }
        self.compare_mode(versions, counterpart);
        let Some(other) = counterpart.content() else {
            return self.say(Rule::AgainstChanged, &entry.path, "it was a file");
        };
        let contents: Vec<_> = versions.iter().filter_map(|entry| entry.content()).collect();
        if self.compare_bundle_file(&entry.path, &contents, other)
            || database.is_none() && self.compare_code(&entry.path, &contents, other)
        {
            return;
        }
        let others = rest.iter().filter(|_| is_shared).filter_map(|(_, counterpart)| counterpart.content());
        for other in std::iter::once(other).chain(others) {
            let equal = contents.iter().map(|content| equal(&***content, &**other));
            match equal.reduce(|one, next| Ok(one? || next?)) {
                Some(Ok(false)) if self.is_record_of(&entry.path, part, &contents, other) => {}
                Some(Ok(false)) => self.say(Rule::AgainstChanged, &entry.path, "its bytes differ"),
                Some(Err(error)) => self.say(Rule::AgainstUnreadable, &entry.path, error),
                Some(Ok(true)) | None => {}
            }
        }
    }

    /// Whether a RECORD below the root is that of the fat input but for lines about files that the split changed, and these are
    /// right. Images get such RECORDs. What cannot be read is no such RECORD.
    fn is_record_of(
        &self,
        path: &EntryPath,
        part: usize,
        fat: &[&Arc<dyn Content>],
        content: &Arc<dyn Content>,
    ) -> bool {
        let claims = |content: &dyn Content| WholeFile::of(Parser::Record, content).map(|it| Claims::parse(&it));
        let ([was], Some(b"RECORD"), Ok(is)) = (fat, Some(path.name()), claims(&**content)) else { return false };
        let (Ok(was), Some(site)) = (claims(&***was), path.parent().and_then(|it| it.parent())) else { return false };
        // Files such as scripts are elsewhere, and no split changes them.
        let outside = |(row, _): &(&[u8], Stated)| EntryPath::new(row).is_err();
        if is.rows().next().is_none() || !was.rows().filter(outside).eq(is.rows().filter(outside)) {
            return false;
        }
        was.rows().chain(is.rows()).filter_map(|(row, _)| EntryPath::new(row).ok()).all(|row| {
            let file = || self.counterpart(part, &site.child(row.as_bytes()))?.content();
            match (was.get(&row), is.get(&row)) {
                (before, now) if before == now => true,
                (_, Some(claim)) => file().is_some_and(|file| {
                    file.size() == claim.size && Sha256::of_content(&**file).is_ok_and(|sum| sum == claim.sha256)
                }),
                (_, None) => file().is_none(),
            }
        })
    }

    fn compare_mode(&self, versions: &[&Entry], counterpart: &Entry) {
        let is = counterpart.attributes.mode;
        let Some(was) = versions.first().map(|entry| entry.attributes.mode) else { return };
        // Of the modes in wheels, only the executable bit is installed (Binary distribution format); the user's umask, or
        // the zip file where unzip unpacked it, decides about the rest. A split clears set-ID bits.
        let is_of_wheel = self.fats.iter().any(|fat| fat.dist_info().is_some());
        let is_installed = self.context.parts.kind == PartsKind::Installation;
        let is_same = |was: u16| {
            let (plain, unzipped, installed) =
                if was & 0o111 == 0 { (0o644, 0o666, 0o600) } else { (0o755, 0o777, 0o700) };
            was & !0o6000 == is & !0o6000 && is & 0o6000 & !was == 0
                || is_of_wheel && is & plain == plain && is & !unzipped == 0
                || is_of_wheel && is_installed && is & 0o7700 == installed
        };
        if !versions.iter().any(|entry| is_same(entry.attributes.mode)) {
            self.say(Rule::AgainstMode, &counterpart.path, format!("its mode was {was:04o} and is {is:04o}"));
        }
    }

    /// Whether this is an installation, whose scripts, headers and data are elsewhere.
    fn is_installed(&self) -> bool {
        self.context.parts.kind == PartsKind::Installation
            && !self.context.parts.all.iter().any(|part| part.holds_all())
    }

    fn is_in_fat(&self, path: &EntryPath) -> bool {
        self.fats.iter().any(|fat| fat.entry(path).is_some())
    }

    fn counterpart(&self, part: usize, path: &EntryPath) -> Option<&'a Entry> {
        self.context.parts.all.get(part)?.input.entry(path)
    }

    /// Reports files of the parts that are not in the fat input, except archives.
    fn extra_files(&self) {
        let reached = self.context.archives.list.iter().filter(|archive| archive.is_reached());
        let archives: HashSet<_> = reached.map(|archive| (archive.part, &archive.path)).collect();
        let mut above: HashSet<EntryPath> = HashSet::new();
        for (_, path) in &archives {
            above.extend(std::iter::successors(path.parent(), EntryPath::parent));
        }
        for (number, part) in self.context.parts.all.iter().enumerate() {
            let is_known = |entry: &&Entry| {
                Part::is_metadata(&entry.path)
                    || is_lock(entry)
                    || self.own.is_beside(&entry.path)
                    || self.is_left_empty(entry)
                    || self.own.is_compiled(&entry.path, |source| part.input.entry(source).is_some())
                    || self.is_in_fat(&entry.path)
                    || self.context.parts.component.is_some() && entry.path.name().ends_with(b".kpm")
                    || archives.contains(&(number, &entry.path))
                    || above.contains(&entry.path)
                    || self.context.parts.leave_out(&entry.path)
            };
            for entry in part.input.entries.iter().filter(|entry| !is_known(entry)) {
                let reason = "the fat input does not have it";
                self.context.findings.add(Rule::AgainstAdded, part.label(&entry.path), reason);
            }
        }
    }

    /// Reports code objects in archives that belong to no wrapper of the fat input.
    fn extra_code_objects(&self) {
        let accounted = self.accounted.lock();
        let mut by_archive: HashMap<usize, HashSet<(&str, &str)>> = HashMap::new();
        for (archive, key, target) in &*accounted {
            by_archive.entry(*archive).or_default().insert((key, target));
        }
        for (number, archive) in self.context.archives.list.iter().enumerate() {
            // Archives of the fat input are ordinary files.
            if self.is_in_fat(&archive.path) || self.own.is_beside(&archive.path) {
                continue;
            }
            let known = by_archive.remove(&number).unwrap_or_default();
            let is_extra = |key: &str, target: &str| {
                !known.contains(&(key, target)) && !archive.is_left_out(key, self.context.parts)
            };
            for (key, target, _) in archive.reader.entries().filter(|(key, target, _)| is_extra(key, target)) {
                let reason = format!("{key} for {target}: the fat input has no such code object");
                self.context.findings.add(Rule::AgainstCodeAdded, archive.label.as_str(), reason);
            }
        }
    }
}

/// Whether another splitter put a file into a device part.
fn is_of_device_part(path: &EntryPath) -> bool {
    names_archive(path) || path.name().ends_with(b".kpm")
}

fn is_symlink(entry: &Entry, to: &[u8]) -> bool {
    matches!(&entry.kind, EntryKind::Symlink(target) if **target == *to)
}

/// Whether this is the empty file that uv locks while it installs into a directory, and leaves there (its crate `uv-python`,
/// `PythonEnvironment::lock`).
fn is_lock(entry: &Entry) -> bool {
    entry.path.as_bytes() == b".lock" && entry.content().is_some_and(|content| content.size() == 0)
}
