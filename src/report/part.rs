//! A part of a split, with its size, its largest files, and the GPUs that it is for.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use serde::Serialize;

use crate::gpu::{BundleKey, GpuSet, UNKNOWN};
use crate::rope::SizeBounds;
use crate::source::EntryPath;
use crate::split::{DEVICE, FAT, FAT_WHEEL, HOST, MERGED, THIN, THIN_WHEELS, WHEELS};
use crate::tree::{Body, NodeId, Tree};
use crate::wheelparts::SplitWheel;

/// The most files that are named.
const NAMED: usize = 3;

/// What is written as one file or one directory.
#[derive(Clone, Debug)]
pub(crate) struct SizedPart {
    /// How a user calls it.
    pub(crate) name: String,
    pub(crate) gpus: PartGpus,
    /// Bytes of the file, or of all files of the directory.
    pub(crate) size: SizeBounds,
    /// The largest files in it, largest first.
    pub(crate) largest: Vec<LargestFile>,
}

/// One of the largest files of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LargestFile {
    /// Its path in the part.
    pub(crate) path: String,
    /// What it takes of the part at most, in bytes.
    pub(crate) size: u64,
}

/// The GPUs that a part is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PartGpus {
    /// All of them, so that no choice of GPUs makes it smaller.
    All,
    /// Those of a device part.
    Key(BundleKey),
    /// These.
    Of(GpuSet),
}

impl PartGpus {
    /// Those of a wheel.
    pub(crate) fn of_wheel(part: &SplitWheel) -> Self {
        match part {
            SplitWheel::Host | SplitWheel::Variant(_) | SplitWheel::Fat => Self::All,
            SplitWheel::Device(key) => Self::Key(key.clone()),
            SplitWheel::Thin { gpus, .. } => Self::Of(gpus.clone()),
        }
    }

    /// Those of a view, by its place.
    pub(crate) fn of_view(view: &EntryPath) -> Self {
        let mut names = view.components().map(String::from_utf8_lossy);
        let (first, second) = (names.next().unwrap_or_default(), names.next().unwrap_or_default());
        match &*first {
            HOST | WHEELS | FAT | FAT_WHEEL => Self::All,
            MERGED | THIN | THIN_WHEELS => second.parse().map_or(Self::All, Self::Of),
            DEVICE => second.parse().map_or(Self::All, Self::Key),
            key => key.parse().map_or(Self::All, Self::Key),
        }
    }

    /// Whether a user of a GPU needs the part.
    pub(super) fn is_needed_by(&self, gpu: &BundleKey) -> bool {
        match self {
            Self::All => true,
            Self::Key(key) => gpu.packaging_chain().contains(key),
            Self::Of(gpus) => gpus.keys().contains(gpu),
        }
    }

    /// Those that may be chosen: GPUs, and families without any.
    pub(super) fn choices(parts: &[SizedPart]) -> BTreeSet<BundleKey> {
        let keys: BTreeSet<_> = parts.iter().flat_map(|part| part.gpus.keys()).collect();
        let is_family = |key: &BundleKey| keys.iter().any(|of| of != key && of.packaging_chain().contains(key));
        keys.iter().filter(|key| key.as_str() != UNKNOWN && !is_family(key)).cloned().collect()
    }

    fn keys(&self) -> Vec<BundleKey> {
        match self {
            Self::All => Vec::new(),
            Self::Key(key) => vec![key.clone()],
            Self::Of(gpus) => gpus.targets().iter().map(BundleKey::of).collect(),
        }
    }
}

impl SizedPart {
    /// A file.
    pub(crate) fn of_file(name: String, gpus: PartGpus, body: &Body) -> Self {
        let largest = largest(body.files().into_iter().map(|(path, size)| (path, size.most)));
        Self { name, gpus, size: body.bounds(), largest }
    }

    /// A node of a tree: a file, or a directory with all files below it.
    pub(crate) fn of_node(name: String, gpus: PartGpus, tree: &Tree, node: NodeId) -> Self {
        if let Some(body) = tree.body(node) {
            return Self::of_file(name, gpus, &body);
        }
        let files = tree.files_below(node).into_iter();
        let files: Vec<_> = files.map(|(path, body)| (path.to_string(), body.bounds())).collect();
        let size = files.iter().map(|(_, size)| *size).sum();
        Self { name, gpus, size, largest: largest(files.into_iter().map(|(path, size)| (path, size.most))) }
    }

    /// A file that was written, with the sizes of the files in it.
    pub(crate) fn written(name: String, gpus: PartGpus, size: u64, files: Vec<(String, u64)>) -> Self {
        Self { name, gpus, size: SizeBounds::exact(size), largest: largest(files.into_iter()) }
    }
}

/// The largest of these files. A size that is not known at all says nothing.
fn largest(files: impl Iterator<Item = (String, u64)>) -> Vec<LargestFile> {
    let mut files: Vec<_> = files.filter(|(_, size)| *size != u64::MAX).collect();
    files.sort_by(|one, other| (Reverse(one.1), &one.0).cmp(&(Reverse(other.1), &other.0)));
    files.into_iter().take(NAMED).map(|(path, size)| LargestFile { path, size }).collect()
}
