//! A report as one self-contained HTML file: pictures in SVG, tables with all numbers, and the numbers as JSON.
//!
//! The page works without scripts; with them, tables can be sorted and filtered. A content security policy allows only
//! its one style sheet and its one script, by digest.

mod bars;
mod cells;
mod diff;
mod lists;
mod matrices;
mod sections;
mod treemap;

use std::sync::{Arc, OnceLock};

use base64::display::Base64Display;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};
use parking_lot::Mutex;
use serde::Serialize;

use self::cells::listed;
use crate::packages::SplitArtifact;
use crate::report::details::Details;
use crate::report::table::{Table, TableCell, counted};
use crate::report::{CodeSummary, InspectReport, LayerSummary, SizedParts, Summary, needed_table};
use crate::rope::{Content, Materialize, ReadError, Rope, Segment};
use crate::source::Input;
use crate::text::{escaped, escaped_json, is_special};
use crate::view::Versioned;
use crate::wheelparts::PlannedInput;

const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = include_str!("script.js");

/// The most libraries and warnings. Further ones are summed up, so that the page stays small.
const MAX_LISTED: usize = 200;

/// A page about an input. The JSON in it is that of `inspect`, and details.
#[derive(Serialize)]
pub(crate) struct Page {
    #[serde(skip)]
    input: String,
    #[serde(flatten)]
    report: InspectReport,
    details: Details,
    folded: Folded,
}

/// The page as a file. Its content has been counted by planning. Sizes are looked up, and the page is written, when it
/// is read.
#[derive(Debug)]
pub(crate) struct PageFile {
    outline: Mutex<Option<Outline>>,
    html: OnceLock<Arc<dyn Content>>,
}

/// Everything on the page except sizes.
#[derive(derive_more::Debug)]
#[debug("Outline({input:?})")]
struct Outline {
    input: String,
    summary: Summary,
    details: Details,
    parts: SizedParts,
}

/// Items that the page does not list.
#[derive(Debug, Default, Serialize)]
struct Folded {
    /// Number of libraries.
    binaries: usize,
    /// Bytes of their files.
    size: u64,
    /// Bytes of their files without device code.
    host_size: u64,
    code_objects: usize,
    /// Bytes of their code.
    code_size: u64,
    /// Number of warnings.
    warnings: usize,
}

impl Outline {
    fn of(planned: PlannedInput<'_>, summary: Summary, reads: bool) -> Self {
        let parts = SizedParts::of(planned);
        let details = Details::of(planned.input, planned.plan, &parts, reads);
        Self { input: name_of(planned.input), summary, details, parts }
    }

    fn of_artifacts(name: &str, artifacts: &[SplitArtifact]) -> Self {
        let plans: Vec<_> = artifacts.iter().map(|artifact| &artifact.plan).collect();
        let parts = SizedParts::of_plans(&plans, None);
        let summaries = artifacts.iter().map(|it| (name_of(&it.input), Summary::of(&it.input, &it.plan)));
        let details = artifacts.iter().map(|it| (name_of(&it.input), Details::of(&it.input, &it.plan, &parts, true)));
        Self {
            input: name.to_owned(),
            summary: Summary::joined(name.to_owned(), summaries),
            details: Details::joined(details),
            parts,
        }
    }

    /// The page, with sizes if they `are_made`.
    fn page(self, device_code: Option<Vec<CodeSummary>>, are_made: bool) -> Page {
        let Self { input, summary, details, parts } = self;
        let sizes = parts.sizes(&summary, are_made);
        let report = InspectReport::new(summary, sizes, device_code);
        let mut page = Page { input, report, details, folded: Folded::default() };
        page.fold();
        page
    }
}

impl PageFile {
    /// The file with the page about an input. `summary` is the input's.
    pub(crate) fn new(planned: PlannedInput<'_>, summary: Summary) -> Self {
        let outline = Outline::of(planned, summary, false);
        Self { outline: Mutex::new(Some(outline)), html: OnceLock::new() }
    }
}

impl Page {
    /// The page about an input, with sizes if they `are_made`. Reads nothing, and makes no HTML yet.
    pub(crate) fn new(planned: PlannedInput<'_>, device_code: Option<Vec<CodeSummary>>, are_made: bool) -> Self {
        Outline::of(planned, Summary::of(planned.input, planned.plan), true).page(device_code, are_made)
    }

    /// The page with these layers of an image, and another title if there is one.
    pub(crate) fn with(mut self, title: Option<String>, layers: Vec<LayerSummary>) -> Self {
        self.input = title.unwrap_or(self.input);
        self.report.layers = layers;
        self
    }

    /// The page about artifacts, each of which is a package. `name` is that of their directory.
    pub(crate) fn of_artifacts(name: &str, artifacts: &[SplitArtifact], are_made: bool) -> Self {
        Outline::of_artifacts(name, artifacts).page(None, are_made)
    }

