//! A file of a wheel.

use std::sync::Arc;

use super::digest::Digest;
use crate::rope::{Content, Rope, Segment};
use crate::source::EntryPath;
use crate::wheel::{PART_MANIFEST, WheelError};

/// A file of a wheel.
#[derive(Clone, Debug)]
pub struct WheelEntry {
    /// Its path in the wheel.
    pub path: EntryPath,
    /// Whether it is executable. Wheels keep nothing else of a mode.
    pub executable: bool,
    /// Its content with digests. Wheels that contain the same file share this.
    pub digest: Arc<Digest>,
    /// A raw deflate stream of the content. Without one, the content is stored.
    pub deflated: Option<Arc<dyn Content>>,
}

impl WheelEntry {
    /// A new file, without compression.
    pub fn stored(path: EntryPath, content: Arc<dyn Content>) -> Self {
        let digest = Arc::new(Digest::new(path.to_text(), content, None));
        Self { path, executable: false, digest, deflated: None }
    }

    /// A new file with this text, without compression.
    pub(super) fn of_text(path: EntryPath, text: Vec<u8>) -> Result<Self, WheelError> {
        Ok(Self::stored(path, Arc::new(Rope::new([Segment::literal(text)])?)))
    }

    /// Whether it is the manifest of a part.
    pub(super) fn is_manifest(&self) -> bool {
        self.is_in_dist_info(PART_MANIFEST.as_bytes())
    }

    /// Whether it is the file of this name in the dist-info directory.
    pub(super) fn is_in_dist_info(&self, name: &[u8]) -> bool {
        self.path.depth() == 2 && self.path.name() == name && self.path.is_in_dist_info()
    }

    /// The path as text. Names in wheels are UTF-8 ("Recording installed projects").
    pub(crate) fn name(&self) -> Result<&str, WheelError> {
        std::str::from_utf8(self.path.as_bytes()).map_err(|_| WheelError::NotUtf8(self.path.clone()))
    }
}
