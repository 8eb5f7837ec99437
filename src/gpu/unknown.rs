//! Names for code whose target is not understood.

use super::{TargetId, begins_with_target};

/// The part for such code, and the beginning of the names of its targets.
pub const UNKNOWN: &str = "unknown";

/// The longest escaped ID, so that names of archives stay valid file names.
const MAX_ESCAPED: usize = 80;

impl TargetId {
    /// A target for code under an ID that is not understood, so that the code is kept. Its name is valid in file names,
    /// and no GPU asks for it: `unknown-gfx90a.3ax` for `gfx90a:x`. Different IDs have different names.
    #[must_use]
    pub fn unknown(id: &str) -> Self {
        let escape = |byte: u8| match byte {
            b'a'..=b'z' | b'0'..=b'9' => char::from(byte).to_string(),
            other => format!(".{other:02x}"),
        };
        let mut escaped: String = id.bytes().map(escape).collect();
        if escaped.len() > MAX_ESCAPED {
            escaped = format!("{}.{:016x}", escaped.split_at(MAX_ESCAPED).0, hash(id.as_bytes()));
        }
        let escaped = if escaped.is_empty() { ".00".to_owned() } else { escaped };
        Self::bare(format!("{UNKNOWN}-{escaped}"))
    }

    /// Whether it is the name of code whose target is not understood.
    pub fn is_unknown(&self) -> bool {
        self.processor().strip_prefix(UNKNOWN).is_some_and(|rest| rest.starts_with('-'))
    }
}

/// Whether a name begins as those of device parts do, and as the targets in the names of archives.
pub fn begins_device_part(name: &[u8]) -> bool {
    let rest = name.strip_prefix(UNKNOWN.as_bytes());
    begins_with_target(name) || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"-"))
}

/// FNV-1a.
fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::{TargetId, UNKNOWN, begins_device_part};
    use crate::gpu::{BundleKey, Level};

    #[test]
    fn every_id_has_a_name_of_its_own_that_is_a_target() {
        let long = "X".repeat(4000);
        let ids =
            ["GFX1030", "gfx90a:x", "gfx90a.3ax", "", "-", "a-", "gfx90a", "../x", "é", &long, &format!("{long}X")];
        let names: std::collections::BTreeSet<_> = ids.iter().map(|id| TargetId::unknown(id)).collect();
        assert_eq!(names.len(), ids.len());
        for name in names {
            assert_eq!(name.to_string().parse(), Ok(name.clone()));
            assert!(name.is_unknown() && name.to_string().len() < 128);
            assert_eq!((BundleKey::of(&name).as_str(), BundleKey::of(&name).level()), (UNKNOWN, Level::Family));
            assert_eq!(BundleKey::of_processor(&name).as_str(), UNKNOWN);
        }
        assert_eq!(TargetId::unknown("gfx90a:x").to_string(), "unknown-gfx90a.3ax");
        assert!(!"gfx90a".parse::<TargetId>().unwrap().is_unknown());
        let begins = |name: &str| begins_device_part(name.as_bytes());
        assert!(["unknown", "unknown-gfx90a.3ax", "gfx90a", "amdgcnspirv"].into_iter().all(begins));
        assert!(!["unknowns", "unknown_vendor", "host", ""].into_iter().any(begins));
    }
}
