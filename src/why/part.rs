//! Libraries in a part of a split, which is no installation.

use std::path::{Path, PathBuf};

use super::cause::{self, Cause};
use crate::gpu::{BundleKey, TargetId};
use crate::split::STATEMENT;
use crate::view::{HOST, MERGED, REPORTS};

/// Whether a directory is the output of a split, or a mount of one, with the parts side by side.
pub(super) fn is_split(directory: &Path) -> bool {
    // A mount does not list the directory of reports.
    directory.join(HOST).is_dir() && directory.join(REPORTS).join(STATEMENT).is_file()
}

/// The parts of a split with code for a GPU: that of its processor, and those of its families.
pub(super) fn parts_for(root: &Path, device: &TargetId) -> Vec<PathBuf> {
    let keys = BundleKey::of_processor(device).packaging_chain();
    keys.iter().map(|key| root.join(key.as_str())).filter(|part| part.is_dir()).collect()
}

/// The cause if a library is in the host part of a split.
pub(super) fn cause(library: &Path, device: &TargetId) -> Option<Cause> {
    let root = library.ancestors().skip(1).find_map(|directory| {
        let root = directory.parent().filter(|_| directory.file_name().is_some_and(|name| name == HOST))?;
        is_split(root).then_some(root)
    })?;
    let merged = root.join(MERGED).join(device.processor());
    let parts: Vec<_> = parts_for(root, device).iter().map(|part| part.display().to_string()).collect();
    let what = if merged.is_dir() {
        format!("{} has both parts", merged.display())
    } else if parts.is_empty() {
        format!("the split has no part for {}", device.processor())
    } else {
        format!("put {} over it in one directory, or install the wheels of both", parts.join(" and "))
    };
    let reason = format!("it is in the host part of a split, which has no device code; {what}");
    Some(Cause::new(&cause::HOST_PART, reason, None))
}
