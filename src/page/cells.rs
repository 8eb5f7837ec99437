//! Sections, tables and their cells. Each cell also has the exact number, for scripts that sort and for tests.

use maud::{Markup, html};

use super::percent;
use crate::report::table::size;

/// A cell with a size; empty if it is unknown.
pub(super) fn bytes(value: Option<u64>) -> Markup {
    html! { td.n data-v=[value] { @if let Some(value) = value { data value=(value) { (size(value)) } } } }
}

/// A cell with a number.
pub(super) fn count(value: usize) -> Markup {
    html! { td.n data-v=(value) { data value=(value) { (value) } } }
}

/// A cell with a share.
pub(super) fn ratio(some: Option<u64>, whole: Option<u64>) -> Markup {
    let text = some.zip(whole).map(|(some, whole)| percent(some, whole));
    html! { td.n { @if let Some(text) = text { (text) } } }
}

/// A section under a title; nothing unless it `is_shown`.
pub(super) fn section(id: &str, title: &str, is_shown: bool, body: &Markup) -> Markup {
    html! { @if is_shown { section aria-labelledby={ (id) "-title" } { h2 id={ (id) "-title" } { (title) } (body) } } }
}

/// A table that scrolls by itself if the window is narrow.
pub(super) fn table(id: &str, caption: &str, head: &Markup, body: &Markup) -> Markup {
    html! {
        div class={ "scroll " (id) } tabindex="0" role="region" aria-labelledby={ (id) "-caption" } {
            table id=(id) { caption id={ (id) "-caption" } { (caption) } thead { tr { (head) } } tbody { (body) } }
        }
    }
}

/// The headings of columns, whose titles are separated by ` | `. Those that end with ` #` are of numbers.
pub(super) fn columns(titles: &str) -> Markup {
    html! { @for title in titles.split(" | ") { @match title.strip_suffix(" #") {
        Some(title) => th.n scope="col" { (title) },
        None => th scope="col" { (title) },
    } } }
}
