//! A code object in a file of its own or in an archive, uncompressed or as one zstd frame.

use std::sync::Arc;

use super::CodeObject;
use super::compressed::Compressed;
use super::packing::{CompressedFormat, CompressedHeader, MAX_SIZE, Method, WINDOW_LOG, content_size, window_of};
use crate::gpu::TargetId;
use crate::resources::Resources;
use crate::rope::{Content, ReadError, Rope, Segment, to_usize};

/// Bytes of the longest header of a zstd frame, including its magic (RFC 8878, 3.1.1).
const MAX_HEADER: u64 = 18;

/// A code object in a file.
#[derive(Clone, Debug)]
pub(crate) struct StoredObject {
    content: Arc<dyn Content>,
    frame: Option<Arc<Compressed>>,
}

impl StoredObject {
    /// `size` uncompressed bytes at `offset`.
    pub(crate) fn plain(content: &Arc<dyn Content>, offset: u64, size: u64) -> Result<Self, ReadError> {
        let rope = Rope::new([Segment::range(Arc::clone(content), offset, size)?])?;
        Ok(Self { content: Arc::new(rope), frame: None })
    }

    /// The zstd frame of `length` bytes at `offset`, which decompresses to `size` bytes. Fails if that is impossible.
    /// If the frame does not state its size and turns out to have another one, reading it fails. `label` is its name in
    /// messages.
    pub(crate) fn frame(
        content: &Arc<dyn Content>,
        offset: u64,
        length: u64,
        size: u64,
        label: &str,
        resources: &Arc<Resources>,
    ) -> Result<Self, ReadError> {
        let label: Arc<str> = label.into();
        let damaged = |reason: String| ReadError::damaged(&label, reason);
        let mut header = vec![0; to_usize(length.min(MAX_HEADER))];
        content.read_at(offset, &mut header)?;
        if size == 0 && (length == 0 || content_size(&header) == Some(0)) {
            return Self::plain(content, offset, 0);
        }
        let window = window_of(&header).ok_or_else(|| damaged("it is no zstd frame".to_owned()))?;
        if let Some(claimed) = content_size(&header).filter(|claimed| *claimed != size) {
            let reason = format!("its zstd frame becomes {claimed} bytes, and the table of contents says {size}");
            return Err(damaged(reason));
        }
        if window > 1 << WINDOW_LOG {
            let limit = 1_u64 << WINDOW_LOG;
            return Err(damaged(format!("decompressing it needs a window of {window} bytes; the limit is {limit}")));
        }
        if size > MAX_SIZE {
            return Err(damaged(format!("it claims to hold {size} bytes; the limit is {MAX_SIZE}")));
        }
        if size == 0 {
            return Err(damaged("it is empty, and its zstd frame does not say so".to_owned()));
        }
        let format = CompressedFormat::of(Method::Zstd);
        let packing = CompressedHeader { start: offset, length, format, size, window: window.min(size) };
        if !packing.is_possible(content.size()) {
            return Err(damaged(format!("{length} compressed bytes cannot hold the {size} that it claims")));
        }
        let frame = Arc::new(Compressed::for_frame(content, packing, label, resources));
        Ok(Self { content: frame.whole(), frame: Some(frame) })
    }

    /// Its bytes.
    pub(crate) fn content(&self) -> &Arc<dyn Content> {
        &self.content
    }

    /// The object as code for a target.
    pub(crate) fn code_for(&self, target: TargetId) -> CodeObject {
        CodeObject { target, content: Arc::clone(&self.content), bundle: self.frame.clone(), offset: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fatbin::CODE_BEGINNING;
    use crate::rope::testing::literal;

    /// Data that zstd compresses to several blocks.
    fn code() -> Vec<u8> {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0] & 0x3f
        };
        (0..1 << 20).map(|_| next()).collect()
    }

    fn frame(bytes: &[u8], size: usize) -> Result<StoredObject, ReadError> {
        let length = bytes.len() as u64;
        StoredObject::frame(&literal(bytes), 0, length, size as u64, "archive: key", &Resources::new(16 << 20))
    }

    #[test]
    fn a_frame_is_what_its_table_says_or_an_error() {
        let code = code();
        let packed = zstd::bulk::compress(&code, 3).unwrap();
        let stored = frame(&packed, code.len()).unwrap();
        let mut read = vec![0; code.len()];
        stored.content().read_at(0, &mut read).unwrap();
        let header = |stored: &StoredObject| stored.content().beginning(CODE_BEGINNING).unwrap();
        assert!(read == code && header(&stored) == code[..1024]);
        // The beginning alone costs as much as it is long.
        let (resources, length) = (Resources::new(16 << 20), packed.len() as u64);
        let frame_of = |size| StoredObject::frame(&literal(&packed), 0, length, size, "archive: key", &resources);
        header(&frame_of(code.len() as u64).unwrap());
        assert_eq!(resources.counters.bytes_decompressed.get(), CODE_BEGINNING as u64);
        let said = |error: ReadError| error.to_string();
        assert!(said(frame(&packed, code.len() + 1).unwrap_err()).contains("the table of contents says"));
        assert!(said(frame(&code, code.len()).unwrap_err()).contains("no zstd frame"));
        // The beginning, which planning reads, is valid.
        let mut broken = packed.clone();
        let end = broken.len();
        broken[end - 100_000..].fill(0xff);
        let stored = frame(&broken, code.len()).unwrap();
        assert!(header(&stored) == code[..1024]);
        let last = code.len() as u64 - 8;
        assert!(
            said(stored.content().read_at(last, &mut [0; 8]).unwrap_err()).starts_with("archive: key: damaged behind")
        );
        // A frame without a stated size decompresses to one byte less than the table of contents says.
        let unsized_frame = zstd::stream::encode_all(code.as_slice(), 3).unwrap();
        let stored = frame(&unsized_frame, code.len() + 1).unwrap();
        assert!(stored.content().read_at(last + 1, &mut [0; 8]).is_err());
        assert!(stored.content().read_at(last, &mut [0; 8]).is_ok());
        assert!(frame(&unsized_frame, 1 << 40).is_err());
        // No frame is valid for an empty object.
        assert!(frame(&packed, 0).is_err() && frame(&unsized_frame, 0).is_err());
        assert_eq!(frame(&zstd::bulk::compress(&[], 3).unwrap(), 0).unwrap().content().size(), 0);
    }
}
