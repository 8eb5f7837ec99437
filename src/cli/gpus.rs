//! GPUs on the command line.

use super::lists::pieces;
use crate::gpu::{BundleKey, Level, TargetId, near_gpus};

/// One GPU, which may have features: `gfx942`, `gfx90a:xnack+`. Also a generic processor. Unknown processors are
/// accepted if their names have the form of a processor's, since GPUs newer than kpackfs appear.
pub(super) fn gpu(name: &str) -> Result<TargetId, String> {
    let target = TargetId::typed(name).map_err(|error| error.to_string())?;
    if let Some(feature) = target.impossible_feature() {
        return Err(format!("no GPU is a {name}: {feature} is not possible there"));
    }
    let is_family = || !target.is_generic() && BundleKey::of(&target).level() != Level::Target;
    if target.is_spirv() || is_family() || !target.is_known() && !has_form_of_processor(target.processor()) {
        return Err(format!(
            "{name} is not one GPU; name processors as rocminfo does, such as gfx942{}",
            near_gpus(name)
        ));
    }
    Ok(target)
}

/// A list of such GPUs.
pub(super) fn gpus(list: &str) -> Result<Vec<TargetId>, String> {
    match pieces(list).as_slice() {
        [] => Err("it names no GPU".to_owned()),
        names => names.iter().map(|name| gpu(name)).collect(),
    }
}

/// Whether a name is "gfx", one or two decimal digits, and two hexadecimal ones, as all names since gfx600 are.
fn has_form_of_processor(name: &str) -> bool {
    let name = name.strip_suffix("-strict").unwrap_or(name);
    let Some(digits) = name.strip_prefix("gfx").filter(|digits| matches!(digits.len(), 3 | 4)) else { return false };
    let (generation, stepping) = digits.split_at(digits.len() - 2);
    let is_stepping = stepping.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    generation.bytes().all(|byte| byte.is_ascii_digit()) && is_stepping
}

#[cfg(test)]
mod tests {
    use super::gpu;

    #[test]
    fn only_names_of_one_gpu_are_accepted() {
        for name in [
            "gfx942",
            "GFX942",
            "gfx90a:xnack+",
            "gfx11-generic",
            "gfx1250-strict",
            "gfx602",
            "gfx1399",
            "gfx1100:xnack+",
            "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-",
        ] {
            assert!(gpu(name).is_ok(), "{name}");
        }
        for name in [
            "gfx",
            "gfx9",
            "gfx11",
            "gfx110x",
            "gfx12_0",
            "gfx1",
            "gfx99999",
            "gfx94x",
            "amdgcnspirv",
            "MI300",
            "mi300x",
        ] {
            assert!(gpu(name).is_err(), "{name}");
        }
        assert!(gpu("gfx1250:xnack-").unwrap_err().contains("xnack- is not possible there"));
    }
}
