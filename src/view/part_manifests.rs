//! The manifests of the parts of a tree or an artifact. Those of a wheel's parts are in their dist-info
//! (`wheelparts/part_manifest.rs`).

use std::sync::Arc;

use crate::gpu::BundleKey;
use crate::kpack::ArchiveRope;
use crate::rope::{Content, Materialize, ReadError};
use crate::source::{Entry, EntryKind, EntryPath, Input};
use crate::split::{
    Destination, FileDigest, FileSum, HOST, ManifestFile, ManifestFileKind, ManifestFiles, ManifestText, Plan, SplitId,
};

/// The directory of manifests next to the statement of a split. That of a part has the part's name.
pub const MANIFESTS: &str = "manifests";

/// The manifest of an artifact's part, next to the statement in it.
pub const MANIFEST_INSIDE: &str = "manifest.json";

/// The manifest of a part.
#[derive(Clone, Debug)]
pub struct TreeManifest {
    text: Arc<ManifestText<Arc<TreeFiles>>>,
    files: Arc<TreeFiles>,
}

impl TreeManifest {
    /// The file. Digests that are not known are computed when it is read.
    pub fn text(&self) -> Arc<dyn Content> {
        Arc::clone(&self.text) as Arc<dyn Content>
    }

    /// The listed files, and where the digest of each can be put when the file is written.
    pub fn sums(&self) -> impl Iterator<Item = (&EntryPath, &Arc<FileSum>)> {
        self.files.0.iter().map(|file| (&file.path, &file.sum))
    }
}

/// What is listed of a part.
#[derive(Debug)]
struct TreeFiles(Vec<TreePartFile>);

#[derive(Debug)]
struct TreePartFile {
    path: EntryPath,
    source: FileSource,
    sum: Arc<FileSum>,
}

#[derive(Debug)]
enum FileSource {
    Plain(Arc<dyn Content>),
    /// A split binary with its number of wrappers.
    Binary(Arc<dyn Content>, usize),
    Archive(Arc<ArchiveRope>),
}

impl TreePartFile {
    fn new(path: &EntryPath, source: FileSource, digest: FileDigest) -> Self {
        Self { path: path.clone(), source, sum: Arc::new(FileSum::new(digest)) }
    }

    fn sum(&self) -> Result<Vec<u8>, ReadError> {
        match &self.source {
            FileSource::Plain(content) | FileSource::Binary(content, _) => self.sum.of(&**content),
            FileSource::Archive(archive) => self.sum.of(&*archive.make()?),
        }
    }
}

impl ManifestFiles for TreeFiles {
    fn each(&self, take: &mut dyn FnMut(&ManifestFile<'_>)) {
        for file in &self.0 {
            let kind = match &file.source {
                FileSource::Plain(content) => ManifestFileKind::Plain(content.size()),
                FileSource::Binary(content, wrappers) => ManifestFileKind::Binary(content.size(), *wrappers),
                FileSource::Archive(archive) => ManifestFileKind::Archive(archive),
            };
            let digest = Box::new(|| file.sum());
            take(&ManifestFile { path: file.path.clone(), kind, digest });
        }
    }
}

/// The split binaries of a host part.
fn host_files(input: &Input, plan: &Plan, digest: FileDigest) -> Vec<TreePartFile> {
    let file = |(entry, place): (&Entry, &Destination)| match (place, &entry.kind) {
        (Destination::Rewritten { content, wrappers, .. }, EntryKind::File { .. }) => {
            Some(TreePartFile::new(&entry.path, FileSource::Binary(content.clone(), *wrappers), digest))
        }
        _ => None,
    };
    input.entries.iter().zip(&plan.places).filter_map(file).collect()
}

/// The databases and archives of a device part, and what its device wheel holds.
fn device_files(input: &Input, plan: &Plan, key: &BundleKey, digest: FileDigest) -> Vec<TreePartFile> {
    let database = |(entry, place): (&Entry, &Destination)| match (place, &entry.kind) {
        (Destination::Device(of, _), EntryKind::File { content, .. }) if of == key => {
            Some(TreePartFile::new(&entry.path, FileSource::Plain(Arc::clone(content)), digest))
        }
        _ => None,
    };
    let archives = plan.archives.iter().filter(|planned| planned.key == *key);
    let archives = archives.map(|it| TreePartFile::new(&it.path, FileSource::Archive(Arc::clone(&it.archive)), digest));
    let held = plan.held.get(key).into_iter().flatten().filter_map(|entry| {
        Some(TreePartFile::new(&entry.path, FileSource::Plain(Arc::clone(entry.content()?)), digest))
    });
    input.entries.iter().zip(&plan.places).filter_map(database).chain(archives).chain(held).collect()
}

/// The manifests of all parts: the host part, which is called `host`, and the device parts, each by its name. Nothing is
/// read before they are.
pub fn part_manifests(
    input: &Input,
    plan: &Plan,
    split_id: &SplitId,
    digest: FileDigest,
    name: impl Fn(&str) -> String,
) -> Vec<(String, TreeManifest)> {
    let text = |part: &str, parts: Vec<String>, files| {
        let files = Arc::new(TreeFiles(files));
        let text = ManifestText::new(split_id.clone(), name(part), parts, digest, Arc::clone(&files));
        (name(part), TreeManifest { text: Arc::new(text), files })
    };
    let parts = std::iter::once(HOST).chain(plan.keys.iter().map(BundleKey::as_str)).map(&name).collect();
    let host = text(HOST, parts, host_files(input, plan, digest));
    let devices = plan.keys.iter().map(|key| text(key.as_str(), Vec::new(), device_files(input, plan, key, digest)));
    std::iter::once(host).chain(devices).collect()
}
