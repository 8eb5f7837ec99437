//! Libraries that contain their device code, fat or thin.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::cause::{self, Cause};
use super::device;
use super::error::WhyError;
use super::lookup::Lookup;
use crate::binary::FatBinary;
use crate::fatbin::Bundle;
use crate::gpu::TargetId;
use crate::resources::Resources;
use crate::rope::Content;

/// The targets of each wrapper's bundle. Each bundle is read once, for all GPUs.
pub(super) fn targets(
    path: &Path,
    content: &Arc<dyn Content>,
    binary: &FatBinary,
    resources: &Arc<Resources>,
) -> Result<Vec<BTreeSet<TargetId>>, WhyError> {
    let of_wrapper = |bundle: u64, limit: u64| {
        let read = Bundle::read(content, bundle, limit, resources);
        Ok(read.map_err(|source| WhyError::Bundle { path: path.to_owned(), source })?.targets())
    };
    binary.wrappers().iter().map(|wrapper| of_wrapper(wrapper.bundle, wrapper.limit)).collect()
}

/// Looks up the targets of each wrapper.
pub(super) fn look_up(all: &[BTreeSet<TargetId>], wrappers: &[usize], device: &TargetId, lookup: &mut Lookup) {
    let mut existing = BTreeSet::new();
    let mut used = BTreeSet::new();
    for targets in wrappers.iter().filter_map(|&number| all.get(number)) {
        let targets: Vec<_> = targets.iter().collect();
        let found = targets.iter().zip(device.finds(&targets)).filter(|(_, is_found)| *is_found);
        let found: Vec<_> = found.map(|(it, _)| it.to_string()).collect();
        lookup.with_code += usize::from(!found.is_empty());
        used.extend(found);
        existing.extend(targets.iter().map(ToString::to_string));
    }
    let names = |targets: &BTreeSet<String>| targets.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    lookup.saw(format!("its wrappers are HIPF: the device code is in the library, for {}", names(&existing)));
    if lookup.with_code > 0 {
        lookup.saw(format!("{} of {} wrappers have code: {}", lookup.with_code, lookup.wrappers, names(&used)));
    } else {
        let reason = format!("the library holds its code itself, and only for {}", names(&existing));
        let of_library = all.iter().flatten().collect();
        lookup.fail(device::unserved(device, &of_library).unwrap_or_else(|| Cause::new(&cause::NO_CODE, reason, None)));
    }
}
