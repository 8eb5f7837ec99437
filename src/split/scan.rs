//! Looks through all files for device code, on all cores, the largest first.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rayon::prelude::*;

use super::{Options, Place, Plan, Progress, RESERVED};
use crate::binary::{BinaryError, FatBinary};
use crate::fatbin::{FatbinError, read_bundle};
use crate::index::Resources;
use crate::kpack::{Compression, DEFAULT_LEVEL, Frame};
use crate::rope::Content;
use crate::source::{EntryKind, Input};
use crate::target::TargetId;

/// The smallest file that can be a binary: an ELF header.
const SMALLEST: u64 = 64;

/// A file with device code.
pub(super) struct Fat {
    /// Its position among the input's entries.
    pub(super) entry: usize,
    pub(super) binary: FatBinary,
    /// The code objects of each wrapper.
    pub(super) wrappers: Vec<Arc<Vec<Arc<Frame>>>>,
}

#[derive(Debug, thiserror::Error)]
enum ScanError {
    #[error(transparent)]
    Binary(#[from] BinaryError),
    #[error(transparent)]
    Fatbin(#[from] FatbinError),
    #[error("a bundle has two code objects for {0}")]
    Twice(TargetId),
    #[error("a bundle has a code object for {0}, which is no target's name")]
    Reserved(TargetId),
}

/// The files with device code, in the order of the input. What cannot be split gets a warning and stays as it is.
pub(super) fn scan(
    input: &Input,
    plan: &mut Plan,
    options: &Options,
    resources: &Arc<Resources>,
    progress: &Progress,
) -> Vec<Fat> {
    let mut candidates: Vec<_> = input
        .entries
        .iter()
        .zip(&plan.places)
        .enumerate()
        .filter_map(|(position, (entry, place))| match (&entry.kind, place) {
            (EntryKind::File { content, .. }, Place::Host) if content.size() >= SMALLEST => Some((position, content)),
            _ => None,
        })
        .collect();
    candidates.sort_by_key(|(_, content)| Reverse(content.size()));
    progress.total.fetch_add(candidates.iter().map(|(_, content)| content.size()).sum(), Ordering::Relaxed);
    let mut results: Vec<_> = candidates
        .into_par_iter()
        .with_max_len(1)
        .map(|(position, content)| {
            let result = scan_file(position, content, options, resources);
            progress.done.fetch_add(content.size(), Ordering::Relaxed);
            (position, result)
        })
        .collect();
    results.sort_by_key(|(position, _)| *position);
    let mut fat = Vec::new();
    for (position, result) in results {
        match result {
            Ok(found) => fat.extend(found),
            Err(error) => {
                let Some(entry) = input.entries.get(position) else { continue };
                plan.refuse(&entry.path, &error);
            }
        }
    }
    fat
}

fn scan_file(
    entry: usize,
    content: &Arc<dyn Content>,
    options: &Options,
    resources: &Arc<Resources>,
) -> Result<Option<Fat>, ScanError> {
    let Some(binary) = FatBinary::scan(content)? else { return Ok(None) };
    let level = match options.compression {
        Compression::Zstd(level) => level,
        Compression::None => DEFAULT_LEVEL,
    };
    let mut bundles = HashMap::new();
    let mut wrappers = Vec::new();
    for wrapper in binary.wrappers() {
        if let Some(frames) = bundles.get(&wrapper.bundle) {
            wrappers.push(Arc::clone(frames));
            continue;
        }
        let objects = read_bundle(content, wrapper.bundle, wrapper.limit, resources)?;
        for (position, object) in objects.iter().enumerate() {
            if objects.iter().take(position).any(|other| other.target == object.target) {
                return Err(ScanError::Twice(object.target.clone()));
            }
            if RESERVED.contains(&object.target.processor()) {
                return Err(ScanError::Reserved(object.target.clone()));
            }
        }
        let frames = objects.into_iter().map(|object| Arc::new(Frame::new(object, level, resources)));
        let frames: Arc<Vec<_>> = Arc::new(frames.collect());
        bundles.insert(wrapper.bundle, Arc::clone(&frames));
        wrappers.push(frames);
    }
    Ok(Some(Fat { entry, binary, wrappers }))
}
