//! A new layer as a rope: ranges of old layers, new headers, and other contents.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::ImageError;
use super::layer::{Layer, LayerMember};
use super::member_header::MemberHeader;
use crate::rope::{Content, Rope, Segment};
use crate::source::{EntryPath, TAR_BLOCK};

/// Two empty blocks end an archive.
const END: u64 = 2 * TAR_BLOCK;

/// A layer that is put together.
#[derive(Default)]
pub(super) struct NewLayer {
    segments: Vec<Segment>,
    /// A range of an old layer's blocks that may go on.
    open: Option<(Arc<dyn Content>, Range<u64>)>,
    /// The directories that it has.
    directories: BTreeSet<EntryPath>,
}

impl NewLayer {
    /// Adds a member as it stands in an old layer.
    pub(super) fn add_unchanged(&mut self, layer: &Layer, member: &LayerMember) -> Result<(), ImageError> {
        if let Some((archive, blocks)) = &mut self.open
            && Arc::ptr_eq(archive, &layer.archive)
            && blocks.end == member.blocks.start
        {
            blocks.end = member.blocks.end;
            return Ok(());
        }
        self.close()?;
        self.open = Some((Arc::clone(&layer.archive), member.blocks.clone()));
        Ok(())
    }

    /// Adds a file or directory with a new header.
    pub(super) fn add(
        &mut self,
        header: MemberHeader,
        path: &EntryPath,
        content: &Arc<dyn Content>,
    ) -> Result<(), ImageError> {
        self.close()?;
        let size = content.size();
        self.segments.push(Segment::literal(header.blocks(path, size)));
        self.segments.push(Segment::whole(Arc::clone(content)));
        self.segments.push(Segment::zeros(size.next_multiple_of(TAR_BLOCK) - size));
        Ok(())
    }

    /// Whether it lacks this directory. The caller adds it then.
    pub(super) fn lacks(&mut self, directory: &EntryPath) -> bool {
        self.directories.insert(directory.clone())
    }

    /// The archive.
    pub(super) fn finish(mut self) -> Result<Arc<dyn Content>, ImageError> {
        self.close()?;
        self.segments.push(Segment::zeros(END));
        Ok(Arc::new(Rope::new(self.segments)?))
    }

    fn close(&mut self) -> Result<(), ImageError> {
        let Some((archive, blocks)) = self.open.take() else { return Ok(()) };
        // The last member of an archive may lack its padding.
        let end = blocks.end.min(archive.size());
        self.segments.push(Segment::range(archive, blocks.start, end.saturating_sub(blocks.start))?);
        self.segments.push(Segment::zeros(blocks.end - end));
        Ok(())
    }
}
