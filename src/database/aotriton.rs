//! AOTriton: images of attention kernels, in `aotriton.images/amd-<arch>/`.

use crate::gpu::{BundleKey, Level};

use super::arch::Arch;
use super::names::PathNames;
use super::reader::{DatabaseReader, EmptyVariable};

/// The directory is next to the library, under the name that dladdr(3) reports.
pub(super) const READER: DatabaseReader = DatabaseReader {
    name: "AOTriton",
    libraries: &["aotriton_v2"],
    variable: None,
    empty: EmptyVariable::Unset,
    searched: &["aotriton.images"],
    next_to: None,
    follows_links: false,
    is_optional: false,
    source: "ROCm/aotriton 30ae9671, v3src/packed_kernel_common.cc, locate_aotriton_images",
};

pub(super) fn detect(names: &PathNames) -> Option<Arch> {
    let [directory, _, ..] = names.below(&["aotriton.images"])? else { return None };
    let name = directory.strip_prefix("amd-").filter(|name| name.starts_with("gfx"))?;
    let key = match name.parse().ok()? {
        key if !BundleKey::is_known(&key) => family_key(name).unwrap_or(key),
        key => key,
    };
    // A target keeps the name of the directory.
    if key.level() == Level::Target { Some(Arch::Target(name.parse().ok()?)) } else { Some(Arch::Bundle(key)) }
}

/// AOTriton writes an `x` for each digit that differs inside a group: `gfx11xx` for gfx11, `gfx120x` for `gfx12_0`.
fn family_key(name: &str) -> Option<BundleKey> {
    let key = if let Some(family) = name.strip_suffix("xx") {
        family.to_owned()
    } else {
        let (major, minor) = name.strip_suffix('x')?.split_at_checked(name.len() - 2)?;
        format!("{major}_{minor}")
    };
    key.parse().ok().filter(BundleKey::is_known)
}
