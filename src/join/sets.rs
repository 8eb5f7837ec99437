//! The kernel set of a wrapper: its code objects in archives, with their targets.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::archives::InputArchives;
use super::object::{JoinedCode, code, is_same};
use crate::fatbin::{CodeDamage, CodeObject, EntryTargets};
use crate::gpu::{TargetId, UNKNOWN};
use crate::loader::Reach;
use crate::resources::Resources;

/// What archives have for a wrapper.
#[derive(Default)]
pub(super) struct KernelSet {
    /// The code objects, sorted by processor, the most specific ones first.
    pub(super) objects: Vec<CodeObject>,
    /// Entries of archives that a loader would find: number of the archive, name, target.
    pub(super) asked: Vec<(usize, String, String)>,
    /// A warning about an entry.
    pub(super) warning: Option<String>,
    /// Entries that cannot be used: number of the archive, and the reason.
    pub(super) unusable: Vec<(usize, String)>,
    /// What is wrong with code, used or not.
    pub(super) damage: CodeDamage,
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
            let entries = reader.entries_of(key);
            for (target, entry) in entries.filter(|(target, _)| reader.offers(target) && reach.asks_for(target)) {
                let asked = (number, key.to_owned(), target.to_owned());
                if set.asked.contains(&asked) {
                    continue;
                }
                set.asked.push(asked);
                if !earlier.contains(target) {
                    match code(archive, key, target, entry, resources) {
                        Ok(code) => {
                            here.insert(target.to_owned());
                            set.warning = set.warning.or_else(|| code.wrong_name());
                            set.damage.extend(code.damage.clone().map(|(target, reason)| (Some(target), reason)));
                            found.push(code);
                        }
                        Err(reason) => {
                            set.damage.extend(target.parse().ok().map(|target| (Some(target), reason.clone())));
                            set.unusable.push((number, reason));
                        }
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
    let mut late = BTreeSet::new();
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
        if !code.names.contains(&target) {
            late.insert(target.clone());
        }
        let object = code.stored.code_for(target.clone());
        if let Some((_, other)) = objects.insert(target.clone(), (object, code.place.clone())) {
            return Err(format!("{other} and {} are different code for {target}", code.place));
        }
    }
    Ok((in_order(objects.into_values().map(|(object, _)| object).collect(), &late), warning))
}

/// The code objects in an order in which HIP, which takes the first that fits, finds what a loader of archives finds, which
/// takes the most specific one. Code that is in archives for more specific targets only is `late`.
fn in_order(mut objects: Vec<CodeObject>, late: &BTreeSet<TargetId>) -> Vec<CodeObject> {
    let processor = |object: &CodeObject| object.target.processor().to_owned();
    let features = |object: &CodeObject| Reverse(object.target.features().len());
    objects.sort_by_key(|object| (processor(object), features(object), late.contains(&object.target)));
    let mut targets = EntryTargets::default();
    let named = objects.into_iter().map(|object| {
        let target = targets.add(object.target.clone(), object.content.size() > 0);
        CodeObject { target, ..object }
    });
    named.collect()
}
