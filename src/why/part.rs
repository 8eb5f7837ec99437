//! Libraries in a part of a split, which is no installation.

use std::path::Path;

use super::cause::{self, Cause};
use crate::gpu::TargetId;
use crate::opened::{Named, SplitDirectory, recognise};
use crate::split::HOST;

/// The split in whose host part a library is.
fn split_of(library: &Path) -> Option<Box<SplitDirectory>> {
    let hosts = library.ancestors().skip(1).filter(|directory| directory.ends_with(HOST));
    let splits = hosts.filter_map(|host| match recognise(host.parent()?) {
        Ok(Named::Split(split)) if split.has_host => Some(split),
        _ => None,
    });
    splits.into_iter().next()
}

/// The cause if a library is in the host part of a split.
pub(super) fn cause(library: &Path, device: &TargetId) -> Option<Cause> {
    let split = split_of(library)?;
    let parts: Vec<_> = split.parts_for(device).iter().map(|part| part.display().to_string()).collect();
    let what = if let Some(view) = split.view_for(device) {
        format!("{} has both parts", view.display())
    } else if parts.is_empty() {
        format!("the split has no part for {}", device.processor())
    } else {
        format!("put {} over it in one directory, or install the wheels of both", parts.join(" and "))
    };
    let reason = format!("it is in the host part of a split, whose code is in its device parts; {what}");
    Some(Cause::new(&cause::HOST_PART, reason, None))
}
