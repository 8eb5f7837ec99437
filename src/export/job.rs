//! The files to write.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{Timespec, Timestamps};

use super::dates::NOW;
use super::error::{ExportError, reading};
use crate::metrics::Progress;
use crate::rope::Content;
use crate::source::Attributes;
use crate::split::FileSum;
use crate::tree::Body;

/// A file to write: what it will have, and its path.
#[derive(Clone)]
pub(super) struct WriteJob<T = Body> {
    pub(super) path: PathBuf,
    pub(super) content: T,
    pub(super) attributes: Attributes,
    /// Whether it is no file of the input, so that it has the time when it is written.
    pub(super) is_made: bool,
    /// Where its digest is wanted.
    pub(super) sum: Option<Arc<FileSum>>,
}

/// The paths of new files whose digests are wanted.
pub(crate) type WantedSums = HashMap<PathBuf, Arc<FileSum>>;

/// A file to write, of which all is known.
pub(super) type Ready = WriteJob<Arc<dyn Content>>;

impl WriteJob {
    /// Makes the content, and adds its size to the bytes to write.
    pub(super) fn ready(self, progress: &Progress) -> Result<Ready, ExportError> {
        let Self { path, content: body, attributes, is_made, sum } = self;
        let _named = progress.at(|| path.file_name().unwrap_or_default().to_string_lossy().into_owned());
        let content = body.content().map_err(reading(&path))?;
        progress.expect(content.size());
        Ok(Ready { path, content, attributes, is_made, sum })
    }
}

impl Ready {
    /// Its time, for `futimens`.
    pub(super) fn times(&self) -> Timestamps {
        if self.is_made { NOW } else { times(&self.attributes) }
    }
}

/// The time of an entry of the input, for `utimensat`.
pub(super) fn times(attributes: &Attributes) -> Timestamps {
    let time = Timespec { tv_sec: attributes.mtime, tv_nsec: attributes.mtime_nanoseconds.into() };
    Timestamps { last_access: time, last_modification: time }
}
