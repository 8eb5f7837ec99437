//! Libraries in a part or a view of a split, which may not be the one for the GPU.

use std::path::{Path, PathBuf};

use super::cause::{self, Cause};
use crate::coverage::CauseKind;
use crate::gpu::TargetId;
use crate::opened::{Named, SplitDirectory, recognise};
use crate::split::HOST;
use crate::view::THIN;

/// The split in one of whose parts or views a file is.
fn split_around(file: &Path) -> Option<Box<SplitDirectory>> {
    let may_be_part = |directory: &&Path| SplitDirectory::may_have(directory);
    let splits = file.ancestors().skip(1).filter(may_be_part).filter_map(|part| match recognise(part.parent()?) {
        Ok(Named::Split(split)) => Some(split),
        _ => None,
    });
    // The directories in `merged/` and `thin/` have the names of device parts, too.
    splits.last()
}

/// The cause if a library is in the host part of a split.
pub(super) fn cause(library: &Path, device: &TargetId) -> Option<Cause> {
    let split = split_around(library).filter(|it| it.has_host && library.starts_with(it.path.join(HOST)))?;
    let parts: Vec<_> = split.parts_for(device).iter().map(|part| part.display().to_string()).collect();
    let what = if let Some(view) = split.view_for(device) {
        format!("{} has both parts", view.display())
    } else if parts.is_empty() {
        format!("the split has no part for {}", device.processor())
    } else {
        format!("put {} over it in one directory, or install the wheels of both", parts.join(" and "))
    };
    let reason = format!("it is in the host part of a split, whose code is in its device parts; {what}");
    Some(Cause::new(CauseKind::HostPart, reason, None))
}

/// Leads from a part or a view of a split to the one for the GPU. Nothing is installed into a mount, which is read-only.
pub(super) fn lead(file: &str, target: &str, cause: &mut Cause) {
    let (Ok(file), Ok(device)) = (std::path::absolute(file), target.parse::<TargetId>()) else { return };
    let Some(split) = split_around(&file) else { return };
    if split.is_mount {
        let is_of_shell = |command: &String| ["export ", "unset "].iter().any(|begin| command.starts_with(begin));
        cause.command = cause.command.take().filter(is_of_shell);
    }
    if let Some(right) = right_place(&split, &file, &device).filter(|_| cause::is_of_place(cause.kind)) {
        // Other reasons tell what to install.
        let here =
            if cause.kind == CauseKind::NoCode { &*cause.reason } else { "it is in another part or view of the split" };
        let reason = format!("{right} for {}; {here}", device.processor());
        *cause = Cause::new(CauseKind::OtherView, reason, None);
    }
}

/// Where to look instead; `None` if there is no better place in the split.
fn right_place(split: &SplitDirectory, file: &Path, device: &TargetId) -> Option<String> {
    let is_thin = |path: &Path| path.starts_with(split.path.join(THIN));
    let views = split.views_for(device);
    let parts = split.parts_for(device);
    let is_there = |places: &[PathBuf]| places.iter().any(|place| file.starts_with(place));
    let same = views.iter().find(|view| is_thin(view) == is_thin(file));
    match same.or(views.first()) {
        Some(_) if is_there(&views) => None,
        Some(view) => Some(format!("look at {}, the view", view.display())),
        None if parts.is_empty() || is_there(&parts) || !split.has_host => None,
        None => Some(format!("look at {}, which has the parts", split.path.display())),
    }
}
