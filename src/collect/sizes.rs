//! The bytes of the device code of each collected library and database, by GPU.

use std::collections::BTreeMap;

use serde::Serialize;

use super::known::stem;
use crate::gpu::{BundleKey, TargetId};
use crate::source::{EntryKind, EntryPath, Input};
use crate::split::{Destination, Plan};

/// A library with device code, or a database.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CollectedCode {
    /// The library, or the directory of the database.
    pub path: String,
    /// Bytes that all GPUs share: the library without device code, the files of the database for all GPUs.
    pub shared: u64,
    /// Bytes for each GPU before compression. Code that several GPUs run counts for each.
    pub gpus: BTreeMap<String, u64>,
}

/// The code of all libraries and databases for these GPUs.
pub fn code_of(input: &Input, plan: &Plan, gpus: &[TargetId]) -> Vec<CollectedCode> {
    let mut found: Vec<_> = plan
        .binaries
        .iter()
        .map(|binary| {
            let bytes = |gpu: &TargetId| {
                let of_bundle = binary.bundles().map(|code| {
                    let present: Vec<_> = code.iter().map(|(target, _)| target).collect();
                    let found = gpu.served_by(&present).found;
                    found.iter().filter_map(|&at| code.get(at)).map(|(_, size)| *size).sum::<u64>()
                });
                (gpu.to_string(), of_bundle.sum())
            };
            let (path, shared) = (binary.path.to_string(), binary.host_size);
            CollectedCode { path, shared, gpus: gpus.iter().map(bytes).collect() }
        })
        .collect();
    let mut databases = BTreeMap::<EntryPath, CollectedCode>::new();
    for (entry, place) in input.entries.iter().zip(&plan.places) {
        let (Destination::Device(key, handler), EntryKind::File { content, .. }) = (place, &entry.kind) else {
            continue;
        };
        // A library of kernels is a database by itself.
        let is_library = stem(entry.path.name()).is_some();
        let directory = if is_library { entry.path.clone() } else { handler.directory(&entry.path) };
        let database = databases.entry(directory.clone()).or_insert_with(|| {
            let none = gpus.iter().map(|gpu| (gpu.to_string(), 0)).collect();
            CollectedCode { path: directory.to_string(), shared: 0, gpus: none }
        });
        for gpu in gpus.iter().filter(|gpu| BundleKey::of(gpu).packaging_chain().contains(key)) {
            *database.gpus.entry(gpu.to_string()).or_default() += content.size();
        }
    }
    for (entry, place) in input.entries.iter().zip(&plan.places) {
        let (Destination::Host, EntryKind::File { content, .. }) = (place, &entry.kind) else { continue };
        let above = std::iter::successors(entry.path.parent(), EntryPath::parent);
        let mut directories = above.take_while(|directory| !directory.is_root());
        if let Some(directory) = directories.find(|directory| databases.contains_key(directory))
            && let Some(database) = databases.get_mut(&directory)
        {
            database.shared += content.size();
        }
    }
    found.extend(databases.into_values());
    found
}
