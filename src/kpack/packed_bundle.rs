//! Some code objects of a compressed bundle, compressed to a bundle that contains only these.
//!
//! The jobs make, and the store keeps, the compressed data followed by the hash. The header is added in front when both
//! exist.

use std::sync::Arc;

use super::frame::Frame;
use super::jobs::BundleJobs;
use super::selection::{BundleSelection, HASH_SIZE};
use crate::fatbin::{BundlePart, BundleParts, CodeObject, Compressed, CompressedFormat};
use crate::gpu::TargetId;
use crate::rope::{Content, ReadError, check_range, copy_from, to_usize};

/// A compressed bundle with some code objects of another one. It is made later.
#[derive(Debug)]
pub(crate) struct PackedBundle {
    frame: Arc<Frame>,
    format: CompressedFormat,
    jobs: Arc<BundleJobs>,
}

impl PackedBundle {
    /// The given parts of the decompressed `bundle`, in a format.
    pub(crate) fn new(
        bundle: &Arc<Compressed>,
        parts: BundleParts,
        format: CompressedFormat,
        target: &TargetId,
        jobs: &Arc<BundleJobs>,
    ) -> Result<Self, ReadError> {
        let content: Arc<dyn Content> = Arc::new(parts.rope(&bundle.whole())?);
        let first = parts
            .list
            .iter()
            .find_map(|part| if let BundlePart::Code { offset, .. } = part { Some(*offset) } else { None });
        let (target, offset) = (target.clone(), first.unwrap_or(0));
        let object = CodeObject { target, content, bundle: Some(Arc::clone(bundle)), offset };
        let frame = Arc::new(Frame::selected(object, BundleSelection::new(parts, format), jobs.resources()));
        Ok(Self { frame, format, jobs: Arc::clone(jobs) })
    }

    /// Registers it, so that it is made together with the archives' frames when its bundle is decompressed again for
    /// one of them.
    pub(crate) fn make_with_others(&self) {
        self.jobs.register(&self.frame);
    }

    /// Its size in bytes, if it has been made or its size is in the index.
    pub(crate) fn known_size(&self) -> Option<u64> {
        Some(self.format.header_size() + self.frame.known_length()?.checked_sub(HASH_SIZE)?)
    }

    /// Sets the size that it had in an earlier session. `false` if it cannot have this size.
    pub(crate) fn restore_size(&self, size: u64) -> bool {
        let length = size.checked_sub(self.format.header_size()).and_then(|length| length.checked_add(HASH_SIZE));
        length.is_some_and(|length| self.frame.restore_length(length))
    }

    /// Makes several of them, and decompresses each bundle once.
    pub(crate) fn make_all(bundles: &[&Self]) -> Result<(), ReadError> {
        let frames: Vec<_> = bundles.iter().map(|bundle| Arc::clone(&bundle.frame)).collect();
        bundles.first().map_or(Ok(()), |bundle| bundle.jobs.demand(&frames).wait(|_| ()).map(drop))
    }

    /// The bundle, if its size is known.
    pub(crate) fn content(&self) -> Option<Arc<dyn Content>> {
        let length = self.frame.known_length()?;
        Some(Arc::new(SizedBundle {
            frame: Arc::clone(&self.frame),
            jobs: Arc::clone(&self.jobs),
            format: self.format,
            size: self.known_size()?,
            length,
        }))
    }
}

/// A compressed bundle of a known size.
#[derive(Debug)]
struct SizedBundle {
    frame: Arc<Frame>,
    jobs: Arc<BundleJobs>,
    format: CompressedFormat,
    size: u64,
    /// Bytes of the frame, including the hash after it.
    length: u64,
}

impl SizedBundle {
    fn header(&self) -> Result<Vec<u8>, ReadError> {
        let mut hash = [0; 8];
        let packed = self.length.saturating_sub(HASH_SIZE);
        self.jobs.read_at(&self.frame, self.length, packed, &mut hash)?;
        let header = self.format.header(packed, self.frame.size(), u64::from_le_bytes(hash));
        header.ok_or_else(|| ReadError::damaged(&"compressed bundle".into(), "it is too large for its version"))
    }
}

impl Content for SizedBundle {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.size)?;
        let header_size = self.format.header_size();
        let in_header = to_usize(header_size.saturating_sub(offset)).min(buffer.len());
        let (front, behind) = buffer.split_at_mut(in_header);
        if !front.is_empty() {
            copy_from(&self.header()?, offset, front)?;
        }
        if behind.is_empty() {
            return Ok(());
        }
        self.jobs.read_at(&self.frame, self.length, offset.saturating_sub(header_size), behind)
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        let behind = offset.checked_sub(self.format.header_size());
        behind.is_some_and(|offset| self.frame.is_nonblocking(offset, length))
    }
}
