//! Tables as text: with aligned columns, or in Markdown.

use std::fmt::Display;
use std::io::{self, Write};
use std::ops::Range;

use super::fitted::{DEEPER, fitted, limit, wrapped};
use crate::text::escaped;

/// The format of tables.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Style {
    /// Aligned columns, for terminals.
    Text,
    /// Tables of GitHub's Markdown.
    Markdown,
}

impl Style {
    /// A text from an input, escaped, for a line of its own.
    pub(crate) fn line(self, text: &str) -> String {
        let text = escaped(text);
        match self {
            Self::Text => text.into_owned(),
            Self::Markdown => in_markdown(&text),
        }
    }
}

/// Rows of cells under a title.
#[derive(Debug)]
pub(crate) struct Table {
    title: String,
    columns: Vec<Heading>,
    rows: Vec<Vec<String>>,
    /// Number of rows that are not shown.
    left_out: usize,
}

/// The heading of a column.
#[derive(Debug)]
struct Heading {
    title: String,
    is_number: bool,
}

impl Table {
    /// A table without rows. `columns` has the titles, separated by `|`. Those that end with `#` are of numbers, which are
    /// right-aligned.
    pub(crate) fn new(title: impl Into<String>, columns: &str) -> Self {
        let heading = |column: &str| {
            let number = column.trim().strip_suffix('#');
            Heading { title: number.unwrap_or(column).trim().to_owned(), is_number: number.is_some() }
        };
        Self { title: title.into(), columns: columns.split('|').map(heading).collect(), rows: Vec::new(), left_out: 0 }
    }

    /// A table with a row for each item.
    pub(crate) fn of<T, R: IntoIterator<Item = String>>(
        title: impl Into<String>,
        columns: &str,
        items: impl IntoIterator<Item = T>,
        row: impl Fn(T) -> R,
    ) -> Self {
        let rows = items.into_iter().map(|item| row(item).into_iter().collect()).collect();
        Self { rows, ..Self::new(title, columns) }
    }

    /// Adds a left-aligned column whose title comes from the input or the user.
    pub(crate) fn add_column(&mut self, title: &str) {
        self.columns.push(Heading { title: escaped(title).into_owned(), is_number: false });
    }

    /// Adds a row with a cell for each column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Keeps only the first rows, and counts the others.
    pub(crate) fn shorten(&mut self, most: usize) {
        let more = self.rows.len().saturating_sub(most) + self.left_out;
        self.rows.truncate(most);
        self.left_out = more;
    }

    /// Counts rows that were left out.
    pub(crate) fn add_left_out(&mut self, rows: usize) {
        self.left_out += rows;
    }

    /// Writes the table without empty columns. Writes nothing if there are no rows.
    pub(crate) fn write(mut self, out: &mut impl Write, style: Style) -> io::Result<()> {
        self.drop_empty_columns();
        if self.rows.is_empty() {
            return Ok(());
        }
        self.title = escaped(&self.title).into_owned();
        for cell in self.rows.iter_mut().flatten() {
            *cell = escaped(cell).into_owned();
        }
        match style {
            Style::Text => self.write_text(out),
            Style::Markdown => self.write_markdown(out),
        }
    }

    fn drop_empty_columns(&mut self) {
        let is_used = |column: usize| self.rows.iter().any(|row| row.get(column).is_some_and(|cell| !cell.is_empty()));
        let used: Vec<_> = (0..self.columns.len()).map(is_used).collect();
        for row in &mut self.rows {
            retain(row, &used);
        }
        retain(&mut self.columns, &used);
    }

    fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        let titles: Vec<_> = self.columns.iter().map(|column| column.title.clone()).collect();
        let lines = || std::iter::once(&titles).chain(&self.rows);
        let width = |column: usize| lines().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max();
        let mut widths: Vec<_> = (0..titles.len()).map(|column| width(column).unwrap_or(0)).collect();
        let is_text = |column: usize| self.columns.get(column).is_some_and(|it| !it.is_number);
        let all = fitted(&mut widths, is_text, limit().unwrap_or(usize::MAX));
        writeln!(out, "{}", self.title)?;
        for row in lines() {
            for columns in &all {
                self.write_line(row, columns, &widths, out)?;
            }
        }
        if self.left_out > 0 {
            writeln!(out, "  {} more", self.left_out)?;
        }
        writeln!(out)
    }

    /// Writes these columns of a row, in several lines if a cell is wider than its column.
    fn write_line(
        &self,
        row: &[String],
        columns: &Range<usize>,
        widths: &[usize],
        out: &mut impl Write,
    ) -> io::Result<()> {
        let begin = if columns.start == 0 { 0 } else { DEEPER };
        let row = row.iter().zip(widths).zip(&self.columns).take(columns.end).skip(columns.start);
        let cells: Vec<_> = row.map(|((cell, width), column)| (wrapped(cell, *width), width, column)).collect();
        for number in 0..cells.iter().map(|(cell, ..)| cell.len()).max().unwrap_or(0) {
            let pieces = cells.iter().map(|(cell, width, column)| {
                let piece = cell.get(number).map_or("", String::as_str);
                if column.is_number { format!("  {piece:>width$}") } else { format!("  {piece:width$}") }
            });
            writeln!(out, "{:begin$}{}", "", pieces.collect::<String>().trim_end())?;
        }
        Ok(())
    }

    fn write_markdown(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "### {}\n", in_markdown(&self.title))?;
        let titles = self.columns.iter().map(|column| in_markdown(&column.title));
        writeln!(out, "| {} |", titles.collect::<Vec<_>>().join(" | "))?;
        let rule = |column: &Heading| if column.is_number { "---:" } else { "---" };
        writeln!(out, "|{}|", self.columns.iter().map(rule).collect::<Vec<_>>().join("|"))?;
        for row in &self.rows {
            let cells: Vec<_> = row.iter().map(|cell| in_markdown(cell)).collect();
            writeln!(out, "| {} |", cells.join(" | "))?;
        }
        if self.left_out > 0 {
            writeln!(out, "\n{} more", self.left_out)?;
        }
        writeln!(out)
    }
}

fn retain<T>(values: &mut Vec<T>, used: &[bool]) {
    let mut used = used.iter();
    values.retain(|_| used.next().is_some_and(|&used| used));
}

/// Escapes characters that Markdown would format, such as the underscores in file names.
fn in_markdown(cell: &str) -> String {
    let mut text = String::with_capacity(cell.len());
    for letter in cell.chars() {
        if r"\`*_[]<>|~#&".contains(letter) {
            text.push('\\');
        }
        text.push(letter);
    }
    text
}

/// A readable size, in powers of 1024.
pub(crate) fn size(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// A number with the noun in its singular or plural form.
pub(crate) fn counted<N: Copy + Display + PartialEq + From<u8>>(number: N, one: &str, several: &str) -> String {
    format!("{number} {}", if number == N::from(1) { one } else { several })
}

/// A readable size; empty if it is unknown.
pub(crate) fn known_size(bytes: Option<u64>) -> String {
    bytes.map(size).unwrap_or_default()
}

/// The percentage of `whole` that `part` is; empty if `whole` is 0.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    // Tenths, rounded.
    let tenths = (u128::from(part) * 2000 + u128::from(whole)).checked_div(u128::from(whole) * 2);
    tenths.map(|tenths| format!("{}.{} %", tenths / 10, tenths % 10)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Style, Table, percent};

    fn written(style: Style) -> String {
        let mut table = Table::new("A_b", "name | size # | unknown #");
        table.row(["a_b.so".to_owned(), "1".to_owned(), String::new()]);
        table.row(["ä|c".to_owned(), "1234".to_owned(), String::new()]);
        let mut out = Vec::new();
        table.write(&mut out, style).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        assert_eq!(written(Style::Text), "A_b\n  name    size\n  a_b.so     1\n  ä|c     1234\n\n");
    }

    #[test]
    fn markdown_shows_names_as_they_are() {
        let expected = "### A\\_b\n\n| name | size |\n|---|---:|\n| a\\_b.so | 1 |\n| ä\\|c | 1234 |\n\n";
        assert_eq!(written(Style::Markdown), expected);
    }

    #[test]
    fn names_forge_no_rows() {
        for style in [Style::Text, Style::Markdown] {
            let mut table = Table::new("Split of a\nb", "name | size #");
            table.row(["x.so\n  evil.so  1\n\u{1b}[2J".to_owned(), "2".to_owned()]);
            let mut out = Vec::new();
            table.write(&mut out, style).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert!(
                !text.contains('\u{1b}') && text.lines().filter(|line| line.contains("evil")).count() == 1,
                "{text}"
            );
            assert!(text.lines().all(|line| !line.trim_start().starts_with("evil")), "{text}");
        }
    }

    #[test]
    fn no_rows_no_table() {
        let mut out = Vec::new();
        Table::new("Files", "name").write(&mut out, Style::Text).unwrap();
        assert!(out.is_empty());
    }

    #[test]
    fn percentages() {
        assert_eq!((percent(1, 3), percent(2, 3), percent(5, 5)), ("33.3 %".into(), "66.7 %".into(), "100.0 %".into()));
        assert_eq!((percent(0, 0), percent(u64::MAX, u64::MAX)), (String::new(), "100.0 %".into()));
    }
}
