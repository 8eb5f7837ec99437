//! JSON output. `docs/json.md` describes it field by field, and `docs/schema` for programs.

use std::io::Write;

use serde::Serialize;

use crate::text::{escaped_json, is_special};
use crate::view::Versioned;

/// The text of a report. A terminal shows all of its characters.
pub(super) fn text(report: &impl Serialize) -> anyhow::Result<String> {
    let json = serde_json::to_string_pretty(&Versioned::of(report))?;
    Ok(escaped_json(&json, |letter| letter != '\n' && is_special(letter)) + "\n")
}

/// Prints a report.
pub(super) fn write(out: &mut impl Write, report: &impl Serialize) -> anyhow::Result<()> {
    Ok(out.write_all(text(report)?.as_bytes())?)
}
