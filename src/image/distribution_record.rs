//! RECORD of an installed distribution, with paths in the root file system.

use std::sync::Arc;

use super::ImageError;
use crate::memory::{Parser, WholeFile};
use crate::rope::{Content, ReadError, Rope, Segment, Sha256, read_all};
use crate::source::EntryPath;
use crate::wheel::{Claim, Claims, LineEdit, edited_record};

/// Whether a directory has the metadata of a distribution.
pub(super) fn is_dist_info(name: &[u8]) -> bool {
    name.ends_with(b".dist-info")
}

/// RECORD of a distribution.
#[derive(Debug)]
pub(super) struct DistributionRecord {
    bytes: WholeFile,
    /// The directory of packages.
    site: EntryPath,
}

impl DistributionRecord {
    /// Whether the file at a path is one.
    pub(super) fn is_at(path: &EntryPath) -> bool {
        path.name() == b"RECORD" && path.parent().is_some_and(|directory| is_dist_info(directory.name()))
    }

    /// The file at a path.
    pub(super) fn read(path: &EntryPath, content: &dyn Content) -> Result<Self, ReadError> {
        let site = path.parent().and_then(|directory| directory.parent()).unwrap_or_else(EntryPath::root);
        Ok(Self { bytes: WholeFile::of(Parser::Record, content)?, site })
    }

    /// The paths in it; `None` for one that leads out of the directory of packages.
    pub(super) fn paths(&self) -> Vec<Option<EntryPath>> {
        Claims::parse(&self.bytes).rows().map(|(row, _)| self.path(row)).collect()
    }

    fn path(&self, row: &[u8]) -> Option<EntryPath> {
        EntryPath::new(row).ok().map(|row| self.site.child(row.as_bytes()))
    }

    /// It with changed lines. `edit` is asked for each path.
    pub(super) fn edited(
        &self,
        mut edit: impl FnMut(&EntryPath) -> Result<LineEdit, ImageError>,
    ) -> Result<Arc<dyn Content>, ImageError> {
        let of_row = |row: &[u8]| self.path(row).map_or(Ok(LineEdit::Keep), |path| edit(&path));
        let edited = edited_record(&self.bytes, of_row)?;
        Ok(Arc::new(Rope::new([Segment::literal(edited)])?))
    }
}

/// What a line states about a file with this content.
pub(super) fn claim_of(content: &dyn Content) -> Result<Claim, ReadError> {
    let mut sha256 = Sha256::default();
    read_all(content, |piece| sha256.update(piece))?;
    Ok(Claim { sha256: sha256.finish(), size: content.size() })
}
