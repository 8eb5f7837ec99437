//! A code object of an archive, and its target.
//!
//! The target of a code object is the one in its own header. Archives for `gfx90a:xnack-` also contain code for any
//! gfx90a, for loaders that stop at the first archive.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::archive::InputArchive;
use crate::fatbin::{
    CODE_BEGINNING, CodeObject, StoredObject, code_problem, code_target, damage_by_beginning, is_code, tells_features,
};
use crate::gpu::{TargetId, UNKNOWN};
use crate::kpack::TocEntry;
use crate::resources::Resources;
use crate::rope::{Content, ReadError, Rope, Segment, Sha256, equal};

/// Bytes that are compared before code objects are decompressed as a whole.
const BEGINNING: usize = 64 << 10;

/// One code object, with one or more names.
pub(super) struct JoinedCode {
    pub(super) stored: StoredObject,
    /// The bytes in the archive.
    packed: Rope,
    pub(super) names: BTreeSet<TargetId>,
    /// The target in its header, or else the least specific of its names.
    pub(super) own: TargetId,
    /// Whether the header states the target.
    pub(super) is_reliable: bool,
    /// Archive and entry, for messages.
    pub(super) place: String,
    /// The target as the archive writes it.
    pub(super) written: String,
    /// Why no runtime can use it under its name.
    problem: Option<String>,
    /// The target whose GPUs would load it, and why nothing can.
    pub(super) damage: Option<(TargetId, String)>,
}

impl JoinedCode {
    /// The code object for the target in the entry's name.
    pub(super) fn named(&self) -> CodeObject {
        self.stored.code_for(self.names.first().unwrap_or(&self.own).clone())
    }

    /// A warning about code that is not what its name says. It gets another name, under which no runtime searches for
    /// it.
    pub(super) fn wrong_name(&self) -> Option<String> {
        Some(format!("{}: {}; it is kept in {UNKNOWN}/", self.place, self.problem.as_ref()?))
    }
}

/// A code object of an archive, found under a target's name.
pub(super) fn code(
    archive: &InputArchive,
    key: &str,
    name: &str,
    entry: &TocEntry,
    resources: &Arc<Resources>,
) -> Result<JoinedCode, String> {
    let place = format!("{}: {key} for {name}", archive.path);
    let failed = |reason: &dyn std::fmt::Display| format!("{place}: {reason}");
    let reader = archive.reader()?;
    let (blob, is_compressed) = reader.stored(entry).map_err(|error| failed(&error))?;
    if !is_compressed && blob.size != entry.original_size {
        let reason = format!("it takes {} bytes, and the table of contents says {}", blob.size, entry.original_size);
        return Err(failed(&reason));
    }
    let said = |text: String| if text.starts_with(&place) { text } else { failed(&text) };
    let of_read = |error: ReadError| said(error.to_string());
    let stored = archive.object((blob, entry.original_size), || reader.object(entry, &place, resources));
    let stored = stored.map_err(|error| said(error.to_string()))?;
    let header = stored.content().beginning(CODE_BEGINNING).map_err(of_read)?;
    let of_header = code_target(&header).filter(|_| tells_features(&header));
    let (target, problem) = target_of_entry(name, of_header.as_ref(), &header);
    let of_header = of_header.filter(|_| !target.is_unknown());
    // Code for gfx1250-strict may have the header of gfx1250.
    let is_renamed = |own: &TargetId| own.processor() != target.processor() && own.is_same_gpu(&target);
    let own = of_header.clone().filter(|own| !is_renamed(own)).unwrap_or_else(|| target.clone());
    let packed = Segment::range(Arc::clone(&archive.content), blob.offset, blob.size);
    let packed = packed.and_then(|range| Rope::new([range])).map_err(of_read)?;
    let is_reliable = of_header.is_some();
    let of_no_code = || problem.clone().filter(|_| !is_code(&header) && code_target(&header).is_none());
    let damage = damage_by_beginning(&header, entry.original_size).map(|reason| (own.clone(), failed(&reason)));
    let damage = damage.or_else(|| Some((name.parse().ok()?, failed(&of_no_code()?))));
    Ok(JoinedCode {
        stored,
        packed,
        names: BTreeSet::from([target]),
        own,
        is_reliable,
        place,
        written: name.to_owned(),
        problem,
        damage,
    })
}

/// The target of code under a name, and the problem if it is not what the name says.
fn target_of_entry(name: &str, of_header: Option<&TargetId>, header: &[u8]) -> (TargetId, Option<String>) {
    let target: TargetId = match name.parse() {
        Ok(target) => target,
        Err(error) => return (TargetId::unknown(name), Some(error.to_string())),
    };
    // No GPU runs such code. It is kept under the name that says so.
    let impossible = of_header.filter(|own| own.impossible_feature().is_some() && own.is_same_gpu(&target));
    let target = impossible.cloned().unwrap_or(target);
    match code_problem(header, &target) {
        None => (target, None),
        problem => (TargetId::unknown(name), problem),
    }
}

/// Whether two code objects have the same bytes: compares the stored bytes first, then the decompressed ones. These are
/// compared by their SHA-256 unless they differ at the beginning: there may be no memory for two decoders at a time.
pub(super) fn is_same(one: &JoinedCode, other: &JoinedCode) -> Result<bool, ReadError> {
    let (left, right) = (one.stored.content(), other.stored.content());
    if left.size() != right.size() {
        return Ok(false);
    }
    if one.packed.size() == other.packed.size() && equal(&one.packed, &other.packed)? {
        return Ok(true);
    }
    let begin_alike = left.beginning(BEGINNING)? == right.beginning(BEGINNING)?;
    Ok(begin_alike && Sha256::of_content(&**left)? == Sha256::of_content(&**right)?)
}
