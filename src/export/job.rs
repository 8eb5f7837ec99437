//! The files to write.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{Timespec, Timestamps};

use super::error::{ExportError, reading};
use crate::metrics::Progress;
use crate::rope::Content;
use crate::source::Attributes;
use crate::split::FileSum;
use crate::tree::Body;

/// A file to write, and its path.
#[derive(Clone)]
pub(super) struct WriteJob {
    pub(super) path: PathBuf,
    pub(super) body: Body,
    pub(super) attributes: Attributes,
    /// Where its digest is wanted.
    pub(super) sum: Option<Arc<FileSum>>,
}

/// The paths of new files whose digests are wanted.
pub(crate) type WantedSums = HashMap<PathBuf, Arc<FileSum>>;

/// A file to write, and its content.
pub(super) struct Ready {
    pub(super) path: PathBuf,
    pub(super) content: Arc<dyn Content>,
    pub(super) attributes: Attributes,
    pub(super) sum: Option<Arc<FileSum>>,
}

impl WriteJob {
    /// Makes the content, and adds its size to the bytes to write.
    pub(super) fn ready(self, progress: &Progress) -> Result<Ready, ExportError> {
        let Self { path, body, attributes, sum } = self;
        let content = body.content().map_err(reading(&path))?;
        progress.expect(content.size());
        Ok(Ready { path, content, attributes, sum })
    }
}

/// The time of a file, for `utimensat`.
pub(super) fn times(attributes: &Attributes) -> Timestamps {
    let time = Timespec { tv_sec: attributes.mtime, tv_nsec: attributes.mtime_nanoseconds.into() };
    Timestamps { last_access: time, last_modification: time }
}
