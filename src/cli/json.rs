//! JSON output. `docs/json.md` describes it field by field, and `docs/schema` for programs.

use std::io::Write;

use serde::Serialize;

use crate::text::{escaped_json, is_special};
use crate::view::JSON_VERSION;

/// A report with the version of the JSON output.
#[derive(Serialize)]
struct Versioned<'a, T> {
    json_version: u32,
    #[serde(flatten)]
    report: &'a T,
}

/// The text of a report. A terminal shows all of its characters.
pub(super) fn text(report: &impl Serialize) -> anyhow::Result<String> {
    let versioned = Versioned { json_version: JSON_VERSION, report };
    let json = serde_json::to_string_pretty(&versioned)?;
    Ok(escaped_json(&json, |letter| letter != '\n' && is_special(letter)) + "\n")
}

/// Prints a report.
pub(super) fn write(out: &mut impl Write, report: &impl Serialize) -> anyhow::Result<()> {
    Ok(out.write_all(text(report)?.as_bytes())?)
}
