//! The files of a layout: those of a directory, or members of a tar archive of one, which is not unpacked
//! (containers-transports(5), "oci-archive").

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tar::EntryType;

use super::ImageError;
use super::reference::LayoutForm;
use crate::memory::{Parser, ParserMemory};
use crate::resources::Resources;
use crate::rope::{Content, Rope, Segment, to_usize};
use crate::source::{EntryPath, TAR_BLOCK, TarCompression, open_file, packing_of, path_of, read_members};

/// The directory of its blobs.
pub(crate) const BLOBS: &str = "blobs/sha256";

/// Where the files of a layout are.
#[derive(Clone, Debug)]
pub(super) enum LayoutFiles {
    /// In a directory.
    Directory(PathBuf),
    /// In an archive.
    Archive(Arc<LayoutArchive>),
}

/// A tar archive of a layout.
#[derive(Debug)]
pub(super) struct LayoutArchive {
    path: PathBuf,
    archive: Arc<dyn Content>,
    members: HashMap<EntryPath, Range<u64>>,
    #[expect(dead_code, reason = "the members count as long as it is there")]
    table: ParserMemory,
}

impl LayoutFiles {
    pub(super) fn open(place: &Path, form: LayoutForm, resources: &Arc<Resources>) -> Result<Self, ImageError> {
        let path = place.canonicalize().map_err(|source| ImageError::Io { path: place.to_owned(), source })?;
        Ok(match form {
            LayoutForm::Directory => Self::Directory(path),
            LayoutForm::Archive => Self::Archive(Arc::new(LayoutArchive::open(path, resources)?)),
        })
    }

    /// The directory or the archive.
    pub(super) fn place(&self) -> &Path {
        match self {
            Self::Directory(path) => path,
            Self::Archive(archive) => &archive.path,
        }
    }

    /// A file of this name.
    pub(super) fn content(&self, name: &str, resources: &Arc<Resources>) -> Result<Arc<dyn Content>, ImageError> {
        match self {
            Self::Directory(path) => Ok(open_file(&path.join(name), resources)?),
            Self::Archive(archive) => archive.content(name),
        }
    }
}

impl LayoutArchive {
    fn open(path: PathBuf, resources: &Arc<Resources>) -> Result<Self, ImageError> {
        let archive = open_file(&path, resources)?;
        if packing_in(&path, &*archive)? != Some(TarCompression::Plain) {
            let reason = "it is no tar archive without compression; decompress it first".to_owned();
            return Err(ImageError::NotALayout { path, reason });
        }
        let (mut members, table) = (HashMap::new(), ParserMemory::new(Parser::Tar));
        read_members(&path, &archive, &mut |member| {
            if !matches!(member.kind, EntryType::Regular | EntryType::Continuous) {
                return Ok(());
            }
            member.check_content(&*archive)?;
            let name = path_of(&member.name).map_err(|error| error.to_string())?.unwrap_or_else(EntryPath::root);
            // Of others, there may be any number.
            if name.depth() == 1 || name.parent().is_some_and(|directory| directory.as_bytes() == BLOBS.as_bytes()) {
                table.add_entry(name.as_bytes()).map_err(|error| error.to_string())?;
                members.insert(name, member.content);
            }
            Ok(())
        })?;
        Ok(Self { path, archive, members, table })
    }

    fn content(&self, name: &str) -> Result<Arc<dyn Content>, ImageError> {
        let Some(Range { start, end }) = self.members.get(&EntryPath::root().child(name.as_bytes())).cloned() else {
            let (path, reason) = (self.path.join(name), "the archive has no such file".to_owned());
            return Err(ImageError::Blob { path, reason });
        };
        let segment = Segment::range(Arc::clone(&self.archive), start, end.saturating_sub(start));
        Ok(Arc::new(segment.and_then(|segment| Rope::new([segment]))?))
    }
}

/// How a tar archive is compressed; `None` if it is none.
pub(super) fn packing_in(path: &Path, archive: &dyn Content) -> Result<Option<TarCompression>, ImageError> {
    Ok(packing_of(path, &archive.beginning(to_usize(TAR_BLOCK))?))
}
