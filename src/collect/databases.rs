//! Tensile databases that lack a file: one that a catalogue names, or that the database has for other GPUs.
//!
//! Libraries of Tensile read a catalogue for the GPU, helper kernels, and for each kind of problem a catalogue and its code
//! (`database/tensile.rs`). They fail at run time if one of them is gone.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{MissingKind, MissingPiece};
use crate::database::tensile::{CODE, catalogues, without_code, without_file};
use crate::database::{Arch, Databases, Handler, catalogue_names};
use crate::gpu::TargetId;
use crate::memory::{Parser, WholeFile};
use crate::rope::Content;
use crate::source::{Entry, EntryKind, EntryPath};

/// How files begin that a library has for each GPU that it supports.
const FOR_EACH: [&str; 3] = ["TensileLibrary_lazy_", "Kernels.so-", "extop_"];

/// The files of one purpose in a database, by processor: their names, by whether they are code.
type FilesOfGpus = BTreeMap<String, BTreeMap<bool, String>>;

/// A database.
struct TensileFiles<'a> {
    handler: Handler,
    directory: &'a EntryPath,
    /// All files, by their paths below the directory.
    files: BTreeMap<String, &'a dyn Content>,
    /// The processors for which there are files, by their names.
    processors: BTreeSet<String>,
    /// Those files by what they are for.
    purposes: BTreeMap<String, FilesOfGpus>,
}

/// What databases of a result lack.
#[derive(Debug, Default)]
pub(super) struct IncompleteDatabases {
    pub(super) missing: Vec<MissingPiece>,
    pub(super) notes: Vec<String>,
    /// What is named already.
    named: BTreeSet<String>,
}

impl IncompleteDatabases {
    /// Finds the files that databases lack for these GPUs, if they have others for the GPU.
    pub(super) fn find(entries: &[Entry], gpus: &[TargetId]) -> Self {
        let databases = Databases::all();
        let mut found = BTreeMap::<EntryPath, (Handler, Vec<(&EntryPath, &TargetId)>)>::new();
        let classified: Vec<_> =
            entries.iter().filter_map(|entry| Some((entry, databases.classify(&entry.path)?))).collect();
        for (entry, file) in &classified {
            let is_tensile = matches!(file.handler, Handler::Rocblas | Handler::Hipblaslt | Handler::Hipsparselt);
            if let (Arch::Target(target), true) = (&file.arch, is_tensile) {
                let of_handler = found.entry(file.handler.directory(&entry.path)).or_insert((file.handler, Vec::new()));
                of_handler.1.push((&entry.path, target));
            }
        }
        let mut incomplete = Self::default();
        for (directory, (handler, named)) in &found {
            let database = TensileFiles::new(*handler, directory, named, entries);
            for gpu in gpus.iter().map(TargetId::processor).filter(|gpu| database.processors.contains(*gpu)) {
                incomplete.compare_gpus(&database, gpu);
                incomplete.follow_catalogue(&database, gpu);
            }
        }
        incomplete
    }

    fn miss(&mut self, database: &TensileFiles<'_>, file: &str, reason: String) {
        let name = database.directory.child(file.as_bytes()).to_string();
        if self.named.insert(name.clone()) {
            let by = database.directory.to_string();
            self.missing.push(MissingPiece { kind: MissingKind::Database, name, by, reason });
        }
    }

    /// Files that the database has for another GPU only.
    fn compare_gpus(&mut self, database: &TensileFiles<'_>, gpu: &str) {
        for (purpose, of_gpus) in &database.purposes {
            let name = purpose.rsplit('/').next().unwrap_or_default();
            let is_for_each = FOR_EACH.iter().any(|begin| name.starts_with(begin));
            let own = of_gpus.get(gpu);
            if own.is_none() && !is_for_each {
                continue;
            }
            for (other, files) in of_gpus.iter().filter(|(other, _)| *other != gpu) {
                for (_, file) in files.iter().filter(|(kind, _)| own.is_none_or(|own| !own.contains_key(*kind))) {
                    let reason = format!("the database has {file} for {other}, and other files for {gpu}");
                    let name = without_modes(in_no_directory_of(file, other)).replace(other, gpu);
                    self.miss(database, &format!("{}{name}", database.below(gpu)), reason);
                }
            }
        }
    }

