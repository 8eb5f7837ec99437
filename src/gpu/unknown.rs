//! Names for code whose target is not understood.

use super::processors::PROCESSORS;
use super::{BundleKey, TargetId, UNKNOWN, begins_with_target};
use crate::near::near;

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
        // What is behind as many bytes is not kept.
        let mut escaped: String = id.bytes().take(MAX_ESCAPED + 1).map(escape).collect();
        if escaped.len() > MAX_ESCAPED {
            escaped = format!("{}.{:016x}", escaped.split_at(MAX_ESCAPED).0, hash(id.as_bytes()));
        }
        let escaped = if escaped.is_empty() { ".00".to_owned() } else { escaped };
        Self::bare(format!("{UNKNOWN}-{escaped}"))
    }

    /// The ID of code that has such a name; `None` if it is empty, if the name is another one, or was shortened.
    pub fn unknown_id(&self) -> Option<String> {
        let mut rest = self.processor().strip_prefix(UNKNOWN)?.strip_prefix('-')?;
        let mut id = Vec::new();
        while let Some((&first, _)) = rest.as_bytes().split_first() {
            let (byte, length) = match first {
                b'.' => (u8::from_str_radix(rest.get(1..3)?, 16).ok()?, 3),
                other => (other, 1),
            };
            id.push(byte);
            rest = rest.get(length..)?;
        }
        String::from_utf8(id).ok().filter(|id| id != "\0" && Self::unknown(id) == *self)
    }

    /// The target that the ID of such code names, although no runtime reads it so: `gfx90a` for
    /// `hip-amdgcn-amd-amdhsa-gfx90a` and for `GFX90A`.
    pub fn meant(&self) -> Option<Self> {
        let id = self.unknown_id()?.to_ascii_lowercase();
        let starts = std::iter::once(0).chain(id.match_indices('-').map(|(at, _)| at + 1));
        let name = starts.filter_map(|at| id.get(at..)).find(|name| begins_with_target(name.as_bytes()))?;
        name.parse().or_else(|_| name.split([':', '#']).next().unwrap_or_default().parse()).ok()
    }

    /// Whether it is the name of code whose target is not understood.
    pub fn is_unknown(&self) -> bool {
        self.processor().strip_prefix(UNKNOWN).is_some_and(|rest| rest.starts_with('-'))
    }
}

/// What a message adds to the name of a GPU or family for which there is nothing: nothing, if it is known.
pub fn doubt(name: &str) -> String {
    let is_known = |target: TargetId| target.is_known() || BundleKey::is_name(target.processor());
    if TargetId::typed(name).is_ok_and(is_known) {
        return String::new();
    }
    format!(" (no GPU or family of this name is known{})", near_gpus(name))
}

/// A question about the GPUs with the names that are nearest to one that is not known; nothing if none is near.
pub fn near_gpus(name: &str) -> String {
    let names = || PROCESSORS.iter().map(|processor| processor.name);
    let whole = names().find(|known| known.strip_prefix("gfx") == Some(name));
    let begun: Vec<_> = names().filter(|known| name.len() > 3 && known.starts_with(name)).take(4).collect();
    match (whole, begun.len()) {
        (Some(whole), _) => format!("; did you mean {whole}?"),
        (None, 1..=3) => format!("; did you mean {}?", begun.join(" or ")),
        (None, _) => near(name, names()),
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
        for id in ids {
            assert_eq!(
                TargetId::unknown(id).unknown_id().as_deref(),
                Some(id).filter(|id| (1..80).contains(&id.len()))
            );
        }
        for name in names {
            assert_eq!(name.to_string().parse(), Ok(name.clone()));
            assert!(name.is_unknown() && name.to_string().len() < 128);
            assert_eq!((BundleKey::of(&name).as_str(), BundleKey::of(&name).level()), (UNKNOWN, Level::Family));
            assert_eq!(BundleKey::of_processor(&name).as_str(), UNKNOWN);
        }
        assert_eq!(TargetId::unknown("gfx90a:x").to_string(), "unknown-gfx90a.3ax");
        let meant = |id: &str| TargetId::unknown(id).meant().map(|target| target.to_string());
        for (id, target) in [
            ("hip-amdgcn-amd-amdhsa-gfx90a:xnack-", Some("gfx90a:xnack-")),
            ("openmp-amdgcn-amd-amdhsa--gfx9-4-generic", Some("gfx9-4-generic")),
            ("GFX90A", Some("gfx90a")),
            ("gfx90a:x", Some("gfx90a")),
            ("gfx90a#3", Some("gfx90a")),
            ("hip-amdgcn-amd-amdhsa--", None),
            ("", None),
        ] {
            assert_eq!(meant(id).as_deref(), target, "{id}");
        }
        assert!(!"gfx90a".parse::<TargetId>().unwrap().is_unknown());
        let begins = |name: &str| begins_device_part(name.as_bytes());
        assert!(["unknown", "unknown-gfx90a.3ax", "gfx90a", "amdgcnspirv"].into_iter().all(begins));
        assert!(!["unknowns", "unknown_vendor", "host", ""].into_iter().any(begins));
    }
}