    /// Removes the smallest libraries and the last warnings.
    fn fold(&mut self) {
        let Self { report, details, folded, .. } = self;
        let summary = &mut report.summary;
        summary.binaries.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.path.cmp(&b.path)));
        for binary in summary.binaries.split_off(summary.binaries.len().min(MAX_LISTED)) {
            folded.binaries += 1;
            folded.size += binary.size;
            folded.host_size += binary.host_size;
            folded.code_objects += binary.code_objects;
            folded.code_size += binary.code_size;
            details.code.remove(&binary.path);
        }
        folded.warnings = summary.warnings.split_off(summary.warnings.len().min(MAX_LISTED)).len();
    }

    /// The page as HTML.
    pub(crate) fn html(&self) -> String {
        let title = html! { (shown(&self.input)) " by GPU architecture" };
        let body = html! { (self.head()) main { (self.sections()) } (foot()) };
        document(&title, &body, self)
    }
}

/// The end of a page about inputs.
fn foot() -> Markup {
    html! {
        footer {
            p { "Made by kpackfs " (env!("CARGO_PKG_VERSION")) ". Sizes are in powers of 1024; exact numbers of bytes are in the JSON of this file (" code { "script#data" } ") and in " code { "kpackfs inspect --json" } "." }
        }
    }
}

/// A self-contained HTML page, with numbers as JSON.
fn document(title: &Markup, body: &Markup, data: &impl Serialize) -> String {
    let policy = format!(
        "default-src 'none'; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
        digest(STYLE),
        digest(SCRIPT)
    );
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "kpackfs " (env!("CARGO_PKG_VERSION")) };
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                (body)
                script type="application/json" id="data" { (PreEscaped(json(data))) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

/// JSON in a form that cannot end an HTML element and has no invisible characters.
#[expect(clippy::expect_used, reason = "plain fields: there is nothing that could fail")]
fn json(data: &impl Serialize) -> String {
    let json = serde_json::to_string(&Versioned::of(data)).expect("plain fields");
    escaped_json(&json, |letter| is_special(letter) || "<>&".contains(letter))
}

impl Materialize for PageFile {
    fn made(&self) -> Option<Arc<dyn Content>> {
        self.html.get().cloned()
    }

    fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
        let mut outline = self.outline.lock();
        if let Some(outline) = outline.take() {
            let rope = Rope::new([Segment::literal(outline.page(None, true).html().into_bytes())])?;
            self.html.get_or_init(|| Arc::new(rope));
        }
        self.made().ok_or_else(|| ReadError::damaged(&"report.html".into(), "it could not be written"))
    }
}

/// The file name of an input.
fn name_of(input: &Input) -> String {
    input.location.file_name().unwrap_or(input.location.as_os_str()).to_string_lossy().into_owned()
}

/// The hash of a text in a content security policy (Content Security Policy Level 3, section 2.3.1).
fn digest(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    format!("sha256-{}", Base64Display::new(digest.as_ref(), &STANDARD))
}

/// A name from the input without invisible characters. Markup in it is escaped.
fn shown(name: &str) -> String {
    escaped(name).into_owned()
}

/// A page about several distributions: a table of them, and then what the page of each has.
pub(crate) struct ReleasePage(pub(crate) Vec<Page>);

/// The JSON in the page.
#[derive(Serialize)]
struct ReleaseData<'a> {
    wheels: Vec<WheelData<'a>>,
}

#[derive(Serialize)]
struct WheelData<'a> {
    name: &'a str,
    #[serde(flatten)]
    page: &'a Page,
}

impl ReleasePage {
    /// The page as HTML.
    pub(crate) fn html(&self) -> String {
        let wheels = self.0.iter().map(|page| WheelData { name: &page.input, page });
        let data = ReleaseData { wheels: wheels.collect() };
        let title = html! { (counted(self.0.len(), "wheel", "wheels")) " by GPU architecture" };
        let body = html! {
            main {
                (self.list())
                (listed("users", "Downloads and installations by GPU", needed_table(self.0.iter().map(|page| &page.report))))
                @for (number, page) in self.0.iter().enumerate() {
                    (with_own_ids(html! { article { (page.head()) (page.sections()) } }, number))
                }
            }
            (foot())
        };
        document(&title, &body, &data)
    }

    fn list(&self) -> Markup {
        let columns = "wheel | size # | unpacked # | fat binaries # | GPUs and families";
        let table = Table::of(counted(self.0.len(), "wheel", "wheels"), columns, &self.0, |page| {
            let Page { input, report, folded, .. } = page;
            [
                input.as_str().into(),
                TableCell::size(report.sizes.input_wheel_size),
                TableCell::size(Some(report.summary.input_size)),
                TableCell::number(report.summary.binaries.len() + folded.binaries),
                report.summary.device.keys().cloned().collect::<Vec<_>>().join(" ").into(),
            ]
        });
        listed("wheels", "The wheels", table)
    }
}

/// A part of a page, whose identifiers differ from those of its other parts. Quotation marks of texts are escaped.
fn with_own_ids(part: Markup, number: usize) -> Markup {
    let attributes = [" id=", " aria-labelledby=", " aria-describedby="];
    let own = |text: String, name: &&str| text.replace(&format!("{name}\""), &format!("{name}\"w{number}-"));
    PreEscaped(attributes.iter().fold(part.into_string(), own))
}
