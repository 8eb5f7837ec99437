//! A treemap as SVG: nested areas in proportion to sizes (Bruls, Huizing, van Wijk: Squarified Treemaps).

use maud::{Markup, html};
use streemap::Rect;

use super::shown;
use crate::report::table::{percent, size};
use crate::text::shortened;

/// An area of the picture, with inner areas or a colour.
#[derive(Clone, Debug)]
pub(super) struct Area {
    pub(super) name: String,
    pub(super) size: u64,
    /// The CSS class of its colour.
    pub(super) kind: &'static str,
    pub(super) parts: Vec<Area>,
}

/// Height of an area's name above its inner areas.
const HEADER: f64 = 15.0;
/// Space between areas.
const GAP: f64 = 1.0;
/// Areas with fewer square pixels are summed up.
const SMALLEST: f64 = 40.0;
/// Width of a letter of 11 pixels, approximately.
const LETTER: f64 = 6.4;

impl Area {
    /// An area without inner areas.
    pub(super) fn leaf(name: impl Into<String>, size: u64, kind: &'static str) -> Self {
        Self { name: name.into(), size, kind, parts: Vec::new() }
    }

    /// An area with inner areas. Its size is their sum.
    pub(super) fn of(name: impl Into<String>, parts: Vec<Self>) -> Self {
        let size = parts.iter().map(|part| part.size).sum();
        Self { name: name.into(), size, kind: "group", parts }
    }
}

/// The picture, with a width and a height in units.
pub(super) fn treemap(class: &str, name: &str, about: &str, root: &Area, width: u32, height: u32) -> Markup {
    let (title, desc) = (format!("{class}-title"), format!("{class}-desc"));
    let view_box = format!("0 0 {width} {height}");
    let rect = Rect { x: 0.0, y: 0.0, w: f64::from(width), h: f64::from(height) };
    html! {
        svg class={ "treemap " (class) } viewBox=(view_box) role="img" aria-labelledby=(title) aria-describedby=(desc) {
            title id=(title) { (name) }
            desc id=(desc) { (about) }
            (parts(root, rect, root.size))
        }
    }
}

/// The inner areas of an area, laid out in a rectangle.
fn parts(area: &Area, rect: Rect<f64>, whole: u64) -> Markup {
    let mut placed: Vec<_> =
        folded(area, rect.w * rect.h).into_iter().map(|part| (part, Rect { x: 0.0, y: 0.0, w: 0.0, h: 0.0 })).collect();
    if !placed.is_empty() && rect.w > 0.0 && rect.h > 0.0 {
        streemap::squarify(rect, &mut placed, |(part, _)| number(part.size), |(_, place), rect| *place = rect);
    }
    html! { @for (part, rect) in &placed { (drawn(part, *rect, whole)) } }
}

/// The largest inner areas first, and the small ones as one.
fn folded(area: &Area, pixels: f64) -> Vec<Area> {
    let is_visible = |part: &&Area| number(part.size) / number(area.size.max(1)) * pixels >= SMALLEST;
    let (mut seen, small): (Vec<_>, Vec<_>) =
        area.parts.iter().filter(|part| part.size > 0).partition(|part| is_visible(part));
    seen.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.name.cmp(&b.name)));
    let mut seen: Vec<_> = seen.into_iter().cloned().collect();
    match small.as_slice() {
        [] => {}
        [one] => seen.push((*one).clone()),
        several => {
            let sum = several.iter().map(|part| part.size).sum();
            seen.push(Area::leaf(format!("{} smaller parts", several.len()), sum, "k-rest"));
        }
    }
    seen
}

fn drawn(area: &Area, rect: Rect<f64>, whole: u64) -> Markup {
    let Rect { x, y, w, h } = rect;
    let (w, h) = ((w - GAP).max(0.0), (h - GAP).max(0.0));
    let [left, top, wide, high] = [x, y, w, h].map(pixels);
    let is_group = !area.parts.is_empty();
    let has_header = is_group && h > 3.0 * HEADER && w > 40.0;
    let label = label(&area.name, w, h, has_header);
    let inner = if has_header {
        Rect { x: x + 2.0, y: y + HEADER, w: w - 4.0, h: h - HEADER - 2.0 }
    } else {
        Rect { x, y, w: w + GAP, h: h + GAP }
    };
    html! {
        @if !is_group || has_header {
            rect class=(area.kind) x=(left) y=(top) width=(wide) height=(high) {
                title { (shown(&area.name)) ": " (size(area.size)) " (" (percent(area.size, whole)) ")" }
            }
        }
        @if is_group { (parts(area, inner, whole)) }
        @if let Some(label) = label.filter(|_| !is_group || has_header) {
            text x=(pixels(x + 4.0)) y=(pixels(y + 11.5)) class=(if is_group { "head" } else { "leaf" }) { (label) }
        }
    }
}

/// As much of a name as fits. The end of a path says more than its beginning.
fn label(name: &str, w: f64, h: f64, is_header: bool) -> Option<String> {
    let name = if is_header || !name.contains('/') { name } else { name.rsplit('/').next().unwrap_or(name) };
    let text = shown(name);
    let letters = text.chars().count();
    let room = ((w - 8.0) / LETTER).max(0.0);
    if h < 14.0 || room < 3.0 {
        return None;
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a width of a picture")]
    let room = room as usize;
    (letters <= room || room >= 6).then(|| shortened(&text, room))
}

#[expect(clippy::cast_precision_loss, reason = "a picture is not that exact")]
fn number(size: u64) -> f64 {
    size as f64
}

/// A coordinate as text, in tenths.
fn pixels(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}
