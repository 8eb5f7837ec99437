//! Compares code objects: for each wrapper and target, a runtime must find the code of the fat binary.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use rayon::prelude::*;

use super::against::Comparison;
use super::bundle::has_own_hash;
use super::lookup::{LookupStep, WrapperRequest};
use super::rules::Rule;
use super::thin::by_target;
use crate::binary::FatBinary;
use crate::fatbin::{CodeObject, Compressed, read_bundle};
use crate::gpu::{GpuSet, TargetId};
use crate::kpack::{TocEntry, toc_key};
use crate::report::table::counted;
use crate::rope::{Content, Sha256, equal, to_usize};
use crate::source::EntryPath;
use crate::split::targets_of_bundle_file;

/// A binary with code, of one build.
struct FatBuild {
    binary: FatBinary,
    /// The code objects of its bundles, of those that can be read.
    bundles: Vec<Option<Vec<CodeObject>>>,
    /// The number of the bundle of each wrapper.
    wrappers: Vec<usize>,
}

impl FatBuild {
    /// The code objects of a wrapper.
    fn objects(&self, wrapper: usize) -> Option<&[CodeObject]> {
        self.bundles.get(*self.wrappers.get(wrapper)?)?.as_deref()
    }
}

/// The code objects of a wrapper in one build, in the order of their bundle.
type FatCode<'a> = Vec<&'a CodeObject>;

/// Why code cannot be compared. It is only printed.
type CodeError = Box<dyn std::error::Error>;

