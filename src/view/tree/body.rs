//! Where the bytes of a file come from.

use std::fmt;
use std::sync::Arc;

use crate::rope::{Content, Materialize, ReadError, Rope, Segment, to_usize};

/// Where the bytes of a file come from.
#[derive(Clone, Debug)]
pub enum Body {
    /// They are known, and so is their number.
    Ready(Arc<dyn Content>),
    /// Their number is known only after work.
    Made(Arc<dyn Materialize>),
    /// They change: a report that is written again at each lookup.
    Live(Arc<dyn LiveReport>),
}

/// A text that tells the state of things now.
pub trait LiveReport: Send + Sync + fmt::Debug {
    /// The text, at most [`LiveReport::size`] bytes of it. Writing it is no work and waits for nobody.
    fn text(&self) -> String;

    /// Every reader sees exactly this many bytes: the text is filled up with spaces and a newline.
    fn size(&self) -> u64;

    /// The text in its fixed size.
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

    /// The bytes, made now if need be.
    pub fn content(&self) -> Result<Arc<dyn Content>, ReadError> {
        match self {
            Self::Ready(content) => Ok(Arc::clone(content)),
            Self::Made(make) => make.make(),
            Self::Live(report) => Ok(Arc::new(Rope::new([Segment::literal(report.bytes())])?)),
        }
    }
}
