//! Reading a content from its beginning to its end.

use super::{Content, ReadError, head_mut, to_usize};

/// Bytes read at a time.
const STEP: usize = 1 << 20;

/// Passes all bytes of a content to `take`, in pieces. The content may be larger than the memory.
pub fn read_all(content: &dyn Content, mut take: impl FnMut(&[u8])) -> Result<(), ReadError> {
    let mut buffer = vec![0; STEP.min(to_usize(content.size()))];
    let mut at = 0;
    while at < content.size() {
        let length = to_usize(content.size() - at).min(STEP);
        let buffer = head_mut(&mut buffer, length);
        content.read_at(at, buffer)?;
        take(buffer);
        at += length as u64;
    }
    Ok(())
}
