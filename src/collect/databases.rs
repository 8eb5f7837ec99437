//! Tensile databases that lack a file for a GPU which they have for others.
//!
//! Libraries of Tensile read a catalogue for the GPU (`TensileLibrary_lazy_gfx1100.dat`), helper kernels
//! (`Kernels.so-000-gfx1100.hsaco`), and for each kind of problem a catalogue and its code (ROCm/Tensile
//! `Tensile/TensileCreateLibrary.py`). They fail at run time if one of them is gone. Only names are read here.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{MissingKind, MissingPiece};
use crate::database::{Arch, Databases, Handler};
use crate::gpu::TargetId;
use crate::source::{Entry, EntryKind, EntryPath};

/// How files begin that a library has for each GPU that it supports.
const FOR_EACH: [&str; 3] = ["TensileLibrary_lazy_", "Kernels.so-", "extop_"];

/// The files of one purpose in a database, by processor: their names, by whether they are code.
type FilesOfGpus = BTreeMap<String, BTreeMap<bool, String>>;

/// The files that databases lack for these GPUs, if they have others for the GPU and the same for another one.
pub(super) fn incomplete(entries: &[Entry], gpus: &[TargetId]) -> Vec<MissingPiece> {
    let databases = Databases::all();
    let mut purposes = BTreeMap::<(EntryPath, String), FilesOfGpus>::new();
    let mut present = BTreeSet::<(EntryPath, String)>::new();
    for entry in entries.iter().filter(|entry| !matches!(entry.kind, EntryKind::Directory)) {
        let Some(file) = databases.classify(&entry.path) else { continue };
        let is_tensile = matches!(file.handler, Handler::Rocblas | Handler::Hipblaslt | Handler::Hipsparselt);
        let (Arch::Target(target), true) = (&file.arch, is_tensile) else { continue };
        let directory = file.handler.directory(&entry.path);
        let Some(below) = entry.path.below(&directory).map(|below| below.to_string()) else { continue };
        let Some((stem, extension)) = below.trim_end_matches(".zlib").rsplit_once('.') else { continue };
        let is_code = matches!(extension, "co" | "hsaco");
        if !is_code && extension != "dat" {
            continue;
        }
        let processor = target.processor().to_owned();
        let purpose = stem.replace(&processor, "*");
        present.insert((directory.clone(), processor.clone()));
        purposes.entry((directory, purpose)).or_default().entry(processor).or_default().insert(is_code, below);
    }
    let mut missing = Vec::new();
    for ((directory, purpose), of_gpus) in &purposes {
        for gpu in gpus.iter().map(TargetId::processor) {
            if !present.contains(&(directory.clone(), gpu.to_owned())) {
                continue;
            }
            let name = purpose.rsplit('/').next().unwrap_or_default();
            let is_for_each = FOR_EACH.iter().any(|begin| name.starts_with(begin));
            let own = of_gpus.get(gpu).cloned().unwrap_or_default();
            if own.is_empty() && !is_for_each {
                continue;
            }
            let others = of_gpus.iter().filter(|(other, _)| *other != gpu);
            for (other, (is_code, file)) in
                others.flat_map(|(other, files)| files.iter().map(move |file| (other, file)))
            {
                let name = directory.child(file.replace(other, gpu).as_bytes()).to_string();
                if own.contains_key(is_code) || missing.iter().any(|piece: &MissingPiece| piece.name == name) {
                    continue;
                }
                let reason = format!("the database has {file} for {other}, and other files for {gpu}");
                missing.push(MissingPiece { kind: MissingKind::Database, name, by: directory.to_string(), reason });
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::incomplete;
    use crate::rope::Rope;
    use crate::source::{Attributes, Entry, EntryKind, EntryPath};

    fn missing(names: &[&str]) -> Vec<String> {
        let attributes = Attributes { mode: 0o644, uid: 0, gid: 0, mtime: 0, mtime_nanoseconds: 0 };
        let entry = |name: &&str| Entry {
            path: EntryPath::new(format!("lib/rocblas/library/{name}").as_bytes()).unwrap(),
            kind: EntryKind::File { content: Arc::new(Rope::default()), link_group: None },
            attributes,
        };
        let entries: Vec<_> = names.iter().map(entry).collect();
        incomplete(&entries, &["gfx1100".parse().unwrap()]).into_iter().map(|piece| piece.name).collect()
    }

    #[test]
    fn files_that_other_gpus_have() {
        let both = ["TensileLibrary_lazy_gfx1100.dat", "TensileLibrary_lazy_gfx942.dat"];
        assert_eq!(missing(&both), Vec::<String>::new());
        for (more, expected) in [
            (&["Kernels.so-000-gfx942.hsaco"][..], &["Kernels.so-000-gfx1100.hsaco"][..]),
            (
                &["TensileLibrary_HH_gfx942.co", "TensileLibrary_HH_gfx942.dat", "TensileLibrary_HH_gfx1100.dat"],
                &["TensileLibrary_HH_gfx1100.co"],
            ),
            // The library may have no kernels of that kind for this GPU.
            (&["TensileLibrary_HH_gfx942.co", "TensileLibrary_HH_gfx942.dat"], &[]),
            (&["TensileLibrary_HH_gfx1100.hsaco", "TensileLibrary_HH_gfx942.co"], &[]),
            (&["TensileLibrary_HH_fallback.dat", "TensileManifest.txt"], &[]),
        ] {
            let names = [&both[..], more].concat();
            let expected: Vec<_> = expected.iter().map(|name| format!("lib/rocblas/library/{name}")).collect();
            assert_eq!(missing(&names), expected, "{more:?}");
        }
        assert_eq!(missing(&["TensileLibrary_lazy_gfx942.dat"]), Vec::<String>::new(), "it does not support the GPU");
    }
}
