//! Compares code objects: for each wrapper and target, a runtime must find the code of the fat binary.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use rayon::prelude::*;

use super::against::Comparison;
use super::lookup::{LookupStep, WrapperRequest};
use super::rules::Rule;
use super::thin::by_target;
use crate::binary::{FatBinary, Wrapper};
use crate::fatbin::{Bundle, CodeObject, FatbinError};
use crate::gpu::{GpuSet, TargetId};
use crate::kpack::toc_key;
use crate::report::table::counted;
use crate::rope::{Content, Sha256, equal, to_usize};
use crate::source::EntryPath;
use crate::split::targets_of_bundle_file;

/// A fat binary of one build, with the code objects of each of its wrappers.
type FatBuild = (FatBinary, Vec<Vec<CodeObject>>);

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
            let Ok(Some(binary)) = FatBinary::scan(content) else { return false };
            let bundle = |wrapper: &Wrapper| self.objects(content, wrapper.bundle, wrapper.limit);
            let Ok(bundles) = binary.wrappers().iter().map(bundle).collect::<Result<Vec<_>, _>>() else { return false };
            fat.push((binary, bundles));
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
        requests.par_iter().enumerate().with_max_len(1).for_each(|(position, request)| {
            // Nothing can be looked up without a marker, which has been reported.
            let Some(request) = request else { return };
            let bundles = fat.iter().filter_map(|(_, bundles)| bundles.get(position));
            if let Err(error) = self.compare_wrapper(path, position, bundles, request) {
                self.say(Rule::AgainstUnreadable, path, format!("wrapper {position}: {error}"));
            }
        });
        true
    }

    /// Compares everything but device code with that of each build: it must be the same as in one of them. `false` if the
    /// numbers of wrappers differ, so that these cannot be compared.
    fn has_form(&self, path: &EntryPath, fat: &[FatBuild], made: &Arc<dyn Content>, wrappers: usize) -> bool {
        let differences: Vec<_> = fat.iter().map(|(binary, _)| binary.first_difference(made)).collect();
        if !differences.iter().any(|difference| matches!(difference, Ok(None))) {
            match differences.into_iter().next() {
                Some(Ok(Some(difference))) => self.say(Rule::AgainstBinary, path, difference),
                Some(Err(error)) => self.say(Rule::AgainstUnreadable, path, error),
                Some(Ok(None)) | None => {}
            }
        }
        let other = fat.iter().map(|(_, bundles)| bundles.len()).find(|number| *number != wrappers);
        if let Some(had) = other {
            self.say(
                Rule::AgainstBinary,
                path,
                format!("it had {} and has {wrappers}", counted(had, "wrapper", "wrappers")),
            );
        }
        other.is_none()
    }

    /// The code objects of a bundle.
    fn objects(&self, content: &Arc<dyn Content>, start: u64, limit: u64) -> Result<Vec<CodeObject>, FatbinError> {
        Bundle::read(content, start, limit, self.context.resources)?.objects(content, self.context.resources)
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
        let objects = |content: &Arc<dyn Content>| self.objects(content, 0, content.size());
        let compared = objects(content).and_then(|fat| Ok((fat, objects(thin)?))).map_err(CodeError::from);
        if let Err(error) = compared.and_then(|(fat, thin)| self.compare_thin_bundle(path, "it", &fat, &thin, gpus)) {
            self.say(Rule::AgainstUnreadable, path, error);
        }
        true
    }

    /// Compares a thin binary: it must contain exactly the code of the fat one that the GPUs can run. `false` if it is
    /// still fat, so that it must be unchanged.
    fn compare_thin(&self, path: &EntryPath, fat: &FatBuild, thin: &Arc<dyn Content>, gpus: &GpuSet) -> bool {
        // An unreadable file has been reported.
        let Ok(Some(binary)) = FatBinary::scan(thin) else { return false };
        let (wrappers, bundles) = (binary.wrappers(), &fat.1);
        if !self.has_form(path, std::slice::from_ref(fat), thin, wrappers.len()) {
            return true;
        }
        wrappers.par_iter().zip(bundles).enumerate().with_max_len(1).for_each(|(position, (wrapper, bundle))| {
            let Ok(found) = self.objects(thin, wrapper.bundle, wrapper.limit) else { return };
            let name = format!("wrapper {position}");
            if let Err(error) = self.compare_thin_bundle(path, &name, bundle, &found, gpus) {
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

    fn compare_wrapper<'a>(
        &self,
        path: &EntryPath,
        position: usize,
        bundles: impl Iterator<Item = &'a Vec<CodeObject>>,
        request: &WrapperRequest,
    ) -> Result<(), CodeError> {
        let directory = path.parent().unwrap_or_else(EntryPath::root);
        let key = toc_key(&request.marker.kernel_name, to_usize(request.index.into()));
        let mut compressed = Vec::new();
        let mut builds = Vec::<FatCode>::new();
        for bundle in bundles {
            compressed.extend(bundle.iter().find_map(|object| object.bundle.as_ref()));
            builds.push(bundle.iter().collect());
        }
        let wanted = (path, position, &*key);
        let mut found = self.found_on_devices(wanted, &builds, request);
        // Any other code that is found under its name must be code that a device of that target would have run.
        for target in &self.context.archives.targets {
            let steps = self.context.archives.steps(&directory, &request.marker.kpack_search_paths, target);
            let own = target.to_string();
            for step in steps.iter().filter(|step| step.target == own && self.context.archives.holds(step, &key)) {
                if !self.account(step, &key) {
                    continue;
                }
                let versions = loaded(&builds, target);
                if versions.is_empty() {
                    let reason = format!("wrapper {position} had no code for {target}, but now has some");
                    self.say(Rule::AgainstCodeAdded, path, reason);
                } else {
                    found.extend(self.found(wanted, step, &versions));
                }
            }
        }
        // Held so that it is decompressed once for all targets. A thread that holds a bundle may not wait for memory
        // for another one, nor for a stream.
        let _held = match compressed.as_slice() {
            [bundle] if bundle.is_decompressed_in_memory() => Some(bundle.pin_whole()?),
            _ => None,
        };
        for found in &found {
            self.compare_object(path, position, found);
        }
        Ok(())
    }

    /// What archives have for each device that the fat binary has code for, in each of its modes. Both are asked as a
    /// runtime asks them.
    fn found_on_devices<'a>(
        &self,
        wanted: (&EntryPath, usize, &str),
        builds: &[FatCode<'a>],
        request: &WrapperRequest,
    ) -> Vec<ArchivedObject<'a>> {
        let (path, position, key) = wanted;
        let directory = path.parent().unwrap_or_else(EntryPath::root);
        let (mut found, mut known, mut lost) = (Vec::new(), HashSet::new(), BTreeMap::new());
        // Empty code objects run nowhere.
        let with_code = |code: &FatCode<'a>| code.iter().copied().filter(|object| object.content.size() > 0).collect();
        let builds: Vec<FatCode<'a>> = builds.iter().map(with_code).collect();
        let targets: BTreeSet<_> = builds.iter().flatten().map(|object| &object.target).collect();
        for target in targets {
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
                        found.extend(self.found(wanted, step, &versions));
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

    /// The code objects that a runtime finds. They are read before any bundle is held, since reading waits for memory. What
    /// cannot be read is a finding, and the others are compared.
    fn found<'a>(
        &self,
        (path, position, key): (&EntryPath, usize, &str),
        step: &LookupStep,
        expected: &[&'a CodeObject],
    ) -> Option<ArchivedObject<'a>> {
        self.account(step, key);
        let archive = self.context.archives.list.get(step.archive)?;
        let reader = &archive.reader;
        let (mut sha256, mut size) = (Sha256::default(), 0);
        let take = |piece: &[u8]| -> std::io::Result<()> {
            size += piece.len() as u64;
            sha256.update(piece);
            Ok(())
        };
        let entry = reader.find(key, &step.target).transpose();
        let read = entry.map_or(Ok(()), |entry| reader.read(&entry?, &self.context.resources.budget, take));
        if let Err(error) = read {
            let (target, archive) = (&step.target, &archive.label);
            let reason = format!("wrapper {position}: what is found for {target} in {archive} cannot be read: {error}");
            self.say(Rule::AgainstUnreadable, path, reason);
            return None;
        }
        let (target, expected, sha256) = (step.target.clone(), expected.to_vec(), sha256.finish());
        Some(ArchivedObject { archive: step.archive, target, expected, size, sha256 })
    }

    fn compare_object(&self, path: &EntryPath, position: usize, found: &ArchivedObject) {
        self.context.findings.counts.compared_code_objects.add(1);
        let mut unread = None;
        for CodeObject { content, target, .. } in found.expected.iter().filter(|it| it.content.size() == found.size) {
            match Sha256::of_content(&**content) {
                Ok(sha256) if sha256 == found.sha256 => return,
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
    /// The code objects that it may be equal to.
    expected: Vec<&'a CodeObject>,
    size: u64,
    sha256: [u8; 32],
}
