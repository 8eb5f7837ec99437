//! The tables with all numbers.

use maud::{Markup, html};

use super::cells::{bytes, columns, count, ratio, section, table};
use super::{Page, shown};
use crate::split::Fate;

/// The most rows of the table of code that stays.
const MAX_ROWS: usize = 200;

impl Page {
    pub(super) fn libraries(&self) -> Markup {
        let head = columns(
            "fat binary | original # | host # | saved # | of it # | wrappers # | code objects # | code # | targets #",
        );
        let binaries = &self.report.summary.binaries;
        let body = html! {
            @for binary in binaries {
                @let saved = binary.size.saturating_sub(binary.host_size);
                tr {
                    th scope="row" { (shown(&binary.path)) }
                    (bytes(Some(binary.size))) (bytes(Some(binary.host_size)))
                    (bytes(Some(saved))) (ratio(Some(saved), Some(binary.size)))
                    (count(binary.wrappers)) (count(binary.code_objects)) (bytes(Some(binary.code_size)))
                    (count(binary.targets.len()))
                }
            }
            @if self.folded.binaries > 0 {
                @let saved = self.folded.size.saturating_sub(self.folded.host_size);
                tr.others {
                    th scope="row" { (self.folded.binaries) " smaller ones" }
                    (bytes(Some(self.folded.size))) (bytes(Some(self.folded.host_size)))
                    (bytes(Some(saved))) (ratio(Some(saved), Some(self.folded.size)))
                    td {} (count(self.folded.code_objects)) (bytes(Some(self.folded.code_size))) td {}
                }
            }
        };
        let table = table("libraries", "Binaries with device code, the largest first", &head, &body);
        section("libraries", "Fat binaries", !binaries.is_empty(), &table)
    }

    pub(super) fn layers(&self) -> Markup {
        let head = columns(
            "layer | blob # | files # | hidden by later layers # | device code # | one GPU can do without # | of it #",
        );
        let layers = &self.report.layers;
        let body = html! { @for (number, layer) in layers.iter().enumerate() {
            @let unneeded = layer.unneeded_size();
            tr {
                th scope="row" { (number) " " (shown(&layer.short_command())) }
                (bytes(Some(layer.blob_size))) (bytes(Some(layer.size))) (bytes(Some(layer.hidden_size)))
                (bytes(Some(layer.device_size))) (bytes(Some(unneeded))) (ratio(Some(unneeded), Some(layer.size)))
            }
        } };
        let table = table("layers", "Layers of the image, the lowest first", &head, &body);
        section("layers", "Layers", !layers.is_empty(), &table)
    }

    pub(super) fn device_code(&self) -> Markup {
        let head = columns("file | code | pieces # | size # | targets | why it stays");
        let all = self.report.device_code.as_deref().unwrap_or_default();
        let staying: Vec<_> = all.iter().filter(|code| code.fate == Fate::Stays).collect();
        let body = html! { @for code in staying.iter().take(MAX_ROWS) { tr {
            th scope="row" { (shown(&code.path)) }
            td { (code.kind()) }
            (count(usize::try_from(code.pieces).unwrap_or(usize::MAX))) (bytes(Some(code.size)))
            td { (shown(&code.amounts())) }
            td { (shown(code.reason.as_deref().unwrap_or_default())) }
        } } };
        let about = html! {
            p { "No wrapper leads to it, so it is in every part and view that has the file." }
            (table("device-code", "Device code in other forms", &head, &body))
        };
        section("device-code", "Device code that stays in the host part", !staying.is_empty(), &about)
    }

    pub(super) fn packages(&self) -> Markup {
        let head = columns("package | files # | size # | host part # | device code in binaries # | databases #");
        let body = html! { @for package in &self.details.packages { tr {
            th scope="row" { @match package.name.as_deref() {
                None => "all others",
                Some(".") => "files in no directory",
                Some(name) => (shown(name)),
            } }
            td.n data-v=(package.files) { data value=(package.files) { (package.files) } }
            (bytes(Some(package.size))) (bytes(Some(package.host_size))) (bytes(Some(package.device_size)))
            (bytes(Some(package.databases.values().sum())))
        } } };
        section(
            "packages",
            "Packages",
            true,
            &table("packages", "Top-level directories, the largest first", &head, &body),
        )
    }

    pub(super) fn parts(&self) -> Markup {
        let (summary, sizes) = (&self.report.summary, &self.report.sizes);
        let head = columns(
            "part | level # | archives # | code objects # | code # | archive size # | database files # | database size # | wheel size #",
        );
        let body = html! { @for (key, device) in &summary.device {
            @let sizes = sizes.parts.get(key);
            tr {
                th scope="row" { (shown(key)) }
                td.n { (device.level) }
                (count(device.archives.len()))
                (count(device.archives.iter().map(|archive| archive.code_objects).sum()))
                (bytes(Some(device.archives.iter().map(|archive| archive.code_size).sum())))
                (bytes(sizes.and_then(|part| part.archive_size)))
                (count(device.database_files)) (bytes(Some(device.database_size)))
                (bytes(sizes.and_then(|part| part.wheel.as_ref()?.size)))
            }
        } };
        let table = table("parts", "Device parts of the split", &head, &body);
        section("parts", "Device parts", !summary.device.is_empty(), &table)
    }

    pub(super) fn warnings(&self) -> Markup {
        let warnings = &self.report.summary.warnings;
        let list = html! { ul.warnings {
            @for warning in warnings { li { (shown(warning)) } }
            @if self.folded.warnings > 0 { li { (self.folded.warnings) " more" } }
        } };
        section("warnings", "Warnings", !warnings.is_empty(), &list)
    }
}
