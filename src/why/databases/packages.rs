//! What packages installed into a database.

use std::path::{Path, PathBuf};

use crate::database::Handler;
use crate::gpu::TargetId;
use crate::source::EntryPath;
use crate::why::sites::{InstalledDistribution, PackageSite};

/// A file that is not as a package installed it.
pub(super) struct ChangedFile<'a> {
    pub(super) path: PathBuf,
    /// Whether it is gone. Otherwise it has another size.
    pub(super) is_gone: bool,
    pub(super) package: &'a InstalledDistribution,
}

/// The first file in `directory` for a GPU, or for all GPUs, that is not as RECORD of its package says.
pub(super) fn changed<'a>(
    site: &'a PackageSite,
    directory: &Path,
    handler: Handler,
    device: &TargetId,
) -> Option<ChangedFile<'a>> {
    let below = directory.strip_prefix(&site.path).ok()?.as_os_str().as_encoded_bytes();
    let is_wanted = |row: &[u8]| {
        let path = EntryPath::new(row).ok()?;
        let is_inside = row.strip_prefix(below).is_some_and(|rest| rest.starts_with(b"/"));
        let is_for = || handler.named_arch(&path).is_none_or(|arch| arch.is_for(device));
        (is_inside && is_for()).then_some(path)
    };
    let rows = site.distributions.iter().flat_map(|it| it.record().rows().map(move |row| (it, row)));
    let changed = rows.filter_map(|(package, (row, stated))| {
        let path = site.path.join(is_wanted(row)?.as_path());
        let found = path.metadata().ok().map(|it| it.len());
        let is_as_stated = stated.claim_of_any_form().is_none_or(|claim| found == Some(claim.size));
        (found.is_none() || !is_as_stated).then_some(ChangedFile { path, is_gone: found.is_none(), package })
    });
    changed.min_by(|one, other| one.path.cmp(&other.path))
}
