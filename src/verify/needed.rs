//! Checks that the files to which a lazy catalogue of a database leads exist, and that a catalogue leads to the others.
//! Its library takes it only on the GPU that its name says, and has to have these files then.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::context::Context;
use super::manifest_files::ProvenFiles;
use super::parts::{PartFile, PartsKind};
use super::rules::Rule;
use crate::coverage::{CodePlace, CoveredDatabase, DatabaseQuestion, InputDatabases, LibraryCode};
use crate::database::tensile_library::{self, processor_of_further, processor_of_lazy};
use crate::database::{Handler, catalogue_names};
use crate::memory::Parser;
use crate::source::{EntryKind, EntryPath, Resolved, resolve_links};

/// The libraries whose catalogues are called differently.
const LIBRARIES: [Handler; 2] = [Handler::Rocblas, Handler::Hipblaslt];

/// The names of files in a directory.
type FileNames<'a> = BTreeSet<&'a str>;

impl Context<'_> {
    /// Checks the lazy catalogues, of all parts laid over each other: catalogues for all GPUs are in the host part.
    pub(super) fn check_needed(&self, listed: &ProvenFiles) {
        // The other parts have the rest.
        if self.parts.kind == PartsKind::Fragment {
            return;
        }
        let lazy: Vec<_> =
            self.parts.files().filter_map(|file| Some((file, processor_of(file.path, processor_of_lazy)?))).collect();
        let files = self.parts.files();
        let further: BTreeMap<_, _> = files
            .filter_map(|file| Some(((file.path.directory(), processor_of(file.path, processor_of_further)?), file)))
            .collect();
        let of_all = lazy.iter().map(|(file, _)| file.path.directory()).chain(further.keys().map(|(it, _)| *it));
        let mut directories: BTreeMap<&[u8], FileNames<'_>> = of_all.map(|it| (it, FileNames::new())).collect();
        if directories.is_empty() {
            return;
        }
        let kind = |path: &EntryPath| self.parts.all.iter().find_map(|part| Some(&part.input.entry(path)?.kind));
        let is_in_parts = |path: &EntryPath| matches!(resolve_links(path, None, kind), Resolved::Entry(_));
        let entries = self.parts.all.iter().flat_map(|part| part.input.entries.iter().map(move |entry| (entry, part)));
        for (entry, part) in entries {
            let files = directories.get_mut(entry.path.directory());
            // What a symlink leads to is not examined.
            let files = files.filter(|_| match entry.kind {
                EntryKind::Directory => false,
                EntryKind::Symlink(_) => is_in_parts(&entry.path) || part.input.leads(&entry.path),
                EntryKind::File { .. } => true,
            });
            if let Some((files, name)) = files.zip(std::str::from_utf8(entry.path.name()).ok()) {
                files.insert(name);
            }
        }
        for ((directory, processor), file) in &further {
            let mut leading = LIBRARIES.iter().flat_map(|&library| tensile_library::catalogues(library, processor));
            if !directories.get(directory).is_some_and(|files| leading.any(|name| files.contains(&*name))) {
                let reason = format!("the catalogue is missing that leads to it and to the others for {processor}");
                self.findings.add(Rule::DatabaseMissing, self.parts.label(file.part, file.path), reason);
            }
        }
        for (file, processor) in lazy {
            let Some(files) = directories.get(file.path.directory()) else { continue };
            self.check_lazy(file, &processor, files, listed);
        }
    }

    /// Checks that an installation has something of the database of each library that ends the process without it, or has code
    /// that is found. Of a split, manifests list the files.
    pub(super) fn check_absent(&self, with_code: &HashSet<&EntryPath>) {
        let [whole] = &*self.parts.all else { return };
        if self.parts.kind != PartsKind::Installation {
            return;
        }
        let gpus: Vec<_> = self.archives.targets.iter().cloned().collect();
        let code = |path: &&EntryPath| {
            let targets = std::iter::once(self.archives.targets.clone());
            LibraryCode::new((*path).clone(), CodePlace::Split, targets.collect())
        };
        let code: Vec<_> = with_code.iter().map(code).collect();
        let libraries: Vec<_> = code.iter().collect();
        let databases = InputDatabases::of(&whole.input, &whole.databases, &libraries, self.resources);
        let is_file =
            |path: &EntryPath| matches!(whole.input.entry(path).map(|it| &it.kind), Some(EntryKind::File { .. }));
        // It may be where a symlink leads that is not followed.
        let is_gone = |database: &CoveredDatabase| {
            EntryPath::new(database.path.as_bytes()).is_ok_and(|path| is_file(&path) || !whole.input.leads(&path))
        };
        for database in databases.absent(DatabaseQuestion::all(&gpus)).into_iter().filter(is_gone) {
            let reason = format!("{} reads it, and it does not exist", database.library);
            let label = EntryPath::new(database.path.as_bytes()).map(|path| whole.label(&path)).unwrap_or_default();
            self.findings.add(Rule::DatabaseMissing, label, reason);
        }
    }

    fn check_lazy(&self, file: PartFile<'_>, processor: &str, files: &FileNames<'_>, listed: &ProvenFiles) {
        let read = self.parts.all.get(file.part).and_then(|part| part.read(file.path, Parser::Catalogue).ok()?);
        let is_compressed = file.path.name().ends_with(b".zlib");
        let (rule, reason) = match read.map(|bytes| catalogue_names(&bytes, is_compressed)) {
            Some(Ok(named)) => (Rule::DatabaseMissing, lost(&named, processor, files)),
            // Catalogues that no manifest lists are checked with all files of databases.
            Some(Err(reason)) if self.is_as_listed(listed, file.part, file.path) => {
                (Rule::DatabaseCatalogue, Some(reason))
            }
            Some(Err(_)) | None => return,
        };
        if let Some(reason) = reason {
            self.findings.add(rule, self.parts.label(file.part, file.path), reason);
        }
    }
}

