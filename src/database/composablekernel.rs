//! Composable Kernel: static libraries of convolutions, one for each architecture.

use super::arch::Arch;
use super::names::PathNames;
use crate::gpu::number_at;

/// `[lib]device_conv_operations_<processor>[_strict][_<feature><sign>…].a` or `.lib`. The build system writes signs as
/// `p` and `_`. Features do not affect where the file belongs.
pub(super) fn detect(names: &PathNames) -> Option<Arch> {
    let file = names.file();
    let name = file.strip_suffix(".a").or_else(|| file.strip_suffix(".lib"))?;
    let name = name.strip_prefix("lib").unwrap_or(name).strip_prefix("device_conv_operations_")?;
    let (processor, mut rest) = number_at(name)?;
    let mut processor = processor.to_owned();
    if let Some(after) = rest.strip_prefix("_strict") {
        processor.push_str("-strict");
        rest = after;
    }
    while !rest.is_empty() {
        let sign = rest.strip_prefix("_xnack").or_else(|| rest.strip_prefix("_sramecc"))?;
        rest = sign.strip_prefix(['p', '_'])?;
    }
    Some(Arch::Target(processor.parse().ok()?))
}
