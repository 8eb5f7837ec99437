//! A new layer as a rope: ranges of old layers, new headers, and other contents.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::ImageError;
use super::layer::{Layer, LayerMember};
use super::member_header::MemberHeader;
use crate::memory::{Parser, ParserMemory};
use crate::rope::{Content, ReadError, Rope, Segment};
use crate::source::{EntryPath, TAR_BLOCK};

/// Two empty blocks end an archive.
const END: u64 = 2 * TAR_BLOCK;

/// A new layer. Its headers are in memory as long as it is there.
#[derive(Debug)]
pub(crate) struct MadeLayer {
    /// The archive.
    pub(crate) archive: Arc<dyn Content>,
    #[expect(dead_code, reason = "the headers count as long as it is there")]
    headers: ParserMemory,
}

/// A layer that is put together.
pub(super) struct NewLayer {
    segments: Vec<Segment>,
    /// The bytes of new headers.
    headers: ParserMemory,
    /// A range of an old layer's blocks that may go on.
    open: Option<(Arc<dyn Content>, Range<u64>)>,
    /// The directories that it has.
    directories: BTreeSet<EntryPath>,
}

impl Default for NewLayer {
    fn default() -> Self {
        let (segments, headers) = (Vec::new(), ParserMemory::new(Parser::LayerHeaders));
        Self { segments, headers, open: None, directories: BTreeSet::new() }
    }
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
        let blocks = header.blocks(path, size);
        self.headers.grow(blocks.len() as u64).map_err(ReadError::from)?;
        self.segments.push(Segment::literal(blocks));
        self.segments.push(Segment::whole(Arc::clone(content)));
        self.segments.push(Segment::zeros(size.next_multiple_of(TAR_BLOCK) - size));
        Ok(())
    }

    /// Whether it lacks this directory. The caller adds it then.
    pub(super) fn lacks(&mut self, directory: &EntryPath) -> bool {
        self.directories.insert(directory.clone())
    }

    /// The whole layer.
    pub(super) fn finish(mut self) -> Result<MadeLayer, ImageError> {
        self.close()?;
        self.segments.push(Segment::zeros(END));
        Ok(MadeLayer { archive: Arc::new(Rope::new(self.segments)?), headers: self.headers })
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
