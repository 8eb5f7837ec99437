//! The bytes of a file in a tree.

use std::fmt;
use std::sync::Arc;

use crate::rope::{Content, Materialize, ReadError, Rope, Segment, to_usize};

/// The bytes of a file.
#[derive(Clone, Debug)]
pub enum Body {
    /// Of known size.
    Ready(Arc<dyn Content>),
    /// The size is known only after work.
    Made(Arc<dyn Materialize>),
    /// A report that is written again at each lookup.
    Live(Arc<dyn LiveReport>),
}

/// A text about the current state.
pub trait LiveReport: Send + Sync + fmt::Debug {
    /// The text, of at most [`LiveReport::size`] bytes. Writing it needs no work and does not block.
    fn text(&self) -> String;

    /// The fixed size in bytes. The text is padded with spaces and a newline.
    fn size(&self) -> u64;

    /// The text, padded to its fixed size.
    fn bytes(&self) -> Vec<u8> {
        let size = to_usize(self.size());
        let mut bytes = self.text().into_bytes();
        bytes.resize(size.saturating_sub(1), b' ');
        bytes.push(b'\n');
        bytes
    }
}

impl Body {
    /// The size if it is known without work.
    pub fn known_size(&self) -> Option<u64> {
        match self {
            Self::Ready(content) => Some(content.size()),
            Self::Made(make) => make.made().map(|content| content.size()),
            Self::Live(report) => Some(report.size()),
        }
    }

    /// The bytes. Makes them if necessary.
    pub fn content(&self) -> Result<Arc<dyn Content>, ReadError> {
        match self {
            Self::Ready(content) => Ok(Arc::clone(content)),
            Self::Made(make) => make.make(),
            Self::Live(report) => Ok(Arc::new(Rope::new([Segment::literal(report.bytes())])?)),
        }
    }
}
