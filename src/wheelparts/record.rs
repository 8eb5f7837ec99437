//! RECORD of a new wheel (Recording installed projects).

use super::entry::WheelEntry;
use super::zip::Writer;
use crate::rope::Rope;
use crate::source::EntryPath;
use crate::wheel::{WheelError, quoted};

/// The RECORD of a wheel that consists of `files` and of the RECORD itself at `own`. Its length depends on names and
/// sizes only. The digests are computed when they are read.
pub(super) fn record(files: &[WheelEntry], own: &EntryPath) -> Result<Rope, WheelError> {
    let mut names = Vec::with_capacity(files.len());
    for file in files {
        names.push((file.name()?, file));
    }
    names.sort_by_key(|&(name, _)| name);
    let mut writer = Writer::default();
    for (name, file) in names {
        writer.put(quoted(name).as_bytes());
        writer.put(b",sha256=");
        writer.sha256(&file.digest);
        writer.put(format!(",{}\n", file.digest.content.size()).as_bytes());
    }
    let own = std::str::from_utf8(own.as_bytes()).map_err(|_| WheelError::NotUtf8(own.clone()))?;
    writer.put(format!("{},,\n", quoted(own)).as_bytes());
    Ok(writer.finish()?)
}
