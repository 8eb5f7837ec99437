//! Libraries that have their device code in themselves, fat or thin.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::{Cause, Lookup, WhyError};
use crate::binary::FatBinary;
use crate::fatbin::Bundle;
use crate::gpu::{GpuSet, TargetId};
use crate::resources::Resources;
use crate::source::open_file;

/// Looks into the bundle of each wrapper. The code objects that a GPU may be given are those that a thin view keeps.
pub(super) fn look_up(
    path: &Path,
    fat: &FatBinary,
    wrappers: &[usize],
    device: &TargetId,
    resources: &Arc<Resources>,
    lookup: &mut Lookup,
) -> Result<(), WhyError> {
    let failed = |source| WhyError::Bundle { path: path.to_owned(), source };
    let content = open_file(path, resources)?;
    let all = fat.wrappers();
    let mut there = BTreeSet::new();
    let mut used = BTreeSet::new();
    for wrapper in wrappers.iter().filter_map(|&number| all.get(number)) {
        let bundle = Bundle::read(&content, wrapper.bundle, wrapper.limit, resources).map_err(failed)?;
        let objects = bundle.objects(&content, resources).map_err(failed)?;
        let targets: Vec<_> = objects.iter().map(|object| &object.target).collect();
        let keeps = GpuSet::new([device.clone()]).map(|gpus| gpus.keeps(&targets)).unwrap_or_default();
        let kept: Vec<_> = targets.iter().zip(keeps).filter(|(_, kept)| *kept).map(|(it, _)| it.to_string()).collect();
        lookup.with_code += usize::from(!kept.is_empty());
        used.extend(kept);
        there.extend(targets.iter().map(ToString::to_string));
    }
    let names = |targets: &BTreeSet<String>| targets.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    lookup.saw(format!("its wrappers are HIPF: the device code is in the library, for {}", names(&there)));
    if lookup.with_code > 0 {
        lookup.saw(format!("{} of {} wrappers have code: {}", lookup.with_code, lookup.wrappers, names(&used)));
    } else {
        let reason = format!("the library holds its code itself, and only for {}", names(&there));
        lookup.fail(Cause::new(reason, None));
    }
    Ok(())
}
