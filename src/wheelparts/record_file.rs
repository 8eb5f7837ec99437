//! Files that depend on all others of a part: RECORD, and the wheel.

use std::sync::Arc;

use super::payload::Payload;
use super::wheel_part::WheelPart;
use crate::rope::{Content, Materialize, ReadError, SizeBounds, check_range};

/// A part's RECORD as a file. Its size is known when the archives are made.
#[derive(Debug)]
pub(crate) struct RecordFile(pub(crate) Arc<WheelPart>);

impl Materialize for RecordFile {
    fn made(&self) -> Option<Arc<dyn Content>> {
        let &size = self.0.record_size.get()?;
        Some(Arc::new(RecordText { part: Arc::clone(&self.0), size }))
    }

    fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
        let size = self.0.record_size()?;
        Ok(Arc::new(RecordText { part: Arc::clone(&self.0), size }))
    }
}

/// The text of RECORD. It is made when it is read, because most mounts never need it.
#[derive(Debug)]
struct RecordText {
    part: Arc<WheelPart>,
    size: u64,
}

impl Content for RecordText {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.size)?;
        let assembled = self.part.assembled()?;
        let record =
            assembled.files.last().ok_or_else(|| ReadError::damaged(&"RECORD".into(), "the part has no files"))?;
        record.digest.content.read_at(offset, buffer)
    }

    /// Always `false`: the list of files may be evicted between this call and the read, and making it again is work.
    fn is_nonblocking(&self, _: u64, _: usize) -> bool {
        false
    }
}

/// A `.whl` file.
#[derive(Debug)]
pub(crate) struct WheelBody(pub(crate) Arc<WheelPart>);

impl Materialize for WheelBody {
    fn made(&self) -> Option<Arc<dyn Content>> {
        self.0.known_wheel()
    }

    fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
        self.0.wheel()
    }

    fn bounds(&self) -> SizeBounds {
        self.made().map_or_else(|| self.0.bounds(), |wheel| SizeBounds::exact(wheel.size()))
    }

    fn work(&self) -> u64 {
        let of_thin = |payload: &Payload| if let Payload::Thin(.., binary) = payload { binary.work() } else { 0 };
        self.0.payload.iter().map(of_thin).sum()
    }

    fn files(&self) -> Vec<(String, SizeBounds)> {
        self.0.files_in_wheel()
    }
}
