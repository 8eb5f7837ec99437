//! How a loader finds archives, from the directory of a binary through the search paths of its marker, and libraries,
//! through search lists.
//!
//! It knows paths and archives, but neither wrappers nor code objects.

mod archives;
mod runtime;
mod search_list;
mod search_path;

pub(crate) use archives::{
    DOT_KPACK, archive_path, archive_root, begins_archive, is_archive, is_archive_link, linked_archives, named_target,
};
pub(crate) use runtime::{ARCHIVE_LIBRARY, NameSearch, OwnRuntime, RUNTIME, RuntimeNames, is_library};
pub(crate) use search_list::SearchDirectory;
pub(crate) use search_path::{Reach, SearchPath, resolve};
