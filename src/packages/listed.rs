//! Whether the files of a device part are those that its manifest lists.

use std::sync::Arc;

use anyhow::anyhow;

use crate::kpack::ArchiveReader;
use crate::memory::{Parser, WholeFile};
use crate::rope::Content;
use crate::source::{EntryPath, Input};
use crate::split::{PartManifest, StatedPartFile};
use crate::view::{MANIFEST_INSIDE, REPORTS};

/// The manifest of a part. Parts that other tools made have none.
pub(super) fn manifest_of(part: &Input) -> anyhow::Result<Option<PartManifest>> {
    let path = in_reports(MANIFEST_INSIDE);
    let Some(content) = part.content(&path) else { return Ok(None) };
    let unusable = |reason: String| damaged(part, &path.to_text(), &reason);
    let bytes = WholeFile::of(Parser::Manifest, &**content).map_err(|error| unusable(error.to_string()))?;
    PartManifest::parse(&bytes).map(Some).map_err(|error| unusable(error.to_string()))
}

/// The path of a file about the split in a part.
pub(super) fn in_reports(name: &str) -> EntryPath {
    EntryPath::root().child(REPORTS.as_bytes()).child(name.as_bytes())
}

/// The error about a file of a part that is not as its split wrote it.
pub(super) fn damaged(part: &Input, path: &str, reason: &str) -> anyhow::Error {
    let file = part.location.join(path);
    anyhow!("{}: {reason}; copy the part again, or split its artifact again", file.display())
}

/// Fails if a file that the manifest of a part lists is missing, is of another size, or is an archive that cannot be opened. A
/// package of what is there would look complete.
pub(super) fn check_listed(part: &Input, manifest: &PartManifest) -> anyhow::Result<()> {
    for file in &manifest.files {
        let path = EntryPath::new(file.path.as_bytes()).ok();
        if let Some(reason) = problem_of(file, path.and_then(|path| part.content(&path))) {
            return Err(damaged(part, &file.path, &reason));
        }
    }
    Ok(())
}

fn problem_of(file: &StatedPartFile, content: Option<&Arc<dyn Content>>) -> Option<String> {
    let Some(content) = content else { return Some(format!("it is missing, and {MANIFEST_INSIDE} lists it")) };
    if content.size() != file.size {
        return Some(format!("it has {} bytes, and {MANIFEST_INSIDE} lists {}", content.size(), file.size));
    }
    file.entries.as_ref().and_then(|_| ArchiveReader::open(Arc::clone(content)).err()).map(|error| error.to_string())
}
