//! Sonames in the data of collected files: libraries that may be loaded by name.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use memchr::memmem;

use super::model::Suggestion;
use super::objects::LoadedObject;
use super::policy;
use super::root::SearchRoot;
use crate::binary::data_ranges;
use crate::source::EntryPath;

/// Bytes that are searched at a time. A soname may reach over an edge, so pieces overlap.
const PIECE: u64 = 1 << 20;
const OVERLAP: u64 = 256;

/// The most bytes of one file that are searched.
const MAX_SEARCHED_OF_FILE: u64 = 64 << 20;

/// The most bytes of all files together. All libraries of ROCm 6.4 have 200 MB of data.
const MAX_SEARCHED: u64 = 2 << 30;

/// Libraries of the trees that are not collected and whose names are strings in the data of collected files.
pub(super) fn suggestions(roots: &[SearchRoot], objects: &[LoadedObject]) -> Vec<Suggestion> {
    let collected: BTreeSet<&[u8]> = objects
        .iter()
        .flat_map(|object| {
            let links = object.links.iter().map(EntryPath::name);
            let needed = object.imports.needed.iter().map(Vec::as_slice);
            links.chain(needed).chain([object.file.path.name(), object.loaded_as.name()])
        })
        .collect();
    let mut wanted: HashSet<&[u8]> = roots.iter().skip(1).flat_map(SearchRoot::names).collect();
    wanted.retain(|name| !collected.contains(name));
    let mut found = BTreeMap::<Vec<u8>, String>::new();
    let mut left = MAX_SEARCHED;
    for object in objects.iter().filter(|object| object.file.root > 0 || object.by.is_none()) {
        for name in names_in(object, &wanted, &mut left) {
            if policy::rule(&name, object.imports.machine).is_none() {
                found.entry(name).or_insert_with(|| object.file.path.to_string());
            }
        }
    }
    let suggestion =
        |(name, by): (Vec<u8>, String)| Suggestion { name: String::from_utf8_lossy(&name).into_owned(), by };
    found.into_iter().map(suggestion).collect()
}

/// The wanted names in the data of a file. `left` is how many bytes may still be searched.
fn names_in(object: &LoadedObject, wanted: &HashSet<&[u8]>, left: &mut u64) -> BTreeSet<Vec<u8>> {
    let mut found = BTreeSet::new();
    if wanted.is_empty() {
        return found;
    }
    let mut left_of_file = MAX_SEARCHED_OF_FILE.min(*left);
    for range in data_ranges(&object.content).unwrap_or_default() {
        let mut at = range.start;
        while at < range.end && left_of_file > 0 {
            let length = (range.end - at).min(PIECE);
            let mut piece = vec![0; usize::try_from(length).unwrap_or_default()];
            if object.content.read_at(at, &mut piece).is_err() {
                break;
            }
            found.extend(names(&piece).filter(|name| wanted.contains(name)).map(<[u8]>::to_vec));
            left_of_file = left_of_file.saturating_sub(length);
            *left = left.saturating_sub(length);
            at = if length < PIECE { range.end } else { at + length - OVERLAP };
        }
    }
    found
}

/// The names of libraries among the strings of some bytes.
fn names(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    memmem::find_iter(bytes, b".so").filter_map(|at| {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"._+-".contains(byte);
        let before = bytes.get(..at)?.iter().rev().take_while(|byte| is_part(byte)).count();
        let start = at - before;
        let length = bytes.get(start..)?.iter().take_while(|byte| is_part(byte)).count();
        let name = bytes.get(start..start + length)?;
        let ends = bytes.get(start + length).is_none_or(|&byte| byte == 0);
        (ends && name.starts_with(b"lib") && name.len() < 128).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn sonames_are_whole_strings() {
        let bytes = b"\0librocsolver.so.0\0cannot load libx.so \0/opt/libz.so.1\0lib%s.so\0liby.so";
        let found: Vec<_> = super::names(bytes).map(|name| std::str::from_utf8(name).unwrap()).collect();
        assert_eq!(found, ["librocsolver.so.0", "libz.so.1", "liby.so"]);
    }
}
