//! The page of a comparison.

use maud::{Markup, html};
use serde::Serialize;

use super::bars::{Bar, bars};
use super::cells::{bytes, columns, count, section, table};
use super::sections::kind;
use super::{document, shortened, shown};
use crate::diff::{Amount, Change, Changes, Diff, MetadataChange, Pair, growth};
use crate::report::table::size;
use crate::view::JSON_VERSION;

/// The most rows of a table. The JSON has the rest.
const MAX_ROWS: usize = 200;

/// The most letters of a kernel's name in a table.
const LONGEST_NAME: usize = 200;

/// The columns of [`counts`] for code objects and for kernels.
const COUNTS: &str =
    "equal objects # | changed # | added # | removed # | equal kernels # | changed # | added # | removed #";

/// The JSON in the page: the same as that of `diff`.
#[derive(Serialize)]
struct DiffData<'a> {
    json_version: u32,
    #[serde(flatten)]
    diff: &'a Diff,
}

impl Diff {
    /// The comparison as a page.
    pub(crate) fn html(&self) -> String {
        let Pair { before, after } = &self.inputs;
        let title = html! { (shown(&before.name)) " → " (shown(&after.name)) };
        document(&title, &self.body(&title), &DiffData { json_version: JSON_VERSION, diff: self })
    }

    fn body(&self, title: &Markup) -> Markup {
        html! {
            header {
                h1 { (title) }
                p.lead { (shown(&self.sentence())) }
                @if let Some(gate) = &self.gate {
                    p class={ "gate " (if gate.is_passed() { "passed" } else { "failed" }) } role="status" {
                        strong { (if gate.is_passed() { "Passed: " } else { "Failed: " }) } (shown(&gate.sentence))
                    }
                }
                (self.tiles())
            }
            main {
                (self.page_downloads())
                (self.page_targets())
                (self.page_libraries())
                (self.page_kernels())
                (self.page_databases())
                (self.page_packages())
                (self.page_members())
                @if let Some(metadata) = &self.metadata { (page_metadata(metadata)) }
                (self.page_warnings())
            }
            footer {
                p { "Made by kpackfs " (env!("CARGO_PKG_VERSION")) ". Code objects are equal if all of their bytes are equal; kernels if their names and code sizes in the symbol tables are equal. Exact numbers are in the JSON of this file (" code { "script#data" } ") and in " code { "kpackfs diff --json" } "." }
            }
        }
    }

    fn tiles(&self) -> Markup {
        let Pair { before, after } = &self.inputs;
        let tile = |title: &str, old: u64, new: u64| html! { div { dt { (title) } dd { (size(new)) small { (growth(old, new)) } } } };
        let equal = |title: &str, changes: &Changes| {
            html! {
                @if let Some(share) = changes.equal() { div { dt { (title) } dd { (share) small { (changes.same.count) " of " (changes.after().count) } } } }
            }
        };
        html! {
            dl.tiles {
                (tile("host part", before.host_size, after.host_size))
                (tile("device code", before.code.size, after.code.size))
                (tile("kernel databases", before.databases.size, after.databases.size))
                (equal("equal code objects", &self.code_objects))
                (equal("kernels equal by symbol", &self.kernels))
                (equal("equal files", &self.members.all))
            }
        }
    }

    fn page_downloads(&self) -> Markup {
        let most = self.downloads.values().flat_map(|it| [it.before, it.after]).flatten().max().unwrap_or(0);
        let head = columns("GPU | before and after | before # | after # | change # | note");
        let body = html! { @for (name, it) in &self.downloads {
            @let label = if name == "all" { "all (fat)" } else { name };
            @let class = |class| if it.is_estimate { "k-estimate" } else { class };
            tr {
                th scope="row" { (shown(label)) }
                td.picture { (pair_bars(label, most, [it.before.unwrap_or(0), it.after.unwrap_or(0)], class("k-rest"), class(kind(name)))) }
                (bytes(it.before)) (bytes(it.after)) (change(it.before, it.after))
                td { @if it.is_estimate { "estimate" } }
            }
        } };
        section(
            "downloads",
            "What a user downloads",
            !self.downloads.is_empty(),
            &html! {
                (table("downloads", "Bytes that are downloaded, by GPU", &head, &body))
                @if self.downloads.values().any(|it| it.is_estimate) {
                    p.note { "Estimates are sizes of thin wheels. They assume that code is equally compressible for all GPUs; " code { "--sizes" } " computes the sizes of host and device wheels." }
                }
            },
        )
    }

