//! Reading of structures of plain data.

use std::sync::Arc;

use object::pod::{Pod, from_bytes, slice_from_bytes};

use super::BinaryError;
use crate::memory::{Parser, WholeFile};
use crate::rope::{Content, to_usize};

/// Reads one structure at a file offset.
pub(super) fn read_pod<T: Pod>(content: &Arc<dyn Content>, offset: u64) -> Result<T, BinaryError> {
    let mut bytes = vec![0; size_of::<T>()];
    content.read_at(offset, &mut bytes)?;
    let (value, _) = from_bytes::<T>(&bytes).map_err(|()| BinaryError::malformed("unreadable structure"))?;
    Ok(*value)
}

/// Reads `count` structures at a file offset. The caller has bounded `count`.
pub(super) fn read_table<T: Pod>(
    parser: Parser,
    content: &Arc<dyn Content>,
    offset: u64,
    count: u64,
) -> Result<Vec<T>, BinaryError> {
    let count = to_usize(count);
    let length = count.saturating_mul(size_of::<T>());
    if offset.saturating_add(length as u64) > content.size() {
        return Err(BinaryError::malformed("a header table reaches past the end of the file"));
    }
    let bytes = WholeFile::part(parser, &**content, offset, length as u64)?;
    let (table, _) = slice_from_bytes(&bytes, count).map_err(|()| BinaryError::malformed("unreadable table"))?;
    Ok(table.to_vec())
}
