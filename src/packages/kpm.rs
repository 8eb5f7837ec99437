//! A `.kpm` manifest as a file. Its size is known when the archives that it lists are made.

use std::sync::Arc;

use crate::artifact::{Kpm, KpmEntry};
use crate::kpack::{ArchiveReader, ArchiveRope};
use crate::rope::{Content, Materialize, ReadError, Rope, Segment};
use crate::source::EntryPath;
use crate::tree::Body;

/// The content of a manifest: earlier entries, and some archives.
#[derive(Debug)]
pub(crate) struct Listing {
    pub(crate) kpm: Kpm,
    pub(crate) archives: Vec<Listed>,
}

/// An archive that a manifest names.
#[derive(Debug)]
pub(crate) struct Listed {
    file: String,
    targets: Vec<String>,
    kernel_count: u64,
    body: Body,
}

/// The manifest entry for the archive at `path`. An archive of the input is opened.
pub(crate) fn listed(path: &EntryPath, body: &Body, archive: Option<&Arc<ArchiveRope>>) -> anyhow::Result<Listed> {
    let (targets, kernel_count) = if let Some(archive) = archive {
        (vec![archive.target().to_string()], archive.entries().len())
    } else {
        let reader = ArchiveReader::open(body.content()?)?;
        (reader.toc().gfx_arches.clone(), reader.entries().count())
    };
    let file = String::from_utf8_lossy(path.name()).into_owned();
    Ok(Listed { file, targets, kernel_count: kernel_count as u64, body: body.clone() })
}

impl Materialize for Listing {
    fn made(&self) -> Option<Arc<dyn Content>> {
        let is_known = self.archives.iter().all(|archive| archive.body.known_size().is_some());
        is_known.then(|| self.make().ok())?
    }

    fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
        let mut kpm = self.kpm.clone();
        for archive in &self.archives {
            let (file, size) = (archive.file.clone(), archive.body.content()?.size());
            let entry = KpmEntry { file, size, kernel_count: archive.kernel_count };
            kpm.kpack_files.extend(archive.targets.iter().map(|target| (target.clone(), entry.clone())));
        }
        Ok(Arc::new(Rope::new([Segment::literal(kpm.to_bytes())])?))
    }
}