    fn page_targets(&self) -> Markup {
        let most = self.targets.values().flat_map(|it| [it.code.before.size, it.code.after.size]).max().unwrap_or(0);
        let has_databases = !self.databases.is_empty();
        let head = html! {
            (columns("target | code before and after | code before # | code after #"))
            @if has_databases { (columns("databases before # | databases after #")) }
            (columns("change #")) (columns(COUNTS))
        };
        let body = html! { @for (name, it) in &self.targets {
            @let [before, after] = [(it.code.before, it.databases.before), (it.code.after, it.databases.after)]
                .map(|(code, databases)| code.size.saturating_add(databases.size));
            tr {
                th scope="row" { (shown(name)) }
                td.picture { (pair_bars(name, most, [it.code.before.size, it.code.after.size], "k-rest", kind(name))) }
                (amount(it.code.before)) (amount(it.code.after))
                @if has_databases { (amount(it.databases.before)) (amount(it.databases.after)) }
                (change(Some(before), Some(after))) (counts(&it.code_objects)) (counts(&it.kernels))
            }
        } };
        section(
            "targets",
            "Targets",
            !self.targets.is_empty(),
            &table("targets", "Uncompressed device code and databases by target", &head, &body),
        )
    }

    fn page_libraries(&self) -> Markup {
        let sizes = "library | host before # | host after # | change # | code before # | code after # | change #";
        let head = html! { (columns(sizes)) (columns(COUNTS)) };
        let body = html! {
            @for library in self.libraries.iter().take(MAX_ROWS) {
                @let code = library.code();
                tr class=[mark(library.change)] {
                    th scope="row" { (shown(&library.path)) }
                    (bytes(library.host_size.before)) (bytes(library.host_size.after)) (change(library.host_size.before, library.host_size.after))
                    (amount(code.before)) (amount(code.after)) (amounts(code))
                    (counts(&library.code_objects)) (counts(&library.kernels))
                }
            }
        };
        section(
            "libraries",
            "Libraries with device code",
            !self.libraries.is_empty(),
            &html! {
                (table("libraries", "Libraries with device code, the largest change first", &head, &body))
                (left_out(self.libraries.len().saturating_sub(MAX_ROWS)))
            },
        )
    }

    fn page_kernels(&self) -> Markup {
        let head = columns("kernel | what | before # | after # | change # | targets # | library");
        let body = html! { @for kernel in self.changed_kernels.iter().take(MAX_ROWS) { tr class=[mark(kernel.change)] {
            th.long scope="row" { (shortened(shown(&kernel.name), LONGEST_NAME)) }
            td { (kernel.change.into_str()) }
            (amount(kernel.before)) (amount(kernel.after)) (amounts(Pair { before: kernel.before, after: kernel.after }))
            (count(kernel.targets.len())) td.long { (shown(&kernel.library)) }
        } } };
        section(
            "kernels",
            "Kernels with the largest changes",
            !self.changed_kernels.is_empty(),
            &html! {
                (table("kernels", "Kernels by symbol, summed up over the targets for which they are different", &head, &body))
                (left_out(self.changed_kernels.len().saturating_sub(MAX_ROWS) + self.more_changed_kernels))
            },
        )
    }

    fn page_databases(&self) -> Markup {
        let head = columns("database | part # | files before # | files after # | before # | after # | change #");
        let body = html! { @for (library, keys) in &self.databases { @for (key, pair) in keys { tr {
            th scope="row" { (shown(library)) } td.n { (shown(key)) }
            (number(pair.before.count)) (number(pair.after.count))
            (amount(pair.before)) (amount(pair.after)) (amounts(*pair))
        } } } };
        section(
            "databases",
            "Kernel databases",
            !self.databases.is_empty(),
            &table("databases", "Files of databases by library and part", &head, &body),
        )
    }

