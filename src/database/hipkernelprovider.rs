//! hipDNN's kernel provider: `engines/arch_content/<provider>/…/<arch>/…`.

use super::arch::Arch;
use super::names::PathNames;
use crate::gpu::whole_arch;

/// Code for generic ISAs stays in the host part, where every processor finds it.
pub(super) fn detect(names: &PathNames) -> Option<Arch> {
    let content = ["arch_content", "test_arch_content"];
    let below = content.iter().find_map(|content| names.below(&["engines", content]))?;
    let (_, directories) = below.split_last()?;
    directories.iter().find_map(|name| whole_arch(name).filter(|arch| !arch.is_generic())).map(Arch::Target)
}
