//! Takes arbitrary bytes for a file with device code in any form.

use std::sync::Arc;

use kpackfs::binary::FileCode;
use kpackfs::devicecode::DeviceCodePlace;
use kpackfs::rope::Content;

use super::support::{Watched, resources};

/// Checks bytes that may be, or hold, device code.
pub(crate) fn run(bytes: &[u8]) {
    for has_wrappers in [false, true] {
        let watched = Watched::new(bytes);
        let content: Arc<dyn Content> = Arc::<Watched>::clone(&watched);
        let Ok(code) = FileCode::of(&content, has_wrappers, &resources()) else { continue };
        let mut size = 0;
        for found in &code.found {
            assert!(found.pieces > 0);
            let is_apart = matches!(found.place, DeviceCodePlace::Data | DeviceCodePlace::Object);
            size += if is_apart { found.size } else { 0 };
            let is_whole = found.place == DeviceCodePlace::File && found.size != bytes.len() as u64;
            assert!(!is_whole, "a file of {} bytes, of which {} are its code", bytes.len(), found.size);
        }
        assert!(size <= bytes.len() as u64, "{size} bytes of code in {}", bytes.len());
        // The index entry gives the same.
        let remembered = rmp_serde::to_vec(&code).expect("plain fields");
        let recalled: FileCode = rmp_serde::from_slice(&remembered).expect("what was written");
        assert_eq!(recalled.found, code.found);
    }
}