impl Comparison<'_> {
    /// Compares a file with device code, in one or several builds, with its split form. `false` if it has no device
    /// code or could not be split, so that it must be unchanged.
    pub(super) fn compare_code(
        &self,
        path: &EntryPath,
        versions: &[&Arc<dyn Content>],
        split: &Arc<dyn Content>,
    ) -> bool {
        let mut fat = Vec::new();
        for content in versions {
            let Some(build) = self.build(content).filter(|it| it.bundles.iter().all(Option::is_some)) else {
                return false;
            };
            self.note_hashes(path, content, &build);
            fat.push(build);
        }
        // A thin tree of split input contains split binaries without code for its GPUs.
        let thin = self.context.thin.gpus(path).filter(|_| !self.context.binaries.split.contains_key(path));
        if let (Some(gpus), [fat]) = (thin, &*fat) {
            return self.compare_thin(path, fat, split, gpus);
        }
        let Some(requests) = self.context.binaries.split.get(path) else {
            // It is still fat, which has been reported. Nothing is lost if the file is unchanged.
            return false;
        };
        if !self.has_form(path, &fat, split, requests.len()) {
            return true;
        }
        let mut alike = BTreeMap::<_, Vec<_>>::new();
        for (position, request) in requests.iter().enumerate() {
            let bundles: Vec<_> = fat.iter().map(|build| build.wrappers.get(position)).collect();
            // Nothing can be looked up without a marker, which has been reported.
            alike.entry(bundles).or_default().extend(request.as_ref().map(|request| (position, request)));
        }
        let alike: Vec<_> = alike.into_values().collect();
        alike.par_iter().with_max_len(1).for_each(|wrappers| self.compare_wrappers(path, wrappers, &fat));
        true
    }

    /// Notes which compressed bundles of a fat binary have a wrong hash. What was split of them is the same.
    fn note_hashes(&self, path: &EntryPath, content: &Arc<dyn Content>, fat: &FatBuild) {
        let bundles: Vec<_> =
            fat.bundles.iter().flatten().filter_map(|code| code.iter().find_map(|it| it.bundle.as_ref())).collect();
        let size = |bundle: &&Arc<Compressed>| bundle.whole().size();
        self.context.progress.expect(bundles.iter().map(size).sum());
        let is_wrong = |bundle: &&&Arc<Compressed>| {
            // Held so that it is decompressed once.
            let _held = bundle.is_decompressed_in_memory().then(|| bundle.pin_whole());
            let is_wrong = has_own_hash(content, bundle).is_ok_and(|is_own| !is_own);
            self.context.progress.advance(size(bundle));
            is_wrong
        };
        let wrong = bundles.par_iter().with_max_len(1).filter(is_wrong).count();
        if wrong > 0 {
            let bundles = counted(wrong, "compressed bundle", "compressed bundles");
            self.context.findings.note(format!(
                "{path}: the fat input has {bundles} whose hash is not that of the content: damaged, or another program wrote \
                 the header; the split has the same code"
            ));
        }
    }

    /// A binary with code; `None` if it is none that can be read.
    fn build(&self, content: &Arc<dyn Content>) -> Option<FatBuild> {
        let binary = FatBinary::scan(content).ok()??;
        let (places, wrappers) = binary.bundles();
        let bundles =
            places.iter().map(|it| read_bundle(content, it.bundle, it.limit, self.context.resources).ok()).collect();
        Some(FatBuild { binary, bundles, wrappers })
    }

    /// Compares everything but device code with that of each build: it must be the same as in one of them. `false` if the
    /// numbers of wrappers differ, so that these cannot be compared.
    fn has_form(&self, path: &EntryPath, fat: &[FatBuild], made: &Arc<dyn Content>, wrappers: usize) -> bool {
        let differences: Vec<_> = fat.iter().map(|build| build.binary.first_difference(made)).collect();
        if !differences.iter().any(|difference| matches!(difference, Ok(None))) {
            match differences.into_iter().next() {
                Some(Ok(Some(difference))) => self.say(Rule::AgainstBinary, path, difference),
                Some(Err(error)) => self.say(Rule::AgainstUnreadable, path, error),
                Some(Ok(None)) | None => {}
            }
        }
        let other = fat.iter().map(|build| build.wrappers.len()).find(|number| *number != wrappers);
        if let Some(had) = other {
            self.say(
                Rule::AgainstBinary,
                path,
                format!("it had {} and has {wrappers}", counted(had, "wrapper", "wrappers")),
            );
        }
        other.is_none()
    }

    /// Compares a bundle file with code for several targets with its thin form. `false` if it is not such a file, or
    /// must be unchanged.
    pub(super) fn compare_bundle_file(
        &self,
        path: &EntryPath,
        versions: &[&Arc<dyn Content>],
        thin: &Arc<dyn Content>,
    ) -> bool {
        let (Some(gpus), [content]) = (self.context.thin.gpus(path), versions) else { return false };
        if targets_of_bundle_file(path.name(), content, self.context.resources).is_none_or(|targets| targets.len() < 2)
        {
            return false;
        }
        let objects = |content: &Arc<dyn Content>| read_bundle(content, 0, content.size(), self.context.resources);
        let compared = objects(content).and_then(|fat| Ok((fat, objects(thin)?))).map_err(CodeError::from);
        if let Err(error) = compared.and_then(|(fat, thin)| self.compare_thin_bundle(path, "it", &fat, &thin, gpus)) {
            self.say(Rule::AgainstUnreadable, path, error);
        }
        true
    }

    /// Compares a thin binary: it must contain exactly the code of the fat one that the GPUs can run. `false` if it is
    /// still fat, so that it must be unchanged.
    fn compare_thin(&self, path: &EntryPath, fat: &FatBuild, thin: &Arc<dyn Content>, gpus: &GpuSet) -> bool {
        // An unreadable file has been reported, and so has an unreadable bundle.
        let Some(found) = self.build(thin) else { return false };
        if !self.has_form(path, std::slice::from_ref(fat), thin, found.wrappers.len()) {
            return true;
        }
        // The first wrapper stands for all that lead to the same bundles.
        let pairs = fat.wrappers.iter().zip(&found.wrappers).enumerate().rev();
        let pairs: BTreeMap<_, _> = pairs.map(|(position, bundles)| (bundles, position)).collect();
        let firsts: Vec<_> = pairs.into_values().collect();
        firsts.par_iter().with_max_len(1).for_each(|&position| {
            let (Some(bundle), Some(found)) = (fat.objects(position), found.objects(position)) else { return };
            let name = format!("wrapper {position}");
            if let Err(error) = self.compare_thin_bundle(path, &name, bundle, found, gpus) {
                self.say(Rule::AgainstUnreadable, path, format!("{name}: {error}"));
            }
        });
        true
    }

    /// Compares the code in a thin bundle with that of its fat form. `name` is used in findings.
    fn compare_thin_bundle(
        &self,
        path: &EntryPath,
        name: &str,
        fat: &[CodeObject],
        thin: &[CodeObject],
        gpus: &GpuSet,
    ) -> Result<(), CodeError> {
        let (fat, thin) = (by_target(fat), by_target(thin));
        let present: Vec<_> = fat.keys().copied().collect();
        let keeps = gpus.keeps(&present);
        for (target, is_wanted) in present.into_iter().zip(keeps) {
            match (fat.get(target), thin.get(target)) {
                (Some(_), None) if is_wanted => {
                    self.say(Rule::AgainstCodeLost, path, format!("{name}: its code for {target} is not found"));
                }
                (Some(_), Some(_)) if !is_wanted => {
                    let reason = format!("{name} has code for {target}, which {gpus} does not need");
                    self.say(Rule::AgainstCodeAdded, path, reason);
                }
                (Some(expected), Some(found)) => {
                    self.context.findings.counts.compared_code_objects.add(1);
                    if !equal(&*expected.content, &*found.content)? {
                        let reason = format!("{name}: its code for {target} is other code");
                        self.say(Rule::AgainstCodeChanged, path, reason);
                    }
                }
                _ => {}
            }
        }
        for target in thin.keys().filter(|target| !fat.contains_key(*target)) {
            self.say(Rule::AgainstCodeAdded, path, format!("{name} had no code for {target}, but now has some"));
        }
        Ok(())
    }

    /// Compares the code of wrappers that lead to the same bundles.
    fn compare_wrappers(&self, path: &EntryPath, wrappers: &[(usize, &WrapperRequest)], fat: &[FatBuild]) {
        let Some((first, _)) = wrappers.first() else { return };
        let builds: Vec<FatCode> =
            fat.iter().filter_map(|build| Some(build.objects(*first)?.iter().collect())).collect();
        // The first wrapper stands for all that lead to the same code, of which the same is expected.
        let (mut found, mut known, mut sums) = (Vec::new(), HashSet::new(), HashMap::new());
        for (position, request) in wrappers {
            let of_wrapper = self.found_by(path, *position, request, &builds);
            self.context.findings.counts.compared_code_objects.add(of_wrapper.len() as u64);
            for it in of_wrapper {
                let (entry, expected) = ((it.archive, it.entry.ordinal), it.expected.iter().map(|code| &code.target));
                if known.insert((entry, it.target.clone(), expected.collect::<Vec<_>>())) {
                    let sum = *sums.entry(entry).or_insert_with(|| self.sum(path, *position, &it));
                    found.extend(sum.map(|sum| (*position, sum, it)));
                }
            }
        }
        // Held so that it is decompressed once for all targets, unless it is damaged. A thread that holds a bundle may not wait
        // for memory for another one, nor for a stream.
        let packed: Vec<_> = builds.iter().filter_map(|code| code.iter().find_map(|it| it.bundle.as_ref())).collect();
        let _held = match &*packed {
            [bundle] if bundle.is_decompressed_in_memory() => bundle.pin_whole().ok(),
            _ => None,
        };
        for (position, sum, found) in &found {
            self.compare_object(path, *position, found, sum);
        }
    }

    /// The code objects that a runtime finds for a wrapper.
    fn found_by<'a>(
        &self,
        path: &EntryPath,
        position: usize,
        request: &WrapperRequest,
        builds: &[FatCode<'a>],
    ) -> Vec<ArchivedObject<'a>> {
        let directory = path.parent().unwrap_or_else(EntryPath::root);
        let key = toc_key(&request.marker.kernel_name, to_usize(request.index.into()));
        let mut found = self.found_on_devices(path, position, &key, builds, request);
        // Any other code that is found under its name must be code that a device of that target would have run.
        for target in &self.context.archives.targets {
            let steps = self.context.archives.steps(&directory, &request.marker.kpack_search_paths, target);
            let own = target.to_string();
            for step in steps.iter().filter(|step| step.target == own && self.context.archives.holds(step, &key)) {
                if !self.account(step, &key) {
                    continue;
                }
                let versions = loaded(builds, target);
                if versions.is_empty() {
                    let reason = format!("wrapper {position} had no code for {target}, but now has some");
                    self.say(Rule::AgainstCodeAdded, path, reason);
                } else {
                    found.extend(self.found(&key, step, &versions));
                }
            }
        }
        found
    }

    /// What archives have for each device that the fat binary has code for, in each of its modes. Both are asked as a
    /// runtime asks them.
    fn found_on_devices<'a>(
        &self,
        path: &EntryPath,
        position: usize,
        key: &str,
        builds: &[FatCode<'a>],
        request: &WrapperRequest,
    ) -> Vec<ArchivedObject<'a>> {
        let directory = path.parent().unwrap_or_else(EntryPath::root);
        let (mut found, mut known, mut lost) = (Vec::new(), HashSet::new(), BTreeMap::new());
        // Empty code objects run nowhere.
        let with_code = |code: &FatCode<'a>| code.iter().copied().filter(|object| object.content.size() > 0).collect();
        let builds: Vec<FatCode<'a>> = builds.iter().map(with_code).collect();
        let targets: BTreeSet<_> = builds.iter().flatten().map(|object| &object.target).collect();
        for target in targets {
            self.note_spirv(path, target);
            // A device called like the code comes first, and stands for all others in messages.
            let others = target.devices().into_iter().filter(|device| device != target);
            for device in std::iter::once(target.clone()).chain(others) {
                let versions = loaded(&builds, &device);
                let Some(first) = versions.first().filter(|first| first.target == *target) else { continue };
                if !self.is_expected(&self.context.parts.packaging().key_of(&first.target)) {
                    continue;
                }
                let steps = self.context.archives.steps(&directory, &request.marker.kpack_search_paths, &device);
                match steps.iter().find(|step| self.context.archives.holds(step, key)) {
                    Some(step) if known.insert((step.archive, step.target.clone(), target)) => {
                        found.extend(self.found(key, step, &versions));
                    }
                    Some(_) => {}
                    None => drop(lost.entry(target).or_insert(device)),
                }
            }
        }
        for (target, device) in lost {
            let by = if device == *target { String::new() } else { format!(" by a {device}") };
            let reason = format!("wrapper {position}: its code for {target} is not found{by}");
            self.say(Rule::AgainstCodeLost, path, reason);
        }
        found
    }

    /// Records that a code object belongs to a wrapper. `false` if that was known.
    fn account(&self, step: &LookupStep, key: &str) -> bool {
        let mut accounted = self.accounted.lock();
        accounted.insert((step.archive, key.to_owned(), step.target.clone()))
    }

    /// What a runtime finds at a step.
    fn found<'a>(&self, key: &str, step: &LookupStep, expected: &[&'a CodeObject]) -> Option<ArchivedObject<'a>> {
        self.account(step, key);
        let entry = self.context.archives.list.get(step.archive)?.reader.find(key, &step.target).ok()??;
        Some(ArchivedObject { archive: step.archive, target: step.target.clone(), entry, expected: expected.to_vec() })
    }

    /// The digest of a code object of an archive, which is read before any bundle is held, since reading waits for memory. What
    /// cannot be read is a finding, and the others are compared.
    fn sum(&self, path: &EntryPath, position: usize, found: &ArchivedObject) -> Option<[u8; 32]> {
        let (archive, mut sha256) = (self.context.archives.list.get(found.archive)?, Sha256::default());
        let take = |piece: &[u8]| -> std::io::Result<()> {
            sha256.update(piece);
            Ok(())
        };
        if let Err(error) = archive.reader.read(&found.entry, &self.context.resources.budget, take) {
            let (target, archive) = (&found.target, &archive.label);
            let reason = format!("wrapper {position}: what is found for {target} in {archive} cannot be read: {error}");
            self.say(Rule::AgainstUnreadable, path, reason);
            return None;
        }
        Some(sha256.finish())
    }

    fn compare_object(&self, path: &EntryPath, position: usize, found: &ArchivedObject, sum: &[u8; 32]) {
        let mut unread = None;
        let is_as_long = |it: &&&CodeObject| it.content.size() == found.entry.original_size;
        for CodeObject { content, target, .. } in found.expected.iter().filter(is_as_long) {
            match Sha256::of_content(&**content) {
                Ok(sha256) if sha256 == *sum => return,
                Ok(_) => {}
                Err(error) => {
                    unread = Some(format!("wrapper {position}: its code for {target} cannot be read: {error}"));
                }
            }
        }
        if let Some(reason) = unread {
            self.say(Rule::AgainstUnreadable, path, reason);
        } else if let Some(archive) = self.context.archives.list.get(found.archive) {
            let (archive, target) = (&archive.label, &found.target);
            let reason = format!("wrapper {position}: what is found for {target} in {archive} is other code");
            self.say(Rule::AgainstCodeChanged, path, reason);
        }
    }
}

/// The code that a runtime loads for a device of exactly this name, in each build that has some.
fn loaded<'a>(builds: &[FatCode<'a>], device: &TargetId) -> Vec<&'a CodeObject> {
    let of_build = |code: &FatCode<'a>| {
        let targets: Vec<_> = code.iter().map(|object| &object.target).collect();
        code.get(device.loads(&targets)?).copied()
    };
    builds.iter().filter_map(of_build).collect()
}

/// A code object of an archive.
struct ArchivedObject<'a> {
    /// Number of the archive.
    archive: usize,
    /// The name in it.
    target: String,
    entry: TocEntry,
    /// The code objects that it may be equal to.
    expected: Vec<&'a CodeObject>,
}
