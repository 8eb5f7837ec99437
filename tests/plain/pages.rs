//! Reads the tables and the JSON of pages.

use std::collections::BTreeMap;

use serde_json::Value;

/// The cells of a row by the titles of their columns.
pub(crate) struct Row(BTreeMap<String, Cell>);

struct Cell {
    text: String,
    /// The exact number, if it has one.
    number: Option<String>,
}

impl Row {
    /// The exact number in a column; `None` if there is no such column, as if the cell has none.
    pub(crate) fn number(&self, column: &str) -> Option<u64> {
        Some(self.0.get(column)?.number.as_ref()?.parse().unwrap())
    }

    /// The numbers in several columns.
    pub(crate) fn numbers<const N: usize>(&self, columns: [&str; N]) -> [Option<u64>; N] {
        columns.map(|column| self.number(column))
    }

    /// The text in a column.
    #[track_caller]
    pub(crate) fn text(&self, column: &str) -> &str {
        &self.0.get(column).unwrap_or_else(|| panic!("no column {column}")).text
    }

    /// The exact numbers with their columns.
    pub(crate) fn all_numbers(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.keys().filter_map(|column| Some((column.as_str(), self.number(column)?)))
    }
}

#[track_caller]
pub(crate) fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    let (_, rest) = text.split_once(start).unwrap_or_else(|| panic!("{start}"));
    rest.split_once(end).unwrap().0
}

/// The JSON in the page.
pub(crate) fn data(page: &str) -> Value {
    serde_json::from_str(between(page, r#"<script type="application/json" id="data">"#, "</script>")).unwrap()
}

/// The rows of a table by their names. Each column has a title of its own, and a cell that is not empty.
#[track_caller]
pub(crate) fn table(page: &str, id: &str) -> BTreeMap<String, Row> {
    let table = between(page, &format!("<table id=\"{id}\">"), "</table>");
    let head = between(table, "<thead>", "</thead>");
    let titles: Vec<_> = head.split("<th").skip(1).map(|cell| text(content(cell, "</th>"))).collect();
    let row = |row: &str| {
        let cells: Vec<_> = row.split("<td").skip(1).map(cell).collect();
        assert_eq!(cells.len() + 1, titles.len(), "{id}: {row}");
        let cells = titles.iter().skip(1).cloned().zip(cells);
        (between(row, "<th scope=\"row\">", "</th>").to_owned(), Row(cells.collect()))
    };
    let rows: BTreeMap<_, _> = between(table, "<tbody>", "</tbody>").split("<tr").skip(1).map(row).collect();
    for (number, title) in titles.iter().enumerate().skip(1) {
        assert!(!titles[..number].contains(title), "{id}: two columns {title}");
        assert!(rows.values().any(|row| !row.text(title).is_empty()), "{id}: nothing in column {title}");
    }
    rows
}

/// A cell from the rest of its tag on.
fn cell(markup: &str) -> Cell {
    let content = content(markup, "</td>");
    let number = content.split_once("<data value=\"").map(|(_, rest)| rest.split_once('"').unwrap().0.to_owned());
    Cell { text: text(content), number }
}

fn content<'a>(markup: &'a str, end: &str) -> &'a str {
    between(markup, ">", end)
}

/// Markup without its tags.
fn text(markup: &str) -> String {
    markup.split('<').map(|piece| piece.split_once('>').map_or(piece, |(_, text)| text)).collect()
}
