//! How a loader finds archives: from the directory of a binary through the search paths of its marker.
//!
//! It knows paths and archives, but neither wrappers nor code objects.

mod archives;
mod search_path;

pub(crate) use archives::{begins_archive, is_archive, linked_archives, named_target};
pub(crate) use search_path::{Reach, SearchPath, resolve};
