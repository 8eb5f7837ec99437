//! The page of a comparison.

use maud::{Markup, html};

use super::bars::{Bar, bars};
use super::cells::{MAX_ROWS, Pictures, left_out, listed, reported, section};
use super::sections::kind;
use super::{document, shown};
use crate::diff::{Changes, Diff, Pair, growth, whose};
use crate::report::table::{Table, size};

/// The most letters of a kernel's name in a table.
const LONGEST_NAME: usize = 200;

impl Diff {
    /// The comparison as a page.
    pub(crate) fn html(&self) -> String {
        let Pair { before, after } = &self.inputs;
        let title = html! { (shown(&before.name)) " → " (shown(&after.name)) };
        document(&title, &self.body(&title), self)
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
                (listed("kernels", "Kernels by symbol, summed up over the targets for which they are different", self.kernels_table(LONGEST_NAME)))
                (listed("databases", "Files of databases by library and part", self.databases_table(true)))
                (listed("packages", "Top-level directories, the largest change first", self.packages_table(true)))
                (listed("members", "Files and symlinks, the largest change first", self.members_table()))
                (listed("metadata", "Fields that are different", self.metadata_table()))
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
        let bars = self.downloads.iter().map(|(name, it)| {
            let class = |class| if it.is_estimate { "k-estimate" } else { class };
            let sizes = [it.before.unwrap_or(0), it.after.unwrap_or(0)];
            pair_bars(whose(name), most, sizes, class("k-rest"), class(kind(name)))
        });
        let table = pictured("downloads", "Bytes that are downloaded, by GPU", self.downloads_table(true), bars);
        html! {
            (table)
            @if self.downloads.values().any(|it| it.is_estimate) {
                p.note { "Estimates are sizes of thin wheels. They assume that code is equally compressible for all GPUs; " code { "--sizes" } " computes the sizes of host and device wheels." }
            }
        }
    }

    fn page_targets(&self) -> Markup {
        let most = self.targets.values().flat_map(|it| [it.code.before.size, it.code.after.size]).max().unwrap_or(0);
        let bars = self
            .targets
            .iter()
            .map(|(name, it)| pair_bars(name, most, [it.code.before.size, it.code.after.size], "k-rest", kind(name)));
        pictured("targets", "Uncompressed device code and databases by target", self.targets_table(true), bars)
    }

    fn page_libraries(&self) -> Markup {
        let table = self.libraries_table(true).renamed("equal objects", "equal objects %");
        let table = table.renamed("equal kernels", "equal kernels %");
        listed("libraries", "Libraries with device code, the largest change first", table)
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

/// A section with a table under its title, with a picture for each row; nothing if the table has no rows.
fn pictured(id: &str, caption: &str, mut table: Table, pictures: impl Iterator<Item = Markup>) -> Markup {
    table.shorten(MAX_ROWS);
    let pictures = Pictures { title: "before and after", of_rows: &pictures.take(MAX_ROWS).collect::<Vec<_>>() };
    let body = reported(id, caption, &mut table, pictures);
    section(id, &table.title, !table.rows.is_empty(), &body)
}

fn pair_bars(name: &str, most: u64, sizes: [u64; 2], old: &'static str, new: &'static str) -> Markup {
    let [before, after] = sizes;
    let bar = |kind, name, size| Bar { whole: most, segments: vec![(kind, name, size)] };
    bars(&format!("{name}: before and after"), &[bar(old, "before", before), bar(new, "after", after)])
}
