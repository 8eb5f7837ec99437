//! The rocjitsu hot-swap cache: gfx1250 code translated between steppings, in files named after SHA-256 digests.

use super::arch::Arch;
use super::names::PathNames;

pub(super) fn detect(names: &PathNames) -> Option<Arch> {
    if !names.parents_end_with(&["share", "rocjitsu", "translations", "gfx1250-b0-a0", "v1"]) {
        return None;
    }
    let digest = names.file().strip_suffix(".man").or_else(|| names.file().strip_suffix(".obj"))?;
    let is_digest = digest.len() == 64 && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_digest { Some(Arch::Target("gfx1250".parse().ok()?)) } else { None }
}
