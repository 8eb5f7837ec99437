//! The page about several distributions.

use maud::{Markup, PreEscaped, html};
use serde::Serialize;

use super::cells::{bytes, columns, count, ratio, section, table};
use super::{Folded, Page, document, foot, shown};
use crate::report::details::Details;
use crate::report::table::counted;
use crate::report::{InspectReport, needed_of};
use crate::view::JSON_VERSION;

/// A page about several distributions: a table of them, and then what the page of each has.
pub(crate) struct ReleasePage(pub(crate) Vec<Page>);

/// The JSON in the page.
#[derive(Serialize)]
struct ReleaseData<'a> {
    json_version: u32,
    wheels: Vec<WheelData<'a>>,
}

#[derive(Serialize)]
struct WheelData<'a> {
    name: &'a str,
    #[serde(flatten)]
    report: &'a InspectReport,
    details: &'a Details,
    folded: &'a Folded,
}

impl ReleasePage {
    /// The page as HTML.
    pub(crate) fn html(&self) -> String {
        let wheels = self.0.iter().map(|Page { input, report, details, folded }| WheelData {
            name: input,
            report,
            details,
            folded,
        });
        let data = ReleaseData { json_version: JSON_VERSION, wheels: wheels.collect() };
        let title = html! { (counted(self.0.len(), "wheel", "wheels")) " by GPU architecture" };
        let body = html! {
            main {
                (self.list())
                (self.users())
                @for (number, page) in self.0.iter().enumerate() {
                    (with_own_ids(html! { article { (page.head()) (page.sections()) } }, number))
                }
            }
            (foot())
        };
        document(&title, &body, &data)
    }

    fn list(&self) -> Markup {
        let head = columns("wheel | size # | unpacked # | fat binaries # | GPUs and families");
        let body = html! { @for Page { input, report, folded, .. } in &self.0 { tr {
            th scope="row" { (shown(input)) }
            (bytes(report.sizes.input_wheel_size)) (bytes(Some(report.summary.input_size)))
            (count(report.summary.binaries.len() + folded.binaries))
            td { (shown(&report.summary.device.keys().cloned().collect::<Vec<_>>().join(" "))) }
        } } };
        section("wheels", &counted(self.0.len(), "wheel", "wheels"), true, &table("wheels", "The wheels", &head, &body))
    }

    fn users(&self) -> Markup {
        let users = needed_of(self.0.iter().map(|page| &page.report));
        let head = columns("GPU | wheels # | download # | of fat # | installed #");
        let body = html! { @for (gpu, needed) in &users { tr {
            th scope="row" { (shown(gpu)) }
            (count(needed.wheels)) (bytes(needed.download)) (ratio(needed.download, needed.fat)) (bytes(needed.installed))
        } } };
        let title = "What a user of all wheels with code for a GPU needs";
        section("users", title, !users.is_empty(), &table("users", "Downloads and installations by GPU", &head, &body))
    }
}

/// A part of a page, whose identifiers differ from those of its other parts. Quotation marks of texts are escaped.
fn with_own_ids(part: Markup, number: usize) -> Markup {
    let attributes = [" id=", " aria-labelledby=", " aria-describedby="];
    let own = |text: String, name: &&str| text.replace(&format!("{name}\""), &format!("{name}\"w{number}-"));
    PreEscaped(attributes.iter().fold(part.into_string(), own))
}
