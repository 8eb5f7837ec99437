//! The tables with all numbers.

use maud::{Markup, html};

use super::cells::{Pictures, listed, reported, section};
use super::{Folded, Page, shown};
use crate::report::table::{Table, TableCell, percent};
use crate::report::{CodeSummary, LayerSummary};

impl Page {
    pub(super) fn libraries(&self) -> Markup {
        let mut table = self.report.binaries().renamed("%", "of it");
        let Folded { binaries, size, host_size, code_objects, code_size, .. } = self.folded;
        if binaries > 0 {
            let saved = size.saturating_sub(host_size);
            let [size, host_size, code] = [size, host_size, code_size].map(|size| TableCell::size(Some(size)));
            let (name, share) = (format!("{binaries} smaller ones"), percent(saved, self.folded.size));
            let (saved, objects) = (TableCell::size(Some(saved)), TableCell::number(code_objects));
            table.row([name.into(), size, host_size, saved, share.into(), "".into(), objects, code, "".into()]);
        }
        let rows =
            reported("libraries", "Binaries with device code, the largest first", &mut table, Pictures::default());
        section("libraries", &table.title, !table.rows.is_empty(), &rows)
    }

    pub(super) fn layers(&self) -> Markup {
        listed("layers", "Layers of the image, the lowest first", LayerSummary::table(&self.report.layers))
    }

    pub(super) fn device_code(&self) -> Markup {
        let all = self.report.device_code.as_deref().unwrap_or_default();
        let caption =
            "Device code in other forms. No wrapper leads to it, so it is in every part and view that has the file";
        listed("device-code", caption, CodeSummary::table(all))
    }

    pub(super) fn packages(&self) -> Markup {
        let columns = "package | files # | size # | host part # | device code in binaries # | databases #";
        let table = Table::of("Packages", columns, &self.details.packages, |package| {
            let name = match package.name.as_deref() {
                None => "all others",
                Some(".") => "files in no directory",
                Some(name) => name,
            };
            let sizes = [package.size, package.host_size, package.device_size, package.databases.values().sum()];
            [name.into(), TableCell::number(package.files)]
                .into_iter()
                .chain(sizes.map(|size| TableCell::size(Some(size))))
        });
        listed("packages", "Top-level directories, the largest first", table)
    }

    pub(super) fn parts(&self) -> Markup {
        let table = Table { title: "Device parts".to_owned(), ..self.report.keys().renamed("key", "part") };
        listed("parts", "Device parts of the split", table)
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
