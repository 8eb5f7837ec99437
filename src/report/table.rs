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
    pub(crate) title: String,
    pub(crate) columns: Vec<Heading>,
    pub(crate) rows: Vec<Vec<TableCell>>,
    /// Number of rows that are not shown.
    pub(crate) left_out: usize,
}

/// The heading of a column.
#[derive(Debug)]
pub(crate) struct Heading {
    pub(crate) title: String,
    pub(crate) is_number: bool,
    /// Whether pages show the column, and nothing else does.
    is_detail: bool,
}

/// A cell.
#[derive(Debug)]
pub(crate) struct TableCell {
    pub(crate) text: String,
    /// The exact number, by which pages sort.
    pub(crate) number: Option<i128>,
    /// What its row is marked as in a page.
    pub(crate) mark: Option<&'static str>,
}

impl<T: Into<String>> From<T> for TableCell {
    fn from(text: T) -> Self {
        Self { text: text.into(), number: None, mark: None }
    }
}

impl TableCell {
    /// A number.
    pub(crate) fn number(number: impl Copy + Display + TryInto<i128>) -> Self {
        Self { number: number.try_into().ok(), ..Self::from(number.to_string()) }
    }

    /// A size; without text if it is unknown.
    pub(crate) fn size(bytes: Option<u64>) -> Self {
        Self { number: bytes.map(i128::from), ..Self::from(known_size(bytes)) }
    }

    /// The same, without text if it is zero.
    pub(crate) fn unless_zero(self) -> Self {
        if self.number == Some(0) { Self { text: String::new(), ..self } } else { self }
    }
}

impl Table {
    /// A table without rows. `columns` has the titles, separated by `|`. Those that end with `#` are of numbers, which are
    /// right-aligned. Those that begin with `+` are for pages only.
    pub(crate) fn new(title: impl Into<String>, columns: &str) -> Self {
        let heading = |column: &str| {
            let (detail, number) = (column.trim().strip_prefix('+'), column.trim().ends_with('#'));
            let title = detail.unwrap_or(column).trim().trim_end_matches('#').trim_end().to_owned();
            Heading { title, is_number: number, is_detail: detail.is_some() }
        };
        Self { title: title.into(), columns: columns.split('|').map(heading).collect(), rows: Vec::new(), left_out: 0 }
    }

    /// A table with a row for each item.
    pub(crate) fn of<T, R: IntoIterator<Item: Into<TableCell>>>(
        title: impl Into<String>,
        columns: &str,
        items: impl IntoIterator<Item = T>,
        row: impl Fn(T) -> R,
    ) -> Self {
        let mut table = Self::new(title, columns);
        items.into_iter().for_each(|item| table.row(row(item)));
        table
    }

    /// Adds a left-aligned column whose title comes from the input or the user.
    pub(crate) fn add_column(&mut self, title: &str) {
        self.columns.push(Heading { title: escaped(title).into_owned(), is_number: false, is_detail: false });
    }

    /// The table with another title of a column.
    pub(crate) fn renamed(mut self, old: &str, new: &str) -> Self {
        if let Some(column) = self.columns.iter_mut().find(|column| column.title == old) {
            new.clone_into(&mut column.title);
        }
        self
    }

    /// Adds a row with a cell for each column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item: Into<TableCell>>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Keeps only the first rows, and counts the others.
    pub(crate) fn shorten(&mut self, most: usize) {
        self.left_out += self.rows.len().saturating_sub(most);
        self.rows.truncate(most);
    }

    /// Writes the table without empty columns. Writes nothing if there are no rows.
    pub(crate) fn write(mut self, out: &mut impl Write, style: Style) -> io::Result<()> {
        self.drop_columns(false);
        if self.rows.is_empty() {
            return Ok(());
        }
        self.title = escaped(&self.title).into_owned();
        for cell in self.rows.iter_mut().flatten() {
            cell.text = escaped(&cell.text).into_owned();
        }
        match style {
            Style::Text => self.write_text(out),
            Style::Markdown => self.write_markdown(out),
        }
    }

    /// Drops the columns without text, and unless there shall be `details` those for pages only.
    pub(crate) fn drop_columns(&mut self, details: bool) {
        let has_text =
            |column: usize| self.rows.iter().any(|row| row.get(column).is_some_and(|it| !it.text.is_empty()));
        let is_used = |(number, column): (usize, &Heading)| (details || !column.is_detail) && has_text(number);
        let used: Vec<_> = self.columns.iter().enumerate().map(is_used).collect();
        for row in &mut self.rows {
            retain(row, &used);
        }
        retain(&mut self.columns, &used);
    }

    fn write_text(&self, out: &mut impl Write) -> io::Result<()> {
        let titles: Vec<_> = self.columns.iter().map(|column| TableCell::from(&*column.title)).collect();
        let lines = || std::iter::once(&titles).chain(&self.rows);
        let width =
            |column: usize| lines().filter_map(|line| line.get(column)).map(|cell| cell.text.chars().count()).max();
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
        row: &[TableCell],
        columns: &Range<usize>,
        widths: &[usize],
        out: &mut impl Write,
    ) -> io::Result<()> {
        let begin = if columns.start == 0 { 0 } else { DEEPER };
        let row = row.iter().zip(widths).zip(&self.columns).take(columns.end).skip(columns.start);
        let cells: Vec<_> = row.map(|((cell, width), column)| (wrapped(&cell.text, *width), width, column)).collect();
        for number in 0..cells.iter().map(|(cell, ..)| cell.len()).max().unwrap_or(0) {
            let pieces = cells.iter().map(|(cell, width, column)| {
                let piece = cell.get(number).map_or("", String::as_str);
                if column.is_number { format!("  {piece:>width$}") } else { format!("  {piece:width$}") }
            });
            let line = pieces.collect::<String>();
            // What a row goes on with may be empty.
            if begin == 0 || !line.trim_end().is_empty() {
                writeln!(out, "{:begin$}{}", "", line.trim_end())?;
            }
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
            let cells: Vec<_> = row.iter().map(|cell| in_markdown(&cell.text)).collect();
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

/// The percentage of `whole` that `part` is; empty if one of them is unknown, or `whole` is 0.
pub(crate) fn percent(part: impl Into<Option<u64>>, whole: impl Into<Option<u64>>) -> String {
    // Tenths, rounded.
    let tenths = |(part, whole)| (u128::from(part) * 2000 + u128::from(whole)).checked_div(u128::from(whole) * 2);
    part.into()
        .zip(whole.into())
        .and_then(tenths)
        .map(|tenths| format!("{}.{} %", tenths / 10, tenths % 10))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{Style, Table, TableCell, percent};

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
    fn rows_go_on_with_texts_only() {
        let table = Table::new("Parts", "part | files");
        let mut out = Vec::new();
        for row in [["host", "x.so"], ["gfx942", ""]].map(|row| row.map(TableCell::from)) {
            for columns in [0..1, 1..2] {
                table.write_line(&row, &columns, &[6, 4], &mut out).unwrap();
            }
        }
        assert_eq!(String::from_utf8(out).unwrap(), "  host\n    x.so\n  gfx942\n");
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
