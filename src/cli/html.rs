//! The page that `--html` writes.

use std::io::Write;
use std::path::Path;

use anyhow::Context;

use super::failure::printed;
use super::said::WrittenOutput;
use crate::export::Inputs;

/// Fails if a page would be written to one of the inputs.
pub(super) fn check_page(file: Option<&Path>, inputs: &Inputs) -> anyhow::Result<()> {
    let file = file.filter(|file| *file != Path::new("-"));
    file.map_or(Ok(()), |file| inputs.check_written(file).context("--html"))
}

/// Writes a page to a file or to stdout.
pub(super) fn write_page(file: &Path, page: &str) -> anyhow::Result<()> {
    if file == Path::new("-") {
        return printed(std::io::stdout().lock().write_all(page.as_bytes()).map_err(Into::into));
    }
    std::fs::write(file, page).with_context(|| file.display().to_string())?;
    WrittenOutput::at(("page", "pages"), file, [&file.to_owned()])?.say();
    Ok(())
}
