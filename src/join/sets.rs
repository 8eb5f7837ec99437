//! The kernel set of a wrapper: its code objects in archives, with their targets.
//!
//! The target of a code object is the one in its own header. Archives for `gfx90a:xnack-` also contain code for any
//! gfx90a, for loaders that stop at the first archive.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::archives::{InputArchive, InputArchives, StoredPlace};
use crate::fatbin::{CodeObject, StoredObject, code_problem, code_target, tells_features};
use crate::gpu::{TargetId, UNKNOWN};
use crate::kpack::TocEntry;
use crate::loader::Reach;
use crate::resources::Resources;
use crate::rope::{Content, ReadError, Rope, Segment, Sha256, equal, read_all};

/// Bytes that are compared before code objects are decompressed as a whole.
const BEGINNING: u64 = 64 << 10;

/// What archives have for a wrapper.
#[derive(Default)]
pub(super) struct KernelSet {
    /// The code objects, sorted by target.
    pub(super) objects: Vec<CodeObject>,
    /// Entries of archives that a loader would find: number of the archive, name, target.
    pub(super) asked: Vec<(usize, String, String)>,
    /// A warning about an entry.
    pub(super) warning: Option<String>,
    /// Entries that cannot be used: number of the archive, and the reason.
    pub(super) unusable: Vec<(usize, String)>,
}

/// One code object, with one or more names.
struct JoinedCode {
    stored: StoredObject,
    /// The bytes in the archive.
    packed: Rope,
    names: BTreeSet<TargetId>,
    /// The target in its header, or else the least specific of its names.
    own: TargetId,
    /// Whether the header states the target.
    is_reliable: bool,
    place: String,
    /// The target as the archive writes it.
    written: String,
    /// Why no runtime can use it under its name.
    problem: Option<String>,
}

/// The code objects that a loader finds under `key` in the archives to which each search path leads. Fails if an archive
/// cannot be read. An entry that cannot be used does not concern the others.
pub(super) fn of(
    key: &str,
    by_path: &[Vec<(usize, Reach)>],
    archives: &InputArchives,
    resources: &Arc<Resources>,
) -> Result<KernelSet, String> {
    let mut set = KernelSet::default();
    let mut found = Vec::<JoinedCode>::new();
    // A loader prefers the results of earlier search paths.
    let mut earlier = BTreeSet::<String>::new();
    for reached in by_path {
        let mut here = BTreeSet::new();
        for &(number, ref reach) in reached {
            let Some(archive) = archives.get(number) else { continue };
            let reader = archive.reader()?;
            let entries = reader.toc().toc.get(key).into_iter().flatten();
            for (target, entry) in entries.filter(|(target, _)| reader.offers(target) && reach.asks_for(target)) {
                let asked = (number, key.to_owned(), target.clone());
                if set.asked.contains(&asked) {
                    continue;
                }
                set.asked.push(asked);
                if !earlier.contains(target) {
                    match code(archive, key, target, entry, resources) {
                        Ok(code) => {
                            here.insert(target.clone());
                            set.warning = set.warning.or_else(|| wrong_name(&code));
                            found.push(code);
                        }
                        Err(reason) => set.unusable.push((number, reason)),
                    }
                }
            }
        }
        earlier.append(&mut here);
    }
    let (objects, warning) = fold(found)?;
    set.warning = set.warning.or(warning);
    set.objects = objects;
    Ok(set)
}

/// An entry of an archive as a code object for the target in its name.
pub(super) fn object(
    archive: &InputArchive,
    key: &str,
    name: &str,
    entry: &TocEntry,
    resources: &Arc<Resources>,
) -> Result<CodeObject, String> {
    let code = code(archive, key, name, entry, resources)?;
    let target = code.names.first().cloned().unwrap_or(code.own);
    Ok(code.stored.code_for(target))
}

