//! How a loader finds archives, from the directory of a binary through the search paths of its marker, and libraries,
//! through search lists.
//!
//! It knows paths and archives, but neither wrappers nor code objects.

mod runtime;
mod search_list;
mod search_path;

pub(crate) use runtime::{ARCHIVE_LIBRARY, NameSearch, OwnRuntime, RUNTIME, RuntimeNames, is_library};
pub(crate) use search_list::SearchDirectory;
pub(crate) use search_path::{
    DOT_KPACK, Reach, SearchPath, archive_path, archive_root, begins_archive, is_archive, is_archive_link,
    linked_archives, named_target, resolve,
};