    /// Files that the lazy catalogue of a GPU names.
    fn follow_catalogue(&mut self, database: &TensileFiles<'_>, gpu: &str) {
        let below = database.below(gpu);
        let files = catalogues(database.handler, gpu).into_iter().map(|name| format!("{below}{name}"));
        let Some((path, content)) =
            files.into_iter().find_map(|path| Some((path.clone(), *database.files.get(&path)?)))
        else {
            return;
        };
        let stored = WholeFile::of(Parser::Catalogue, content).map_err(|error| error.to_string());
        let names = match stored.and_then(|stored| catalogue_names(&stored, path.rsplit('.').next() == Some("zlib"))) {
            Ok(names) => names,
            Err(reason) => {
                self.notes.push(format!("{}/{path}: which files it needs is not known: {reason}", database.directory));
                return;
            }
        };
        let has = |file: &str| database.files.contains_key(&format!("{below}{file}"));
        for name in without_file(&names, &has) {
            self.miss(database, &format!("{below}{name}.dat"), format!("{path} names it"));
        }
        // The files have other names if there is no code for any.
        let lost = without_code(&names, gpu, &has);
        for name in lost.iter().filter(|_| lost.len() < names.len()) {
            let suffix = if name.ends_with(gpu) { ".co".to_owned() } else { format!("_{gpu}.hsaco") };
            self.miss(
                database,
                &format!("{below}{name}{suffix}"),
                format!("it is the code of a catalogue that {path} names"),
            );
        }
    }
}

impl<'a> TensileFiles<'a> {
    /// `named` are the files that have a processor in their names.
    fn new(
        handler: Handler,
        directory: &'a EntryPath,
        named: &[(&EntryPath, &TargetId)],
        entries: &'a [Entry],
    ) -> Self {
        let start = entries.partition_point(|entry| entry.path < *directory);
        let below = |entry: &'a Entry| Some((entry.path.below(directory)?.to_string(), entry));
        let all = entries.iter().skip(start).skip_while(|entry| entry.path == *directory).map_while(below);
        let content = |(name, entry): (String, &'a Entry)| match &entry.kind {
            EntryKind::File { content, .. } => Some((name, &**content)),
            _ => None,
        };
        let files = all.filter_map(content).collect();
        let mut database = Self { handler, directory, files, processors: BTreeSet::new(), purposes: BTreeMap::new() };
        for (path, target) in named {
            database.add(path, target.processor());
        }
        database
    }

    fn add(&mut self, path: &EntryPath, processor: &str) {
        let Some(below) = path.below(self.directory).map(|below| below.to_string()) else { return };
        let Some((stem, extension)) = below.trim_end_matches(".zlib").rsplit_once('.') else { return };
        let is_code = CODE.iter().any(|suffix| suffix.trim_start_matches('.') == extension);
        if !is_code && extension != "dat" {
            return;
        }
        let purpose = without_modes(in_no_directory_of(stem, processor)).replace(processor, "*");
        self.processors.insert(processor.to_owned());
        self.purposes.entry(purpose).or_default().entry(processor.to_owned()).or_default().insert(is_code, below);
    }

    /// The directory of a GPU with its `/`. Empty if its files are among those of others: both layouts are in one database.
    fn below(&self, gpu: &str) -> String {
        let directory = format!("{gpu}/");
        let mut files = self.files.range(directory.clone()..);
        let has_own = files.next().is_some_and(|(path, _)| path.starts_with(&directory));
        if has_own { directory } else { String::new() }
    }
}

/// The path of a file without the directory of a processor, in any of its modes.
fn in_no_directory_of<'a>(path: &'a str, processor: &str) -> &'a str {
    let below = path.split_once('/').filter(|(directory, _)| without_modes(directory) == processor);
    below.map_or(path, |(_, name)| name)
}

