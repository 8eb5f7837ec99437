//! Bars next to numbers. The numbers are text, so that bars can use all available width.

use maud::{Markup, html};

use super::shown;
use crate::report::details::part;
use crate::report::table::size;

/// A bar of segments.
pub(super) struct Bar<'a> {
    /// The value of the full width.
    pub(super) whole: u64,
    /// The class of the colour, the name and the size of each segment.
    pub(super) segments: Vec<(&'static str, &'a str, u64)>,
}

/// Height of a bar, including the gap after it.
const HEIGHT: usize = 8;
const STEP: usize = 10;

/// Bars, one below the other.
pub(super) fn bars(name: &str, bars: &[Bar<'_>]) -> Markup {
    let view_box = format!("0 0 1000 {}", bars.len() * STEP);
    html! {
        svg class={ "bars bars-" (bars.len()) } viewBox=(view_box) preserveAspectRatio="none" role="img" {
            title { (shown(name)) }
            @for (row, bar) in bars.iter().enumerate() {
                @for (position, (kind, name, bytes)) in bar.segments.iter().enumerate() {
                    @let before: u64 = bar.segments.iter().take(position).map(|(_, _, size)| size).sum();
                    @let from = part(1000, before.min(bar.whole), bar.whole);
                    @let to = part(1000, (before + bytes).min(bar.whole), bar.whole);
                    rect class=(kind) x=(from) y=(row * STEP) width=(to - from) height=(HEIGHT) {
                        title { (shown(name)) ": " (size(*bytes)) }
                    }
                }
            }
        }
    }
}
