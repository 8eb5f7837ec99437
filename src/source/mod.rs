//! The input: its entries, and readers for their bytes.
//!
//! An input is an install tree, an unpacked wheel, a `.whl` file, a tar archive or a single binary. It is never
//! written. It is read with pread rather than mapped: accessing a mapped file that has shrunk kills the process.
//!
//! It does not know what entries mean, apart from the magics of the bundle headers that it captures while it inflates.

mod binary;
mod block_index;
mod bundle_headers;
mod calendar;
mod central;
mod checkpoint;
mod chunks;
mod closable;
mod damage;
mod decoder;
mod decoders;
mod deflated;
mod entry;
mod error;
mod facts;
mod found;
mod host_wheel;
mod inflate;
mod input;
mod installed;
mod links;
mod listing;
mod member;
mod open_members;
mod path;
#[cfg(all(test, feature = "shuttle"))]
mod schedules;
mod stamp;
mod stored;
mod stream;
mod stream_index;
mod tar;
#[cfg(test)]
pub(crate) mod testing;
mod tree;
mod unknown;
mod wheel;
mod wheel_bytes;
mod whole_wheel;

use std::path::Path;
use std::sync::Arc;

use crate::remote::is_url;
use crate::resources::Resources;
use crate::rope::{Content, to_usize};

pub use binary::begins_binary;
pub(crate) use binary::{HostFormat, MIN_BINARY, begins_as_binary, is_head_of_binary, may_be_binary};
pub(crate) use calendar::date;
pub(crate) use central::ends_as_zip;
pub use entry::{Attributes, Entry, EntryKind};
pub use error::SourceError;
pub use host_wheel::{DeviceWheel, HostWheel, OnePath};
pub use input::ListedState;
pub(crate) use input::is_named_library;
pub use input::{Input, InputKind, Witnesses};
pub(crate) use installed::Origins;
pub(crate) use links::{PathStep, Resolved, below, file_of_other_gpu, in_root, resolve as resolve_links, root_of};
pub use listing::{DirectoryListing, ListedEntry, ListedKind};
pub use path::{EntryPath, PathError};
pub use stamp::is_cached;
pub(crate) use tar::{
    BLOCK as TAR_BLOCK, ExtendedRecords, TarCompression, TarMember, TarNames, file_in, has_member, is_no_tar,
    kind_name, open_archive, packing_of, path_of, read_extended, read_members,
};
pub use tree::open_file;
pub(crate) use tree::open_one_of;
pub(crate) use unknown::{STATIC_LIBRARY, is_packed_archive, unknown};

impl Input {
    /// Lists the directory, wheel, tar archive or binary at `location`, or of a command that takes URLs the wheel there.
    pub fn open(location: &Path, resources: &Arc<Resources>) -> Result<Self, SourceError> {
        Self::list(location, None, None, resources)
    }

    /// The same without what pip left of upgrades that were interrupted. No output may be made of it.
    pub(crate) fn open_installed(location: &Path, resources: &Arc<Resources>) -> Result<Self, SourceError> {
        Self::list(location, None, Some(&|_| false), resources)
    }

    /// Lists a directory like [`Input::open_installed`], without the directories for which `is_left_out` holds, by their real paths.
    pub(crate) fn open_without(
        location: &Path,
        is_left_out: &dyn Fn(&Path) -> bool,
        resources: &Arc<Resources>,
    ) -> Result<Self, SourceError> {
        let location = location.canonicalize().map_err(SourceError::at(location))?;
        tree::list(location, None, Some(is_left_out), resources)
    }

    /// Like [`Input::open_installed`], but omits what this user may not list, and returns it as well. Such an input is incomplete: no
    /// output may be made of it.
    pub fn survey(location: &Path, resources: &Arc<Resources>) -> Result<(Self, Vec<SourceError>), SourceError> {
        let mut denied = Vec::new();
        let input = Self::list(location, Some(&mut denied), Some(&|_| false), resources)?;
        Ok((input, denied))
    }

    /// A tar archive or zip file of another input, with paths below its own. `None` if it cannot be listed.
    pub(crate) fn in_archive(
        archive: &EntryPath,
        content: &Arc<dyn Content>,
        resources: &Arc<Resources>,
    ) -> Option<Self> {
        let head = content.beginning(to_usize(TAR_BLOCK)).ok()?;
        let (name, owner) = (archive.as_path().to_owned(), Attributes::of_process());
        let input = match tar::packing_of(&name, &head) {
            Some(packing) => tar::list_file(name, content, owner, packing, resources),
            None => wheel::list_file(name, content, content.identity()?, owner, resources),
        };
        let mut input = input.ok()?;
        for entry in &mut input.entries {
            entry.path = EntryPath::new(&[archive.as_bytes(), entry.path.as_bytes()].join(&b'/')).ok()?;
        }
        Some(input)
    }

    /// The zip file behind a program.
    pub(crate) fn zip_behind(content: &Arc<dyn Content>, resources: &Arc<Resources>) -> Option<Self> {
        central::end_before(&**content, content.size())?;
        Self::in_archive(&EntryPath::new(b"program").ok()?, content, resources)
    }

    fn list(
        location: &Path,
        denied: Option<&mut Vec<SourceError>>,
        left_out: tree::IsLeftOut<'_>,
        resources: &Arc<Resources>,
    ) -> Result<Self, SourceError> {
        let path = location;
        if is_url(path) {
            return wheel::list_remote(path, resources);
        }
        let location = path.canonicalize().map_err(SourceError::at(path))?;
        let metadata = location.metadata().map_err(SourceError::at(path))?;
        if metadata.is_dir() {
            tree::list(location, denied, left_out, resources)
        } else if metadata.is_file() && binary::is_binary(&location).map_err(SourceError::at(path))? {
            binary::list(location, resources)
        } else if metadata.is_file() {
            match tar::packing(&location).map_err(SourceError::at(path))? {
                Some(packing) => tar::list(location, packing, resources),
                None => wheel::list(location, resources),
            }
        } else {
            Err(SourceError::UnknownKind { path: location, what: "neither a file nor a directory" })
        }
    }
}

/// Whether a file is a compressed tar archive that has to be unpacked as a whole before it can be read.
pub fn is_stream(path: &Path) -> bool {
    let is_file = path.is_file();
    is_file && matches!(tar::packing(path), Ok(Some(tar::TarCompression::Zstd | tar::TarCompression::Xz)))
}
