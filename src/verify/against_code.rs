//! The comparison of code objects: what a runtime finds for each wrapper and target is what the fat binary had.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use rayon::prelude::*;

use super::against::Comparison;
use super::binary::Request;
use super::lookup::Step;
use crate::binary::{BinaryError, FatBinary};
use crate::fatbin::{CodeObject, FatbinError, read_bundle};
use crate::kpack::{KpackError, toc_key};
use crate::rope::{Content, ReadError};
use crate::source::{Entry, EntryPath};
use crate::target::{BundleKey, TargetId};

/// Bytes compared at a time.
const STEP: usize = 1 << 20;

/// The code objects of a wrapper by target.
type Objects = BTreeMap<TargetId, CodeObject>;

#[derive(Debug, thiserror::Error)]
enum CodeError {
    #[error(transparent)]
    Binary(#[from] BinaryError),
    #[error(transparent)]
    Fatbin(#[from] FatbinError),
    #[error(transparent)]
    Archive(#[from] KpackError),
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl Comparison<'_> {
    /// Compares a file that has device code with what it became. `false` if it has none or could not be split, so that
    /// it should have stayed as it was.
    pub(super) fn compare_code(&self, entry: &Entry, content: &Arc<dyn Content>, split: &Arc<dyn Content>) -> bool {
        let Ok(Some(binary)) = FatBinary::scan(content) else { return false };
        let bundles: Result<Vec<_>, _> = binary
            .wrappers()
            .iter()
            .map(|wrapper| read_bundle(content, wrapper.bundle, wrapper.limit, self.resources))
            .collect();
        let Ok(bundles) = bundles else { return false };
        let Some(requests) = self.binaries.get(&entry.path) else {
            // Still fat, and reported as such: nothing is lost if it is the same file.
            return false;
        };
        match binary.first_difference(split) {
            Ok(None) => {}
            Ok(Some(difference)) => self.say(&entry.path, difference),
            Err(error) => self.say(&entry.path, error),
        }
        if requests.len() != bundles.len() {
            self.say(&entry.path, format!("it had {} wrappers and has {}", bundles.len(), requests.len()));
            return true;
        }
        let wrappers: Vec<_> = bundles.into_iter().zip(requests).enumerate().collect();
        wrappers.into_par_iter().with_max_len(1).for_each(|(position, (bundle, request))| {
            // Without a marker nothing can be looked up, and that has been reported.
            let Some(request) = request else { return };
            if let Err(error) = self.compare_wrapper(&entry.path, position, bundle, request) {
                self.say(&entry.path, format!("wrapper {position}: {error}"));
            }
        });
        true
    }

    fn compare_wrapper(
        &self,
        path: &EntryPath,
        position: usize,
        bundle: Vec<CodeObject>,
        request: &Request,
    ) -> Result<(), CodeError> {
        let directory = path.parent().unwrap_or_else(EntryPath::root);
        let key = toc_key(&request.marker.kernel_name, usize::try_from(request.index).unwrap_or(usize::MAX));
        let mut objects = Objects::new();
        for object in bundle {
            objects.entry(object.target.clone()).or_insert(object);
        }
        // Held so that it is decompressed once for all targets.
        let compressed = objects.values().find_map(|object| object.bundle.as_ref());
        let _held = compressed.map(|bundle| bundle.hold()).transpose()?;
        let search_paths = &request.marker.search_paths;
        // Everything that had code has to be found; empty code objects run nowhere.
        let has_code =
            |object: &&CodeObject| object.content.size() > 0 && self.is_expected(&BundleKey::of(&object.target));
        for object in objects.values().filter(has_code) {
            let target = &object.target;
            let steps = self.shelf.steps(&directory, search_paths, target);
            match steps.iter().find(|step| self.shelf.holds(step, &key)) {
                Some(step) => self.compare_object(path, position, &key, step, target, object)?,
                None => self.say(path, format!("wrapper {position}: its code for {target} is not found")),
            }
        }
        // Whatever else is found under its name has to be code that a device of that target would have run.
        for target in &self.shelf.targets {
            let steps = self.shelf.steps(&directory, search_paths, target);
            let own = target.to_string();
            for step in steps.iter().filter(|step| step.target == own && self.shelf.holds(step, &key)) {
                if !self.account(step, &key) {
                    continue;
                }
                let expected = target.candidates().into_iter().find_map(|candidate| objects.get(&candidate));
                match expected {
                    Some(object) => self.compare_object(path, position, &key, step, target, object)?,
                    None => self.say(path, format!("wrapper {position} had no code for {target}, but now has some")),
                }
            }
        }
        Ok(())
    }

    /// Notes that a code object belongs to a wrapper. `false` if that was known.
    fn account(&self, step: &Step, key: &str) -> bool {
        let mut accounted = self.accounted.lock().unwrap_or_else(PoisonError::into_inner);
        accounted.insert((step.archive, key.to_owned(), step.target.clone()))
    }

    fn compare_object(
        &self,
        path: &EntryPath,
        position: usize,
        key: &str,
        step: &Step,
        target: &TargetId,
        expected: &CodeObject,
    ) -> Result<(), CodeError> {
        self.account(step, key);
        let Some(archive) = self.shelf.archives.get(step.archive) else { return Ok(()) };
        let found = archive.reader.get(key, &step.target)?.unwrap_or_default();
        self.findings.counts.compared_code_objects.add(1);
        if !equals(&found, &*expected.content)? {
            let archive = &archive.label;
            self.say(path, format!("wrapper {position}: what is found for {target} in {archive} is other code"));
        }
        Ok(())
    }
}

/// Whether a content has these bytes.
fn equals(bytes: &[u8], content: &dyn Content) -> Result<bool, ReadError> {
    if bytes.len() as u64 != content.size() {
        return Ok(false);
    }
    let mut buffer = vec![0; STEP.min(bytes.len())];
    let mut at = 0;
    for piece in bytes.chunks(STEP) {
        let (buffer, _) = buffer.split_at_mut(piece.len());
        content.read_at(at, buffer)?;
        if buffer != piece {
            return Ok(false);
        }
        at += piece.len() as u64;
    }
    Ok(true)
}
