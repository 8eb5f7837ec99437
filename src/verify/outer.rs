//! Archives of an environment outside of its directories of packages: if an environment was split as a whole, the code of its
//! packages is in its own `.kpack` directory.

use std::sync::Arc;

use rocm_kpack::{Marker, search};

use crate::gpu::TargetId;
use crate::kpack::ArchiveReader;
use crate::loader::resolve;
use crate::source::EntryPath;

/// The archives of an environment for one of its directories of packages.
#[derive(Debug)]
pub(super) struct OuterArchives {
    /// The path of the directory of packages in the environment.
    pub(super) site: EntryPath,
    /// The archives, by their paths in the environment.
    pub(super) archives: Arc<Vec<(EntryPath, ArchiveReader)>>,
}

impl OuterArchives {
    /// Whether the marker of a library in `directory` leads to one of them.
    pub(super) fn are_reached(&self, directory: &EntryPath, marker: &Marker) -> bool {
        self.archives.iter().any(|(path, archive)| {
            archive.toc().gfx_arches.iter().any(|target| self.leads(directory, marker, path, target))
        })
    }

    /// Whether one of them, to which the marker of a library in `directory` leads, has the code of this key.
    pub(super) fn hold(&self, directory: &EntryPath, marker: &Marker, key: &str) -> bool {
        self.archives.iter().any(|(path, archive)| {
            let mut targets = archive.entries_of(key).map(|(target, _)| target);
            targets.any(|target| archive.offers(target) && self.leads(directory, marker, path, target))
        })
    }

    /// Whether a marker leads to an archive on a device of this target.
    fn leads(&self, directory: &EntryPath, marker: &Marker, archive: &EntryPath, target: &str) -> bool {
        let directory = if directory.is_root() { self.site.clone() } else { self.site.child(directory.as_bytes()) };
        let Ok(target) = target.parse::<TargetId>() else { return false };
        let candidates: Vec<_> = target.candidates().iter().map(ToString::to_string).collect();
        let places = search::archive_paths(&marker.kpack_search_paths, &candidates);
        places.iter().any(|place| resolve(&directory, place).as_ref() == Some(archive))
    }
}