/// A code object of an archive, found under a target's name.
fn code(
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
    let stored = StoredPlace { offset: blob.offset, length: blob.size, size: entry.original_size, is_compressed };
    let stored = archive.stored(stored, &place, resources);
    let said = |error: ReadError| {
        let text = error.to_string();
        if text.starts_with(&place) { text } else { failed(&text) }
    };
    let stored = stored.map_err(said)?;
    let header = stored.header().map_err(said)?;
    let of_header = code_target(&header).filter(|_| tells_features(&header));
    let (target, problem) = target_of_entry(name, of_header.as_ref(), &header);
    let of_header = of_header.filter(|_| !target.is_unknown());
    // Code for gfx1250-strict may have the header of gfx1250.
    let is_renamed = |own: &TargetId| own.processor() != target.processor() && own.is_same_gpu(&target);
    let own = of_header.clone().filter(|own| !is_renamed(own)).unwrap_or_else(|| target.clone());
    let packed = Segment::range(Arc::clone(&archive.content), blob.offset, blob.size);
    let packed = packed.and_then(|range| Rope::new([range])).map_err(said)?;
    let is_reliable = of_header.is_some();
    Ok(JoinedCode {
        stored,
        packed,
        names: BTreeSet::from([target]),
        own,
        is_reliable,
        place,
        written: name.to_owned(),
        problem,
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

/// A warning about code that is not what its name says. It gets another name, under which no runtime searches for it.
fn wrong_name(code: &JoinedCode) -> Option<String> {
    Some(format!("{}: {}; it is kept in {UNKNOWN}/", code.place, code.problem.as_ref()?))
}

/// Merges equal code objects, and determines the target of each. Of different code objects for one target, a runtime finds
/// the one whose entry is called so; the other is kept as code that no runtime finds, with a warning.
fn fold(mut found: Vec<JoinedCode>) -> Result<(Vec<CodeObject>, Option<String>), String> {
    // The least specific names first.
    found.sort_by_key(|code| code.names.iter().map(|name| name.features().len()).min());
    let mut distinct = Vec::<JoinedCode>::new();
    for code in found {
        let is_alias = |other: &JoinedCode| {
            other.own == code.own || (!code.is_reliable && code.own.candidates().contains(&other.own))
        };
        let mut counterpart = None;
        for other in distinct.iter_mut().filter(|other| is_alias(other)) {
            if is_same(other, &code).map_err(|error| error.to_string())? {
                counterpart = Some(other);
                break;
            }
        }
        match counterpart {
            Some(counterpart) => counterpart.names.extend(code.names),
            None => distinct.push(code),
        }
    }
    let mut number = BTreeMap::<TargetId, usize>::new();
    for code in &distinct {
        *number.entry(code.own.clone()).or_default() += 1;
    }
    // Entries that are called as runtimes call the target come first.
    distinct.sort_by_key(|code| code.names.iter().all(|name| name.to_string() != code.written));
    let mut objects = BTreeMap::<TargetId, (CodeObject, String)>::new();
    let mut warning = None;
    for code in distinct {
        // Two code objects for the same GPUs are distinguished by their names in archives.
        let least = code.names.iter().min_by_key(|name| name.features().len());
        let target = if number.get(&code.own) == Some(&1) { &code.own } else { least.unwrap_or(&code.own) }.clone();
        let conflict = objects
            .get(&target)
            .map(|(_, other)| format!("{other} and {} are different code for {target}", code.place));
        let target = match conflict {
            Some(conflict) if target.to_string() == code.written => return Err(conflict),
            Some(conflict) => {
                warning.get_or_insert(format!("{conflict}; the second is kept in {UNKNOWN}/"));
                TargetId::unknown(&code.written)
            }
            None => target,
        };
        let object = code.stored.code_for(target.clone());
        if let Some((_, other)) = objects.insert(target.clone(), (object, code.place.clone())) {
            return Err(format!("{other} and {} are different code for {target}", code.place));
        }
    }
    Ok((objects.into_values().map(|(object, _)| object).collect(), warning))
}

/// Whether two code objects have the same bytes: compares the stored bytes first, then the decompressed ones. These are
/// compared by their SHA-256 unless they differ at the beginning: there may be no memory for two decoders at a time.
fn is_same(one: &JoinedCode, other: &JoinedCode) -> Result<bool, ReadError> {
    let (left, right) = (one.stored.content(), other.stored.content());
    if left.size() != right.size() {
        return Ok(false);
    }
    if one.packed.size() == other.packed.size() && equal(&one.packed, &other.packed)? {
        return Ok(true);
    }
    let begin_alike = one.stored.beginning(BEGINNING)? == other.stored.beginning(BEGINNING)?;
    Ok(begin_alike && sha256(&**left)? == sha256(&**right)?)
}

fn sha256(content: &dyn Content) -> Result<[u8; 32], ReadError> {
    let mut sha256 = Sha256::default();
    read_all(content, |piece| sha256.update(piece))?;
    Ok(sha256.finish())
}
