//! The page that `--html` writes.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;

use super::failure::printed;
use super::said::{SaidPiece, WrittenOutput};
use super::terminal::stdout;
use crate::disk::{Durability, NewFile, PREFIX, open_with, write_at};
use crate::export::Inputs;
use crate::rope::to_usize;

/// Fails if a page would be written to one of the inputs.
pub(super) fn check_page(file: Option<&Path>, inputs: &Inputs) -> anyhow::Result<()> {
    let file = file.filter(|file| *file != Path::new("-"));
    file.map_or(Ok(()), |file| inputs.check_written(file).context("--html"))
}

/// Writes a page to a file or to stdout.
pub(super) fn write_page(file: &Path, page: &str) -> anyhow::Result<()> {
    if file == Path::new("-") {
        return printed(stdout().write_all(page.as_bytes()).map_err(Into::into));
    }
    write(file, page).with_context(|| file.display().to_string())?;
    let (name, size) = (file.display().to_string(), page.len() as u64);
    WrittenOutput::new(("page", "pages"), file, size, vec![SaidPiece { name, size, files: None, digest: None }]).say();
    Ok(())
}

/// Writes a file that gets its name when it is complete. One that is there is written to: it keeps its mode, its owner and its other names.
fn write(file: &Path, page: &str) -> io::Result<()> {
    match file.metadata() {
        Ok(old) if old.is_file() => overwrite(file, old.len(), page.as_bytes()),
        _ if file.symlink_metadata().is_ok() => std::fs::write(file, page),
        _ => {
            let new = NewFile::create(file, PREFIX, "", 0o666)?;
            new.as_file().write_all(page.as_bytes())?;
            new.publish(true, Durability::Deferred).map(drop)
        }
    }
}

/// Replaces the bytes of a file. Those behind its end are written first, for which a disk may have no room: then the file is as before.
fn overwrite(file: &Path, length: u64, page: &[u8]) -> io::Result<()> {
    let old = open_with(file, File::options().write(true), 0)?;
    let (start, end) = page.split_at(to_usize(length).min(page.len()));
    if let Err(error) = write_at(&old, end, length) {
        old.set_len(length)?;
        return Err(error);
    }
    write_at(&old, start, 0)?;
    old.set_len(page.len() as u64)
}
