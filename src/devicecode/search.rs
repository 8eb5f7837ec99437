//! Search for device code among other data. Device code itself is never searched, since it may contain bytes that look like
//! the beginning of code.

use std::ops::Range;
use std::sync::Arc;

use super::beginning::{MAX_FRAMES, beginnings, read};
use super::effort::{Effort, SearchedRange};
use super::form::DeviceCodePlace;
use super::found::CodeTally;
use crate::memory::TableError;
use crate::resources::{MAX_FOUND, Resources};
use crate::rope::{Content, ReadError, head_mut, to_usize};

/// Bytes searched at a time, so that they stay in the cache of a processor for all magics.
const STEP: u64 = 256 << 10;

/// Why a search failed.
#[derive(Debug, thiserror::Error)]
pub enum SearchError {
    /// The data cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It names too many targets.
    #[error(transparent)]
    Tables(#[from] TableError),
}

/// Adds the code in a range of a content to `found`, except that inside of other code. If `effort` is spent, only what was
/// found until then.
pub fn search(
    content: &Arc<dyn Content>,
    range: Range<u64>,
    place: DeviceCodePlace,
    resources: &Arc<Resources>,
    effort: &Effort,
    found: &mut CodeTally,
) -> Result<(), SearchError> {
    // Where the last piece ends.
    let mut end = range.start;
    let mut look_at = |starts: &mut dyn Iterator<Item = u64>| -> Result<u64, TableError> {
        for start in starts {
            if start < end || effort.is_spent() {
                continue;
            }
            end = start + 1;
            let rest = SearchedRange { content, start, end: range.end, resources, effort };
            if let Some(Ok(code)) = read(rest, MAX_FRAMES) {
                end = start.saturating_add(code.length).max(end);
                found.add(place, code)?;
            }
        }
        Ok(if effort.is_spent() { u64::MAX } else { end })
    };
    if let Some(known) = content.found(&range) {
        look_at(&mut known.into_iter())?;
        return Ok(());
    }
    let mut buffer = vec![0; to_usize(STEP.min(range.end.saturating_sub(range.start)))];
    let mut at = range.start;
    while at < range.end {
        let length = to_usize(STEP.min(range.end - at));
        let piece = head_mut(&mut buffer, length);
        content.read_at(at, piece)?;
        let end = look_at(&mut beginnings(piece).into_iter().map(|position| at + position as u64))?;
        if at + length as u64 == range.end {
            break;
        }
        // A magic may reach into the next piece. Device code is not read.
        at = (at + length as u64 - (MAX_FOUND as u64 - 1)).max(end.min(range.end));
    }
    Ok(())
}
