//! Signatures of images for Windows (Authenticode). They cover all bytes of a file, so they hold for no other form of
//! it.

use std::collections::BTreeSet;

use super::plan::{Destination, Plan};
use crate::source::Input;
use crate::text::some_of;

/// A warning about the signed files, by their positions in the input, that have other forms.
pub(super) fn warning(input: &Input, plan: &Plan, signed: &[usize]) -> Option<String> {
    let rewritten = signed.iter().filter_map(|&entry| {
        let path = &input.entries.get(entry)?.path;
        matches!(plan.places.get(entry), Some(Destination::Rewritten { .. })).then(|| path.to_string())
    });
    let names: BTreeSet<_> = rewritten.collect();
    let names = some_of(&names);
    (!names.is_empty()).then(|| {
        format!(
            "{names}: signed (Authenticode); a signature does not hold for a file with other device code and is removed \
             from it; sign the new files"
        )
    })
}
