//! What is device code in an artifact, and what shows that the artifact is a part of a split.

use std::path::Path;

use anyhow::anyhow;

use super::listed::in_reports;
use crate::artifact::{ArtifactName, GENERIC, Manifest};
use crate::database::{Databases, named_arch};
use crate::source::{EntryKind, EntryPath, Input};
use crate::split::STATEMENT;

/// Whether a split has left its statement in an artifact.
pub(super) fn has_statement(artifact: &Input) -> bool {
    artifact.entry(&in_reports(STATEMENT)).is_some()
}

/// Whether an artifact has archives, and nothing but device code, as the parts of other tools, which have no statement. A build
/// makes no such artifact.
pub(super) fn has_device_code_only(artifact: &Input, manifest: &Manifest) -> bool {
    let is_directory = |kind: &EntryKind| matches!(kind, EntryKind::Directory);
    let files = || artifact.entries.iter().filter(|entry| !is_directory(&entry.kind)).map(|entry| &entry.path);
    let is_archive = |path: &EntryPath| is_in_archive_directory(manifest, path) && path.name().ends_with(b".kpack");
    files().any(is_archive) && files().all(|path| is_device_code(manifest, path))
}

/// The error about a device part that was taken for a fat artifact, since the generic part of its component is not next to it.
pub(super) fn without_host_code(part: &Path, component: &str) -> anyhow::Error {
    let (place, generic) = (part.display(), ArtifactName::new(component, GENERIC));
    anyhow!("{place}: it is a device part, without host code; put {generic} next to it, and name the directory of both")
}

/// Whether a file of a device part is an archive or belongs to a database. Files in a directory of a processor, and
/// files named after one, belong to that processor. All others are host code.
pub(super) fn is_device_code(manifest: &Manifest, path: &EntryPath) -> bool {
    let installed = manifest.installed(path);
    is_in_archive_directory(manifest, path)
        || Databases::all().classify(&installed).is_some()
        || named_arch(&installed).is_some()
}

pub(super) fn is_in_archive_directory(manifest: &Manifest, path: &EntryPath) -> bool {
    manifest.installed(path).components().next() == Some(b".kpack")
}
