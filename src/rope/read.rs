//! Reading a content from its beginning to its end.

use super::{Content, ReadError};

/// Bytes read at a time.
const STEP: usize = 1 << 20;

/// Gives all bytes of a content piece by piece: it can be larger than the memory.
pub fn read_all(content: &dyn Content, mut take: impl FnMut(&[u8])) -> Result<(), ReadError> {
    let mut buffer = vec![0; STEP.min(usize::try_from(content.size()).unwrap_or(STEP))];
    let mut at = 0;
    while at < content.size() {
        let length = usize::try_from(content.size() - at).map_or(STEP, |left| left.min(STEP));
        let Some(buffer) = buffer.get_mut(..length) else { break };
        content.read_at(at, buffer)?;
        take(buffer);
        at += length as u64;
    }
    Ok(())
}
