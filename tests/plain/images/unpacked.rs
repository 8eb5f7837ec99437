//! What a program unpacks of layers, in a form that can be compared.

use std::collections::BTreeMap;
use std::io::Read;

use tar::{Archive, EntryType};

/// A file, with everything that an archive says about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unpacked {
    pub(crate) kind: EntryType,
    pub(crate) mode: u32,
    pub(crate) owner: (u64, u64),
    pub(crate) mtime: String,
    pub(crate) xattrs: BTreeMap<String, Vec<u8>>,
    /// The content of a file, the target of a symlink.
    pub(crate) content: Vec<u8>,
}

/// The files of layers that are laid over each other. Each layer is unpacked by itself first, as overlayfs does, so that a
/// hard link needs its file in the same layer.
pub(crate) fn unpack(layers: &[Vec<u8>]) -> BTreeMap<String, Unpacked> {
    let mut root = BTreeMap::<String, Unpacked>::new();
    for layer in layers {
        let mut new = BTreeMap::new();
        let (mut gone, mut opaque) = (Vec::new(), Vec::new());
        for entry in Archive::new(&**layer).entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = entry.path().unwrap().to_str().unwrap().trim_end_matches('/').to_owned();
            let (directory, base) = name.rsplit_once('/').map_or(("", &*name), |(directory, base)| (directory, base));
            match base.strip_prefix(".wh.") {
                Some(".wh..opq") => opaque.push(format!("{directory}/")),
                Some(gone_base) => gone.push(format!("{directory}/{gone_base}")),
                None => {
                    let unpacked = file(&mut entry, &new);
                    new.insert(name, unpacked);
                }
            }
        }
        root.retain(|path, _| {
            let is_at = |gone: &String| path == gone.trim_start_matches('/') || path.starts_with(&format!("{gone}/"));
            !gone.iter().any(is_at) && !opaque.iter().any(|directory| path.starts_with(directory))
        });
        for (path, file) in new {
            if file.kind != EntryType::Directory {
                root.retain(|other, _| !other.starts_with(&format!("{path}/")));
            }
            for (at, _) in path.match_indices('/') {
                root.entry(path[..at].to_owned()).or_insert_with(implied);
            }
            root.insert(path, file);
        }
    }
    root
}

/// A directory that no layer has.
fn implied() -> Unpacked {
    let (kind, mode, owner, mtime) = (EntryType::Directory, 0o755, (0, 0), "0".to_owned());
    Unpacked { kind, mode, owner, mtime, xattrs: BTreeMap::new(), content: Vec::new() }
}

fn file(entry: &mut tar::Entry<'_, &[u8]>, layer: &BTreeMap<String, Unpacked>) -> Unpacked {
    let kind = entry.header().entry_type();
    if kind == EntryType::Link {
        let target = entry.link_name().unwrap().unwrap().to_str().unwrap().to_owned();
        return layer.get(&target).unwrap_or_else(|| panic!("{target} is in no lower place of the layer")).clone();
    }
    let mut xattrs = BTreeMap::new();
    let mut mtime = entry.header().mtime().unwrap().to_string();
    for record in entry.pax_extensions().unwrap().into_iter().flatten() {
        let record = record.unwrap();
        match record.key().unwrap() {
            "mtime" => record.value().unwrap().clone_into(&mut mtime),
            key if key.starts_with("SCHILY.xattr.") => {
                xattrs.insert(key.to_owned(), record.value_bytes().to_vec());
            }
            _ => {}
        }
    }
    let header = entry.header();
    let (mode, owner) = (header.mode().unwrap(), (header.uid().unwrap(), header.gid().unwrap()));
    let mut content = Vec::new();
    match kind {
        EntryType::Symlink => content = entry.link_name_bytes().unwrap().into_owned(),
        _ => drop(entry.read_to_end(&mut content).unwrap()),
    }
    Unpacked { kind, mode, owner, mtime, xattrs, content }
}
