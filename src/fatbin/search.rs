//! Search for bundles among other data. Device code is never searched, since it may contain bytes that look like a
//! bundle.

use std::ops::Range;
use std::sync::Arc;

use memchr::memmem;

use super::Bundle;
use super::bundle::{MAGIC, MAGIC_SIZE};
use super::packing;
use crate::resources::Resources;
use crate::rope::{Content, ReadError, head_mut, to_usize};

/// Bytes searched at a time.
const STEP: u64 = 1 << 20;

/// A limit on the bytes that are read of bundles' tables in a file. Something that looks like a table may have 16 MiB,
/// and another one may begin in each of its entries.
#[derive(Debug)]
pub(crate) struct Effort {
    rest: u64,
}

impl Effort {
    /// Enough for all real bundles in a file of `size` bytes: their tables are shorter than their code.
    pub(crate) fn of(size: u64) -> Self {
        Self { rest: size.saturating_mul(4).saturating_add(16 << 20) }
    }

    /// Whether a search stopped early.
    pub(crate) fn is_spent(&self) -> bool {
        self.rest == 0
    }
}

/// The bundles in a range of a content that have code for any target, except those inside of another one. If `effort`
/// is spent, only those that were found until then.
pub(crate) fn search(
    content: &Arc<dyn Content>,
    range: Range<u64>,
    resources: &Arc<Resources>,
    effort: &mut Effort,
) -> Result<Vec<Bundle>, ReadError> {
    let mut found = Vec::new();
    let mut buffer = vec![0; to_usize(STEP.min(range.end.saturating_sub(range.start)))];
    let mut at = range.start;
    let mut end = range.start;
    while at < range.end {
        let length = to_usize(STEP.min(range.end - at));
        let piece = head_mut(&mut buffer, length);
        content.read_at(at, piece)?;
        for start in beginnings(piece).into_iter().map(|position| at + position as u64) {
            // A bundle inside of another one is a part of it.
            if start < end {
                continue;
            }
            if effort.is_spent() {
                return Ok(found);
            }
            let mut read = 0;
            let bundle = Bundle::read_counted(content, start, range.end, resources, &mut read);
            effort.rest = effort.rest.saturating_sub(read);
            if let Some(bundle) = bundle.ok().filter(|bundle| !bundle.targets().is_empty()) {
                end = start.saturating_add(bundle.length()).max(start + 1);
                found.push(bundle);
            }
        }
        if at + length as u64 == range.end {
            break;
        }
        // A magic may reach into the next piece. One that is found twice is at the beginning of the last bundle, or is
        // none.
        at += length as u64 - (MAGIC_SIZE as u64 - 1);
    }
    Ok(found)
}

/// Offsets of magics.
fn beginnings(bytes: &[u8]) -> Vec<usize> {
    let mut positions: Vec<_> =
        memmem::find_iter(bytes, MAGIC).chain(memmem::find_iter(bytes, packing::MAGIC)).collect();
    positions.sort_unstable();
    positions
}