/// The processor of a lazy catalogue, or of a file to which one has to lead, in the database of one of Tensile's
/// libraries. `None` if that is a generic one: no released library reads it, and the names of its fallback code are open
/// (ROCm/rocm-libraries#9366).
fn processor_of(path: &EntryPath, named: fn(&str) -> Option<String>) -> Option<String> {
    let processor = named(std::str::from_utf8(path.name()).ok()?)?;
    let is_read = tensile_library::kind(path).is_some() && !processor.ends_with("-generic");
    is_read.then_some(processor)
}

/// What is missing of the files that the catalogue for a processor leads to.
fn lost(named: &BTreeSet<String>, processor: &str, files: &FileNames<'_>) -> Option<String> {
    Some(tensile_library::lost(named, processor, files)?.sentence(processor))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{lost, processor_of, processor_of_further, processor_of_lazy};
    use crate::source::EntryPath;

    const FILES: [&str; 8] = [
        "TensileLibrary_lazy_gfx90a.dat",
        "TensileLibrary_A_fallback.dat",
        "TensileLibrary_A_fallback_gfx90a-xnack-.hsaco",
        "TensileLibrary_A_fallback_gfx90a-xnack+.hsaco",
        "TensileLibrary_B_gfx90a.dat.zlib",
        "TensileLibrary_B_gfx90a.co",
        "Kernels.so-000-gfx90a-xnack+.hsaco",
        "TensileLibrary_B_gfx942.co",
    ];

    /// What is said without these files, and with these.
    fn said(without: &[&str], with: &[&str]) -> Option<String> {
        let named = ["TensileLibrary_A_fallback", "TensileLibrary_B_gfx90a"].map(str::to_owned).into();
        let files = FILES.iter().copied().filter(|name| !without.iter().any(|it| name.contains(it)));
        lost(&named, "gfx90a", &files.chain(with.iter().copied()).collect())
    }

    #[test]
    fn catalogues_name_their_processor() {
        for (path, lazy, further) in [
            ("lib/rocblas/library/TensileLibrary_lazy_gfx90a.dat", Some("gfx90a"), None),
            ("lib/hipblaslt/library/gfx942/TensileLibrary_lazy_gfx942.dat.zlib", Some("gfx942"), None),
            ("lib/rocblas/library/TensileLibrary_lazy_gfx11-generic.dat", None, None),
            ("lib/other/TensileLibrary_lazy_gfx90a.dat", None, None),
            ("lib/hipblaslt/library/TensileLibrary_A_gfx942.dat.zlib", None, Some("gfx942")),
            ("lib/rocblas/library/TensileLibrary_A_gfx90a.dat", None, Some("gfx90a")),
            ("lib/rocblas/library/TensileLibrary_gfx90a.dat", None, None),
            ("lib/rocblas/library/TensileLibrary_A_fallback.dat", None, None),
            ("lib/rocblas/library/TensileLibrary_A_gfx90a.co", None, None),
            ("lib/rocblas/library/Kernels.so-000-gfx90a-xnack+.hsaco", None, Some("gfx90a")),
            ("lib/hipblaslt/library/extop_gfx90a.co", None, None),
        ] {
            let of = |named| processor_of(&EntryPath::new(path.as_bytes()).unwrap(), named);
            let found = (of(processor_of_lazy), of(processor_of_further));
            assert_eq!((found.0.as_deref(), found.1.as_deref()), (lazy, further), "{path}");
        }
    }

    #[test]
    fn a_catalogue_has_the_files_that_it_leads_to() {
        let lost = |text: &str| Some(text.to_owned());
        assert_eq!(said(&[], &[]), None);
        assert_eq!(said(&["xnack-"], &[]), None);
        assert_eq!(said(&["B_gfx90a.dat"], &[]), lost("it names what does not exist: TensileLibrary_B_gfx90a.dat"));
        let all = "it names what does not exist: TensileLibrary_A_fallback.dat, and 1 more";
        assert_eq!(said(&["A_fallback.dat", "B_gfx90a.dat"], &[]), lost(all));
        let code = "it leads to what does not exist: TensileLibrary_B_gfx90a.co or .hsaco";
        assert_eq!(said(&["B_gfx90a.co"], &[]), lost(code));
        assert_eq!(said(&["B_gfx90a.co"], &["TensileLibrary_B_gfx90a.hsaco"]), None);
        let fallback = "it leads to what does not exist: TensileLibrary_A_fallback_gfx90a.hsaco";
        assert_eq!(said(&["A_fallback_gfx90a"], &[]), lost(fallback));
        assert_eq!(super::lost(&BTreeSet::new(), "gfx90a", &BTreeSet::new()), None);
    }

    #[test]
    fn code_under_other_names_is_code() {
        let none = ["A_fallback_gfx90a", "B_gfx90a.co"];
        let said_of_none = "it names catalogues, and there is no code for gfx90a";
        assert_eq!(said(&none, &[]), Some(said_of_none.to_owned()));
        for other in ["Tensile_gfx90a.kpack", "TensileLibrary_gfx90a.co", "gfx90a.zip"] {
            assert_eq!(said(&none, &[other]), None, "{other}");
        }
    }

    #[test]
    fn helper_kernels_are_those_of_the_gpu() {
        for other in [None, Some("Kernels.so-000-gfx942.hsaco")] {
            let said = said(&["Kernels"], other.as_slice());
            assert_eq!(said.as_deref(), Some("there are no helper kernels for gfx90a"), "{other:?}");
        }
    }
}
