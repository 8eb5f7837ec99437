//! Sections, tables and their cells. Each cell also has the exact number, for scripts that sort and for tests.

use maud::{Markup, html};

use super::shown;
use crate::report::table::Table;

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

/// The most rows of a table. The JSON has the rest.
pub(super) const MAX_ROWS: usize = 200;

/// A section with a table of a report under its title; nothing without rows.
pub(super) fn listed(id: &str, caption: &str, mut table: Table) -> Markup {
    table.shorten(MAX_ROWS);
    let body = reported(id, caption, &mut table, Pictures::default());
    section(id, &table.title, !table.rows.is_empty(), &body)
}

/// A column of pictures; none if it is empty.
#[derive(Clone, Copy, Default)]
pub(super) struct Pictures<'a> {
    pub(super) title: &'a str,
    pub(super) of_rows: &'a [Markup],
}

/// A table of a report without its empty columns. Pictures are its second column.
pub(super) fn reported(id: &str, caption: &str, reported: &mut Table, pictures: Pictures<'_>) -> Markup {
    reported.drop_columns(true);
    let is_pictured = |column: usize| column == 1 && !pictures.of_rows.is_empty();
    let head = html! { @for (number, column) in reported.columns.iter().enumerate() {
        @if is_pictured(number) { th scope="col" { (pictures.title) } }
        th class=[column.is_number.then_some("n")] scope="col" { (column.title) }
    } };
    let body = html! { @for (row, cells) in reported.rows.iter().enumerate() { tr class=[cells.iter().find_map(|cell| cell.mark)] {
        @for (number, (cell, column)) in cells.iter().zip(&reported.columns).enumerate() {
            @if is_pictured(number) { td.picture { @if let Some(picture) = pictures.of_rows.get(row) { (picture) } } }
            @if number == 0 { th scope="row" { (shown(&cell.text)) } }
            @else if let Some(value) = cell.number { td.n data-v=(value) { data value=(value) { (cell.text) } } }
            @else { td class=[column.is_number.then_some("n")] { (shown(&cell.text)) } }
        }
    } } };
    html! { (table(id, caption, &head, &body)) (left_out(reported.left_out)) }
}

/// A note about rows that are not shown; nothing if all are.
pub(super) fn left_out(rows: usize) -> Markup {
    html! { @if rows > 0 { p.note { (rows) " more are in the JSON, or counted there." } } }
}
