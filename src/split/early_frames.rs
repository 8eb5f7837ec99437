//! Compresses code objects in the pass that looks for them.
//!
//! An ELF file describes its device code at its end. A deflated one is inflated up to there before anything is known of its
//! code, and it would be inflated once more to compress that. But linkers align bundles to pages, and an uncompressed one
//! states what it has. So a command that writes all archives has the frames made as the pass reaches them. What the plan does
//! not need of them is dropped.

use std::collections::HashMap;
use std::sync::Arc;

use super::options::PlanOptions;
use crate::fatbin::{Bundle, CodeObject, is_plain_bundle};
use crate::kpack::{BundleJobs, Compression, Frame};
use crate::memory::{Parser, ParserMemory};
use crate::resources::Resources;
use crate::rope::{Content, head_mut, to_usize};
use crate::source::may_be_binary;

/// Linkers and loaders align bundles to this many bytes.
const PAGE: usize = 4096;

/// Bytes that are searched at a time: what is inflated together, so that it is inflated once even if it is not kept.
const PIECE: u64 = 64 * PAGE as u64;

/// Frames that were made before the plan, by the offset of their code object in the file.
#[derive(Default)]
pub(super) struct EarlyFrames(HashMap<u64, Arc<Frame>>);

impl EarlyFrames {
    /// Makes the frames of the uncompressed bundles in a deflated file, as long as the output has room for them.
    pub(super) fn make(content: &Arc<dyn Content>, options: &PlanOptions, jobs: &Arc<BundleJobs>) -> Self {
        let mut early = Self::default();
        let is_deflated = content.member().is_some_and(|member| member.packed().deflated);
        if is_deflated
            && jobs.resources().store.is_spooling()
            && options.compression != Compression::None
            && may_be_binary(&**content)
        {
            // What cannot be read is an error of the scan, which comes to the same place.
            let _ = early.pass(content, options, jobs);
        }
        early
    }

    /// The frame of a code object, if it was made.
    pub(super) fn take(&mut self, object: &CodeObject) -> Option<Arc<Frame>> {
        let frame = self.0.remove(&object.offset)?;
        let is_same = frame.object.target == object.target && frame.object.content.size() == object.content.size();
        is_same.then_some(frame)
    }

    /// Reads all but the last piece of the file: with that, damage without a place is found, which is left to the scan.
    fn pass(&mut self, content: &Arc<dyn Content>, options: &PlanOptions, jobs: &Arc<BundleJobs>) -> Option<()> {
        let end = content.size().saturating_sub(1) / PIECE * PIECE;
        let (mut at, mut piece) = (0, vec![0; to_usize(PIECE.min(end))]);
        let table = ParserMemory::new(Parser::Bundle);
        while at < end && jobs.resources().store.has_room() {
            let piece = head_mut(&mut piece, to_usize(PIECE - at % PIECE));
            content.read_at(at, piece).ok()?;
            let found = piece.chunks(PAGE).position(is_plain_bundle);
            let Some(page) = found else {
                at += piece.len() as u64;
                continue;
            };
            let start = at + (page * PAGE) as u64;
            let code = wanted(content, start, &table, options, jobs.resources())?;
            at = code.iter().map(ends_at).max().unwrap_or(start).max(start + 1).next_multiple_of(PAGE as u64);
            for object in code.into_iter().filter(|object| ends_at(object) <= end) {
                let frame = Arc::new(Frame::new(object, options.compression.level(), jobs.resources()));
                jobs.make_early(&frame).ok()?;
                self.0.insert(frame.object.offset, frame);
            }
        }
        Some(())
    }
}

/// The wanted code objects of the bundle at `start`, in the order of the file. Other data may look like a bundle, and has none.
fn wanted(
    content: &Arc<dyn Content>,
    start: u64,
    table: &ParserMemory,
    options: &PlanOptions,
    resources: &Arc<Resources>,
) -> Option<Vec<CodeObject>> {
    let Ok(bundle) = Bundle::read(content, start, content.size(), resources) else { return Some(Vec::new()) };
    bundle.count(table).ok()?;
    let mut objects = bundle.objects(content, resources).ok()?;
    let is_wanted = |object: &CodeObject| options.wants(&options.packaging.key_of(&object.target));
    objects.retain(|object| object.content.size() > 0 && is_wanted(object));
    objects.sort_by_key(|object| object.offset);
    Some(objects)
}

/// The offset in the file after the last byte of a code object.
fn ends_at(object: &CodeObject) -> u64 {
    object.offset.saturating_add(object.content.size())
}
