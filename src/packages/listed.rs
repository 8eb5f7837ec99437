//! Whether the files of a device part are those that its manifest lists.

use std::sync::Arc;

use anyhow::anyhow;

use crate::kpack::ArchiveReader;
use crate::memory::{Parser, WholeFile};
use crate::rope::Content;
use crate::source::{EntryPath, Input};
use crate::split::{PartManifest, StatedPartFile};
use crate::view::{MANIFEST_INSIDE, REPORTS};

/// Fails if a file that the manifest of a part lists is missing, is of another size, or is an archive that cannot be opened. A
/// package of what is there would look complete. Parts that other tools made have no manifest.
pub(super) fn check_listed(part: &Input) -> anyhow::Result<()> {
    let path = EntryPath::root().child(REPORTS.as_bytes()).child(MANIFEST_INSIDE.as_bytes());
    let Some(content) = part.content(&path) else { return Ok(()) };
    let damaged = |path: &str, reason: String| {
        let file = part.location.join(path);
        anyhow!("{}: {reason}; copy the part again, or split its artifact again", file.display())
    };
    let unusable = |reason: String| damaged(&path.to_text(), reason);
    let bytes = WholeFile::of(Parser::Manifest, &**content).map_err(|error| unusable(error.to_string()))?;
    let manifest = PartManifest::parse(&bytes).map_err(|error| unusable(error.to_string()))?;
    for file in &manifest.files {
        let path = EntryPath::new(file.path.as_bytes()).ok();
        if let Some(reason) = problem_of(file, path.and_then(|path| part.content(&path))) {
            return Err(damaged(&file.path, reason));
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
