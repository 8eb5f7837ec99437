//! The licence files of the fat wheel, which are copied to every device wheel.

use std::collections::BTreeMap;

use crate::source::{Entry, EntryKind, EntryPath, Input};
use crate::wheel::Metadata;

/// A licence file of the input, and its path below `licenses/` in a device wheel's dist-info.
#[derive(Clone, Debug)]
pub(crate) struct Licence {
    pub(crate) path: String,
    pub(crate) entry: Entry,
}

/// Everything below `licenses/` (PEP 639), and every `License-File` of older metadata, which is next to METADATA.
pub(crate) fn find(
    input: &Input,
    dist_info: &EntryPath,
    metadata: &Metadata,
    warnings: &mut Vec<String>,
) -> Vec<Licence> {
    let directory = dist_info.child(b"licenses");
    let mut found = BTreeMap::new();
    for entry in input.entries.iter().filter(|entry| matches!(entry.kind, EntryKind::File { .. })) {
        if let Some(path) = entry.path.below(&directory).as_ref().and_then(expressible) {
            found.insert(path, entry.clone());
        }
    }
    for wanted in metadata.licence_files() {
        if found.contains_key(wanted) {
            continue;
        }
        let path = EntryPath::new(wanted.as_bytes()).ok();
        let entry = path.as_ref().and_then(|path| input.entry(&dist_info.child(path.as_bytes())));
        match (path.as_ref().and_then(expressible), entry) {
            (Some(path), Some(entry)) if matches!(entry.kind, EntryKind::File { .. }) => {
                found.insert(path, entry.clone());
            }
            _ => warnings.push(format!("METADATA: License-File {wanted:?} is not there; device wheels go without it")),
        }
    }
    found.into_iter().map(|(path, entry)| Licence { path, entry }).collect()
}

/// The path, if it can be written in a header.
fn expressible(path: &EntryPath) -> Option<String> {
    let text = std::str::from_utf8(path.as_bytes()).ok()?;
    (!path.is_root() && !text.contains(char::is_control)).then(|| text.to_owned())
}
