//! What packages installed into a database.

use std::path::{Path, PathBuf};

use crate::database::Handler;
use crate::gpu::TargetId;
use crate::source::EntryPath;
use crate::wheel::Stated;
use crate::why::installed::{distributions, site_of};

/// A file that is not as a package installed it.
pub(super) struct ChangedFile {
    pub(super) path: PathBuf,
    /// Whether it is gone. Otherwise it has another size.
    pub(super) is_gone: bool,
    /// The package and its version, as pip wants them: `amd-torch-device-gfx942==2.10.0`.
    pub(super) package: String,
}

/// The first file in `directory` for a GPU, or for all GPUs, that is not as RECORD of its package says.
pub(super) fn changed(library: &Path, directory: &Path, handler: Handler, device: &TargetId) -> Option<ChangedFile> {
    let site = site_of(library)?;
    let below = directory.strip_prefix(&site).ok()?.as_os_str().as_encoded_bytes().to_owned();
    let is_wanted = |row: &[u8]| {
        let path = EntryPath::new(row).ok()?;
        let is_inside = row.strip_prefix(&*below).is_some_and(|rest| rest.starts_with(b"/"));
        let is_for = || handler.named_arch(&path).is_none_or(|arch| arch.is_for(device));
        (is_inside && is_for()).then_some(path)
    };
    let mut all = Vec::new();
    for distribution in distributions(&site) {
        let package = format!("{}=={}", distribution.metadata.name, distribution.metadata.version);
        for (row, stated) in distribution.record.rows() {
            let Some(path) = is_wanted(row).map(|path| site.join(path.as_path())) else { continue };
            let stated_size = match stated {
                Stated::Claim(claim) | Stated::Hexadecimal(claim) => Some(claim.size),
                Stated::Nothing | Stated::Several => None,
            };
            let found = path.metadata().ok().map(|it| it.len());
            if found.is_none() || stated_size.is_some_and(|it| found != Some(it)) {
                all.push(ChangedFile { path, is_gone: found.is_none(), package: package.clone() });
            }
        }
    }
    all.into_iter().min_by(|one, other| one.path.cmp(&other.path))
}