    fn page_packages(&self) -> Markup {
        let head = columns(
            "package | files before # | files after # | host before # | host after # | change # | code before # | \
            code after # | databases before # | databases after #",
        );
        let body = html! { @for it in self.packages.iter().take(MAX_ROWS) { tr {
            th scope="row" { @if it.name == "." { "files in no directory" } @else { (shown(&it.name)) } }
            (number(it.files.before.count)) (number(it.files.after.count))
            (bytes(Some(it.host_size.before))) (bytes(Some(it.host_size.after))) (change(Some(it.host_size.before), Some(it.host_size.after)))
            (amount(it.code.before)) (amount(it.code.after)) (amount(it.databases.before)) (amount(it.databases.after))
        } } };
        section(
            "packages",
            "Packages",
            true,
            &html! {
                (table("packages", "Top-level directories, the largest change first", &head, &body))
                (left_out(self.packages.len().saturating_sub(MAX_ROWS)))
            },
        )
    }

    fn page_members(&self) -> Markup {
        let head = columns("file | what | before # | after # | change #");
        let body = html! { @for it in self.members.list.iter().take(MAX_ROWS) { tr class=[mark(it.change)] {
            th.long scope="row" { (shown(&it.path)) } td { (it.change.into_str()) }
            (bytes(it.before)) (bytes(it.after)) (change(it.before, it.after))
        } } };
        section(
            "members",
            "Files that are different",
            !self.members.list.is_empty(),
            &html! {
                (table("members", "Files and symlinks, the largest change first", &head, &body))
                (left_out(self.members.list.len().saturating_sub(MAX_ROWS) + self.members.more))
            },
        )
    }

    fn page_warnings(&self) -> Markup {
        section(
            "warnings",
            "Warnings",
            !self.warnings.is_empty(),
            &html! {
                ul.warnings { @for warning in self.warnings.iter().take(MAX_ROWS) { li { (shown(warning)) } } }
                (left_out(self.warnings.len().saturating_sub(MAX_ROWS)))
            },
        )
    }
}

fn page_metadata(metadata: &MetadataChange) -> Markup {
    let Pair { before, after } = &metadata.version;
    let list = |title: &str, values: &[String]| {
        html! { @if !values.is_empty() {
            h3 { (title) }
            ul.warnings { @for value in values.iter().take(MAX_ROWS) { li { code { (shown(value)) } } } }
            (left_out(values.len().saturating_sub(MAX_ROWS)))
        } }
    };
    section(
        "metadata",
        "Metadata",
        metadata.is_different() || before != after,
        &html! {
            p { (shown(&metadata.name.before)) " " (shown(before)) " → " (shown(&metadata.name.after)) " " (shown(after)) }
            @if metadata.requires_python.before != metadata.requires_python.after {
                p { "Requires-Python: " (shown(metadata.requires_python.before.as_deref().unwrap_or("any"))) " → " (shown(metadata.requires_python.after.as_deref().unwrap_or("any"))) }
            }
            (list("Requirements added", &metadata.requirements_added))
            (list("Requirements removed", &metadata.requirements_removed))
            (list("Extras added", &metadata.extras_added))
            (list("Extras removed", &metadata.extras_removed))
        },
    )
}

fn pair_bars(name: &str, most: u64, sizes: [u64; 2], old: &'static str, new: &'static str) -> Markup {
    let [before, after] = sizes;
    let bar = |kind, name, size| Bar { whole: most, segments: vec![(kind, name, size)] };
    bars(&format!("{name}: before and after"), &[bar(old, "before", before), bar(new, "after", after)])
}

fn amount(amount: Amount) -> Markup {
    bytes((amount.count > 0).then_some(amount.size))
}

fn number(number: u64) -> Markup {
    html! { td.n data-v=(number) { data value=(number) { (number) } } }
}

/// A cell with a change, sorted by bytes.
fn change(before: Option<u64>, after: Option<u64>) -> Markup {
    let Some((before, after)) = before.zip(after) else { return html! { td.n {} } };
    let distance = i128::from(after) - i128::from(before);
    html! { td.n data-v=(distance) { (growth(before, after)) } }
}

/// Like [`change`], for items that may be missing.
fn amounts(pair: Pair<Amount>) -> Markup {
    change(Some(pair.before.size), Some(pair.after.size))
}

/// Cells for equal, changed, added and removed.
fn counts(changes: &Changes) -> Markup {
    html! { @for amount in [changes.same, changes.changed.after, changes.added, changes.removed] { (number(amount.count)) } }
}

fn mark(change: Change) -> Option<&'static str> {
    match change {
        Change::Added => Some("added"),
        Change::Removed => Some("removed"),
        Change::Same | Change::Changed => None,
    }
}

fn left_out(rows: usize) -> Markup {
    html! { @if rows > 0 { p.note { (rows) " more are in the JSON, or counted there." } } }
}
