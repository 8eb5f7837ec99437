//! A split binary with its device code put back.
//!
//! The result is a fat binary as compilers make it: wrappers have the magic HIPF and the index 0, and each leads to a
//! bundle. Everything else keeps its address. The result is scanned like any other fat binary before it is used.

use std::sync::Arc;

use super::changes;
use super::form::BundleLayout;
use super::{BinaryError, FatBinary, HostFormat, coff, elf};
use crate::rope::{Content, Rope};

/// The split binary `content` with these bundles. `wrappers` has the number of each wrapper's bundle. The first wrapper
/// leads to the first bundle.
pub fn join(
    content: &Arc<dyn Content>,
    bundles: &[Arc<dyn Content>],
    wrappers: &[usize],
) -> Result<Arc<dyn Content>, BinaryError> {
    let layout = BundleLayout::new(bundles.iter().map(|bundle| bundle.size()), wrappers)?;
    let changes = match HostFormat::of(content)? {
        Some(HostFormat::Elf) => elf::join(content, &layout)?,
        Some(HostFormat::Coff) | None => coff::join(content, &layout)?,
    };
    let made: Vec<_> = bundles.iter().map(|bundle| Some(Arc::clone(bundle))).collect();
    let rope: Rope = changes::rope(content, changes::edits(content, &changes, &made)?)?;
    let joined: Arc<dyn Content> = Arc::new(rope);
    check(&joined, &layout)?;
    Ok(joined)
}

/// Fails unless the file is a fat binary in which each wrapper leads to its own bundle.
fn check(joined: &Arc<dyn Content>, layout: &BundleLayout) -> Result<(), BinaryError> {
    let wrong = |reason: String| BinaryError::unsupported(format!("its device code cannot be put back: {reason}"));
    let fat = FatBinary::scan(joined).map_err(|error| wrong(error.to_string()))?;
    let found = fat.map(|fat| fat.wrappers()).unwrap_or_default();
    let start = found.first().map_or(0, |wrapper| wrapper.bundle);
    let expected = layout.wrappers.iter().map(|place| start.checked_add(*place));
    if found.len() == layout.wrappers.len() && found.iter().map(|it| Some(it.bundle)).eq(expected) {
        return Ok(());
    }
    Err(wrong("its wrappers would not lead there".to_owned()))
}