/// A name without the modes of its processor: code may be for both modes, or there is a file for each.
fn without_modes(name: &str) -> String {
    ["-xnack+", "-xnack-", "-sramecc+", "-sramecc-"].iter().fold(name.to_owned(), |name, mode| name.replace(mode, ""))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::IncompleteDatabases;
    use crate::rope::{Rope, Segment};
    use crate::source::{Attributes, Entry, EntryKind, EntryPath};

    fn missing(names: &[&str]) -> Vec<String> {
        let attributes = Attributes { mode: 0o644, uid: 0, gid: 0, mtime: 0, mtime_nanoseconds: 0 };
        let entry = |name: &&str| Entry {
            path: EntryPath::new(format!("lib/rocblas/library/{name}").as_bytes()).unwrap(),
            kind: EntryKind::File { content: Arc::new(Rope::default()), link_group: None },
            attributes,
        };
        let mut entries: Vec<_> = names.iter().map(entry).collect();
        entries.sort_by(|a, b| a.path.cmp(&b.path));
        named(IncompleteDatabases::find(&entries, &["gfx1100".parse().unwrap()]))
    }

    fn named(found: IncompleteDatabases) -> Vec<String> {
        found.missing.into_iter().map(|piece| piece.name).collect()
    }

    #[test]
    fn files_that_a_catalogue_names() {
        let attributes = Attributes { mode: 0o644, uid: 0, gid: 0, mtime: 0, mtime_nanoseconds: 0 };
        let tree = [["TensileLibrary_Type_HH_gfx1100", "TensileLibrary_Type_SS_fallback"]];
        let catalogue = rmp_serde::to_vec(&tree).unwrap();
        let all = [
            "TensileLibrary_Type_HH_gfx1100.co",
            "TensileLibrary_Type_HH_gfx1100.dat",
            "TensileLibrary_Type_SS_fallback.dat",
            "TensileLibrary_Type_SS_fallback_gfx1100.hsaco",
        ];
        for (below, gone) in
            ["", "gfx1100/"].into_iter().flat_map(|below| (0..=all.len()).map(move |gone| (below, gone)))
        {
            let directory = format!("lib/hipblaslt/library/{below}");
            let present = all.iter().enumerate().filter(|(number, _)| *number != gone).map(|(_, name)| *name);
            let entry = |name: &str| {
                let bytes = if name.contains("lazy") { catalogue.clone() } else { Vec::new() };
                let content = Rope::new([Segment::literal(bytes)]).unwrap();
                let path = EntryPath::new(format!("{directory}{name}").as_bytes()).unwrap();
                Entry { path, kind: EntryKind::File { content: Arc::new(content), link_group: None }, attributes }
            };
            let mut entries: Vec<_> = present.chain(["TensileLibrary_lazy_gfx1100.dat"]).map(entry).collect();
            entries.sort_by(|a, b| a.path.cmp(&b.path));
            let missing = named(IncompleteDatabases::find(&entries, &["gfx1100".parse().unwrap()]));
            let expected: Vec<_> = all.get(gone).map(|name| format!("{directory}{name}")).into_iter().collect();
            assert_eq!(missing, expected, "{below}");
        }
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
            // As in Debian's packages: a file for each mode, where a processor has modes.
            (
                &["Kernels.so-000-gfx90a-xnack+.hsaco", "Kernels.so-000-gfx1100.hsaco", "Kernels.so-000-gfx942.hsaco"],
                &[],
            ),
            (&["Kernels.so-000-gfx90a-xnack-.hsaco"], &["Kernels.so-000-gfx1100.hsaco"]),
        ] {
            let names = [&both[..], more].concat();
            let expected: Vec<_> = expected.iter().map(|name| format!("lib/rocblas/library/{name}")).collect();
            assert_eq!(missing(&names), expected, "{more:?}");
        }
        assert_eq!(missing(&["TensileLibrary_lazy_gfx942.dat"]), Vec::<String>::new(), "it does not support the GPU");
    }

    #[test]
    fn each_gpu_has_a_directory_or_none() {
        let of = |gpu: &str, is_nested: bool| {
            let below = if is_nested { format!("{gpu}/") } else { String::new() };
            ["TensileLibrary_lazy_", "TensileLibrary_HH_", "Kernels.so-000-"].map(|begin| {
                let suffix = if begin.ends_with("HH_") {
                    ".co"
                } else if begin.starts_with("Kernels") {
                    ".hsaco"
                } else {
                    ".dat"
                };
                format!("{below}{begin}{gpu}{suffix}")
            })
        };
        for (own, other) in [(false, false), (false, true), (true, false), (true, true)] {
            let all = [of("gfx1100", own), of("gfx90a-xnack-", other), of("gfx942", other)].concat();
            let names: Vec<_> = all.iter().map(String::as_str).collect();
            assert_eq!(missing(&names), Vec::<String>::new(), "{own} {other}");
            let helper = all.iter().position(|name| name.contains("Kernels")).unwrap();
            let rest = [&names[..helper], &names[helper + 1..]].concat();
            assert_eq!(missing(&rest), [format!("lib/rocblas/library/{}", names[helper])], "{own} {other}");
        }
    }
}
