//! The files of `.kpackfs/`: what the mount is and what it costs.

use std::fmt;
use std::sync::Arc;

use serde::Serialize;

use super::tree::{Body, Report};
use crate::index::{Counters, Resources};
use crate::rope::{Rope, Segment};

/// `status.json`: work done so far and memory held now. Always the same number of bytes, because the size of a file
/// must be known before it is read.
pub struct Status {
    input: String,
    resources: Arc<Resources>,
}

#[derive(Serialize)]
struct Text<'a> {
    version: &'static str,
    input: &'a str,
    counters: &'a Counters,
    /// Bytes held by each cache.
    held: Held,
}

#[derive(Serialize)]
struct Held {
    spans: u64,
    bundles: u64,
    frames: u64,
}

impl Status {
    /// The status of the work on `input`.
    pub fn new(input: impl Into<String>, resources: &Arc<Resources>) -> Self {
        Self { input: input.into(), resources: Arc::clone(resources) }
    }
}

impl Report for Status {
    fn text(&self) -> String {
        let resources = &self.resources;
        let text = Text {
            version: env!("CARGO_PKG_VERSION"),
            input: &self.input,
            counters: &resources.counters,
            held: Held {
                spans: resources.spans.bytes(),
                bundles: resources.bundles.bytes(),
                frames: resources.frames.bytes(),
            },
        };
        serde_json::to_string_pretty(&text).unwrap_or_default()
    }

    fn size(&self) -> u64 {
        8192
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Status({:?})", self.input)
    }
}

/// A text that does not change, such as `report.json`.
pub fn fixed(text: String) -> Body {
    let rope = Rope::new([Segment::literal(text.into_bytes())]);
    rope.map_or_else(|_| Body::Ready(Arc::new(Rope::default())), |rope| Body::Ready(Arc::new(rope)))
}
