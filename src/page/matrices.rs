//! Tables with coloured cells, which make gaps visible: libraries by target, databases by key.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::bars::{Bar, bars};
use super::cells::{Pictures, reported, section, table};
use super::sections::kind;
use super::{Page, shown};
use crate::report::table::{Table, TableCell, percent, size};

/// The most rows and columns of a matrix. The JSON has the rest.
const MAX_ROWS: usize = 100;
const MAX_COLUMNS: usize = 64;

/// The cells of a row by column: bytes, and a number of items.
type MatrixRow<'a> = (&'a str, BTreeMap<&'a str, (u64, u64)>);

/// A table of bytes, with a number of `things` in each cell. `parts` are the columns whose code is in a part of another
/// name.
fn matrix(
    id: &str,
    caption: &str,
    first: &str,
    things: &str,
    rows: &[MatrixRow<'_>],
    parts: &BTreeMap<&str, &str>,
) -> Markup {
    let mut columns = BTreeMap::<&str, u64>::new();
    for (column, (bytes, _)) in rows.iter().flat_map(|(_, cells)| cells) {
        *columns.entry(column).or_default() += bytes;
    }
    let most = rows.iter().flat_map(|(_, cells)| cells.values()).map(|(bytes, _)| *bytes).max().unwrap_or(0);
    let columns: Vec<_> = columns.into_iter().take(MAX_COLUMNS).collect();
    let head = html! {
        th scope="col" { (first) }
        th.n scope="col" { "all" }
        @for (column, _) in &columns { th.n scope="col" {
            (shown(column)) @if let Some(part) = parts.get(column) { small.part { "in " (shown(part)) } }
        } }
    };
    let body = html! {
        @for (name, cells) in rows {
            tr {
                th scope="row" { (shown(name)) }
                @let all = cells.values().map(|(bytes, _)| bytes).sum();
                td.n data-v=(all) { data value=(all) { (size(all)) } }
                @for (column, _) in &columns {
                    @match cells.get(column) {
                        Some((bytes, number)) => {
                            td class={ "n heat-" (heat(*bytes, most)) } data-v=(bytes) {
                                data value=(bytes) { (size(*bytes)) } br;
                                small { data.number value=(number) { (number) } " " (things) }
                            }
                        }
                        None => td.hole { span aria-label="nothing" { "–" } }
                    }
                }
            }
        }
    };
    table(id, caption, &head, &body)
}

/// The shade of a cell, 0 to 5. Each step is a factor of four.
fn heat(bytes: u64, most: u64) -> u32 {
    let steps = (0..5).take_while(|step| bytes < most >> (2 * (step + 1))).count();
    5 - u32::try_from(steps).unwrap_or(5)
}

impl Page {
    /// Libraries by target.
    pub(super) fn matrix(&self) -> Markup {
        let rows: Vec<MatrixRow<'_>> = self
            .report
            .summary
            .binaries
            .iter()
            .take(MAX_ROWS)
            .map(|binary| {
                let code = self.details.code.get(&binary.path).into_iter().flatten();
                let cells = code.map(|(target, code)| (target.as_str(), (code.code_size, code.code_objects)));
                (binary.path.as_str(), cells.collect())
            })
            .collect();
        let parts = self.folded_targets();
        let left = self.report.summary.binaries.len() + self.folded.binaries - rows.len();
        let body = html! {
            (matrix("matrix", "Uncompressed code and code objects by library and target; – where there is none", "library", "obj.", &rows, &parts))
            @if !parts.is_empty() { p.note {
                "In a part of another name, which their users install: "
                @for (number, (target, part)) in parts.iter().take(MAX_COLUMNS).enumerate() {
                    @if number > 0 { ", " } (shown(target)) " in " (shown(part))
                }
                @if parts.len() > MAX_COLUMNS { ", and " (parts.len() - MAX_COLUMNS) " more" } "."
            } }
            @if left > 0 { p.note { (left) " smaller libraries are not shown." } }
        };
        section("matrix", "Which library has code for which target", !rows.is_empty(), &body)
    }

    /// The targets whose code is in a device part of another name: that of the processor without features, or of a
    /// family.
    fn folded_targets(&self) -> BTreeMap<&str, &str> {
        let code = self.details.code.values().flatten();
        code.map(|(target, code)| (target.as_str(), code.key.as_str())).filter(|(target, key)| target != key).collect()
    }

    /// The compression of the code of each key.
    pub(super) fn compression(&self) -> Markup {
        let (summary, sizes) = (&self.report.summary, &self.report.sizes);
        let rows: Vec<_> = summary
            .device
            .iter()
            .filter_map(|(key, device)| {
                let code: u64 = device.archives.iter().map(|archive| archive.code_size).sum();
                let archive = sizes.parts.get(key)?.archive_size.filter(|_| code > 0)?;
                Some((key, code, archive))
            })
            .collect();
        let most = rows.iter().map(|(_, code, _)| *code).max().unwrap_or(0);
        let bar = |size, kind, name| Bar { whole: most, segments: vec![(kind, name, size)] };
        let pictures = rows.iter().map(|(key, code, archive)| {
            let pair = [bar(*code, "k-rest", "code"), bar(*archive, kind(key), "archives")];
            bars(&format!("{key}: code and archives"), &pair)
        });
        let columns = "part | code # | archives # | archives of code #";
        let mut table = Table::of("Compression by architecture", columns, &rows, |(key, code, archive)| {
            let share = percent(*archive, *code);
            [key.as_str().into(), TableCell::size(Some(*code)), TableCell::size(Some(*archive)), share.into()]
        });
        let pictures = Pictures { title: "code and archives", of_rows: &pictures.collect::<Vec<_>>() };
        let caption = "Code objects before compression, and archives with them";
        let body = reported("compression", caption, &mut table, pictures);
        section("compression", &table.title, !rows.is_empty(), &body)
    }

    /// Databases by library and key.
    pub(super) fn databases(&self) -> Markup {
        let rows: Vec<MatrixRow<'_>> = self
            .details
            .database_files
            .iter()
            .map(|(library, keys)| {
                (library.as_str(), keys.iter().map(|(key, files)| (key.as_str(), (files.size, files.files))).collect())
            })
            .collect();
        let tables = html! {
            (matrix("database-matrix", "Database files by library and part; – where there are none", "database", "files", &rows, &BTreeMap::new()))
            (reported("databases", "Databases by library", &mut self.report.databases(), Pictures::default()))
        };
        section("databases", "Kernel databases", !rows.is_empty(), &tables)
    }
}
