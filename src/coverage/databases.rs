//! The kernel databases of an input: the files of one handler and one kind in one directory, and what the libraries of the
//! input that read them find.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rayon::prelude::*;

use super::code::LibraryCode;
use super::judge::WrapperCode;
use super::lookup::{
    DatabasePlace, DatabaseSearch, InputFiles, LibraryFiles, LoadedLibrary, LookupEvidence, Severity, missing_of_lazy,
};
use super::model::{Cell, CoverageInput, CoveredDatabase, DatabaseAnswer};
use crate::database::{Arch, DatabaseReader, Databases, Handler, KernelFiles, named_arch};
use crate::fatbin::CodeFile;
use crate::gpu::{BundleKey, Level, TargetId};
use crate::resources::Resources;
use crate::source::{EntryKind, EntryPath, Input};
use crate::split::{Destination, Plan};

/// The files of databases, with the architecture of each.
type DatabaseFiles<'a> = Vec<(&'a EntryPath, Handler, Arch)>;

/// The databases of an input, and the libraries that may read them.
pub(crate) struct InputDatabases<'a> {
    input: &'a Input,
    files: DatabaseFiles<'a>,
    libraries: &'a [&'a LibraryCode],
    readers: Vec<ReadingLibrary>,
    resources: &'a Arc<Resources>,
}

/// What is asked of databases.
#[derive(Clone, Copy)]
pub(crate) struct DatabaseQuestion<'a> {
    pub(crate) gpus: &'a [TargetId],
    /// Whether the database in a directory is wanted, by the name of its library.
    pub(crate) is_judged: &'a dyn Fn(&EntryPath, &str) -> bool,
    /// Whether they are judged as if each library were built for all GPUs, because the user named them.
    pub(crate) is_named: bool,
}

impl<'a> DatabaseQuestion<'a> {
    /// The question about all databases.
    pub(crate) fn all(gpus: &'a [TargetId]) -> Self {
        Self { gpus, is_judged: &|_, _| true, is_named: false }
    }
}

/// A library that reads a database, and the directories of the names under which it may be loaded.
struct ReadingLibrary {
    handler: Handler,
    reader: &'static DatabaseReader,
    path: EntryPath,
    directories: Vec<PathBuf>,
}

/// A file of a database for a wanted GPU.
struct FileOfDatabase<'a> {
    path: &'a EntryPath,
    archs: Vec<Arch>,
    /// What its headers show if it is code, or why they cannot be read.
    code: Option<Result<CodeFile, String>>,
}

impl FileOfDatabase<'_> {
    /// Why a GPU that takes this file cannot load it.
    fn damage_for(&self, gpu: &TargetId) -> Option<String> {
        let code = self.code.as_ref().filter(|_| self.archs.iter().any(|arch| serves(arch, gpu)))?;
        code.as_ref().map_or_else(|reason| Some(reason.clone()), |code| code.damage_for(gpu).map(str::to_owned))
    }
}

/// The files that planning assigned to databases.
fn planned<'a>(input: &'a Input, plan: &Plan) -> DatabaseFiles<'a> {
    let files = input.entries.iter().zip(&plan.places).filter_map(|(entry, place)| match place {
        Destination::Device(key, handler) | Destination::Unwanted(key, handler) => {
            let path = &entry.path;
            let of_generic = plan.generic.get(path).map(|(target, _)| Arch::Target(target.clone()));
            Some((path, *handler, of_generic.unwrap_or_else(|| arch(*handler, path, key))))
        }
        _ => None,
    });
    files.collect()
}

/// The architecture of a file: that of its name, else that of the part to which its header assigned it.
fn arch(handler: Handler, path: &EntryPath, key: &BundleKey) -> Arch {
    let of_key = || match (key.level(), key.as_str().parse()) {
        (Level::Target, Ok(target)) => Arch::Target(target),
        _ => Arch::Bundle(key.clone()),
    };
    handler.named_arch(path).unwrap_or_else(of_key)
}

impl<'a> InputDatabases<'a> {
    /// Those of the files that planning assigned to databases.
    pub(super) fn planned(examined: &CoverageInput<'a>, libraries: &'a [&'a LibraryCode]) -> Self {
        let CoverageInput { input, plan, resources, .. } = *examined;
        Self { input, files: planned(input, plan), libraries, readers: readers(input), resources }
    }

    /// Those of the files that have the names of databases.
    pub(crate) fn of(
        input: &'a Input,
        known: &Databases,
        libraries: &'a [&'a LibraryCode],
        resources: &'a Arc<Resources>,
    ) -> Self {
        let files =
            input.files().filter_map(|(path, _)| known.classify(path).map(|file| (path, file.handler, file.arch)));
        Self { input, files: files.collect(), libraries, readers: readers(input), resources }
    }

    /// The databases that are wanted, with those of which the input has nothing, and without which a library in it does not
    /// work for a GPU.
    pub(crate) fn judge(&self, question: DatabaseQuestion<'_>) -> Vec<CoveredDatabase> {
        let mut found = self.present(question);
        found.extend(self.absent(question));
        found
    }

    fn present(&self, question: DatabaseQuestion<'_>) -> Vec<CoveredDatabase> {
        let DatabaseQuestion { gpus, is_judged, is_named } = question;
        let mut databases = BTreeMap::<(EntryPath, Handler, KernelFiles), Vec<(&EntryPath, &Arch)>>::new();
        for (path, handler, arch) in &self.files {
            if let Some(kind) = handler.kind(path) {
                databases.entry((handler.directory(path), *handler, kind)).or_default().push((*path, arch));
            }
        }
        databases.retain(|(path, handler, _), _| is_judged(path, handler.name()));
        let mut found = Vec::<CoveredDatabase>::new();
        for ((path, handler, files), members) in databases {
            let paths: Vec<_> = members.iter().map(|(path, _)| *path).collect();
            let (others, wanted): (Vec<_>, Vec<_>) = members
                .into_iter()
                .partition(|(_, arch)| files == KernelFiles::Catalogue || !gpus.iter().any(|gpu| serves(arch, gpu)));
            let code: Vec<_> = wanted.into_par_iter().map(|(path, arch)| self.read(handler, path, arch)).collect();
            let of_code = code.iter().flat_map(|file| &file.archs);
            let archs: BTreeSet<_> = others.into_iter().map(|(_, arch)| arch).chain(of_code).cloned().collect();
            // One answer is for all kinds of files.
            let before = found.last().filter(|it| it.path == path.to_string() && it.library == handler.name());
            let reader = if before.is_none() { self.reader_of(handler, &path) } else { None };
            let answer = |gpu: &TargetId| {
                if let Some((file, reason)) = code.iter().find_map(|file| Some((file.path, file.damage_for(gpu)?))) {
                    let name = String::from_utf8_lossy(file.name());
                    let reason = format!("{name}, which is for {gpu}, cannot be loaded: {reason}");
                    return Some((gpu.to_string(), DatabaseAnswer::Lacks { file: file.to_string(), reason }));
                }
                let answer = match before {
                    Some(before) => before.answers.get(&gpu.to_string()).map(|_| DatabaseAnswer::Found),
                    None => self.answer(handler, &path, reader.as_ref(), gpu, is_named),
                };
                Some((gpu.to_string(), answer?))
            };
            let answers = gpus.iter().filter_map(answer).collect();
            let mut database = CoveredDatabase {
                library: handler.name(),
                path: path.to_string(),
                files,
                targets: archs.iter().map(ToString::to_string).collect(),
                gpus: gpus.iter().map(|gpu| (gpu.to_string(), cell(gpu, &archs))).collect(),
                answers,
            };
            if handler.is_optional() && !is_named {
                database.need_not_have(gpus, |_| true);
            }
            // A path that says that it is for a GPU has to have code for it.
            if handler == Handler::Codeobject && !is_named {
                let named = paths.iter().filter_map(|path| named_arch(path)).map(Arch::Target).collect();
                database.need_not_have(gpus, |gpu| !cell(gpu, &named).is_found());
            }
            found.push(database);
        }
        found
    }

    pub(crate) fn absent(&self, question: DatabaseQuestion<'_>) -> Vec<CoveredDatabase> {
        let DatabaseQuestion { gpus, is_judged, is_named } = question;
        let files = InputFiles(self.input);
        let there: BTreeSet<_> = self.files.iter().map(|(path, handler, _)| handler.directory(path)).collect();
        let absent = self.readers.iter().filter_map(|library| {
            let loaded = LoadedLibrary { path: library.path.as_path(), directories: &library.directories };
            let place = DatabasePlace::near(library.reader, &loaded, &files)?;
            let path = EntryPath::new(place.directory.as_os_str().as_bytes()).ok()?;
            let handler = library.handler;
            if there.contains(&path) || !is_judged(&path, handler.name()) {
                return None;
            }
            let reader = self.reader_of(handler, &path);
            let answer =
                |gpu: &TargetId| Some((gpu.to_string(), self.answer(handler, &path, reader.as_ref(), gpu, is_named)?));
            let database = CoveredDatabase {
                library: handler.name(),
                path: path.to_string(),
                files: KernelFiles::Any,
                targets: Vec::new(),
                gpus: gpus.iter().map(|gpu| (gpu.to_string(), cell(gpu, &BTreeSet::new()))).collect(),
                answers: gpus.iter().filter_map(answer).collect(),
            };
            gpus.iter().any(|gpu| database.lacks(&gpu.to_string())).then_some(database)
        });
        absent.collect()
    }

    /// Reads the headers of the code in a file. Where no library is known, they decide for which GPUs it is, with their features.
    fn read<'b>(&self, handler: Handler, path: &'b EntryPath, arch: &Arch) -> FileOfDatabase<'b> {
        let content = InputFiles(self.input).open(path.as_path());
        let code = content.and_then(|content| match handler.kind(path) {
            Some(KernelFiles::Code) => Some(CodeFile::expect(&content, self.resources)),
            _ => CodeFile::read(&content, self.resources).map_err(|error| error.to_string()).transpose(),
        });
        let targets = match &code {
            Some(Ok(code)) if handler == Handler::Codeobject && !code.targets.is_empty() => Some(&code.targets),
            _ => None,
        };
        let of_targets = targets.map(|targets| targets.iter().cloned().map(Arch::Target).collect());
        let code = if of_targets.is_none() { code.map(|code| in_named_mode(code?, arch)) } else { code };
        let archs = of_targets.unwrap_or_else(|| vec![arch.clone()]);
        FileOfDatabase { path, archs, code }
    }

    /// The library that reads a database, and where it does. Finding that may read all of the library.
    fn reader_of(&self, handler: Handler, directory: &EntryPath) -> Option<(&ReadingLibrary, DatabasePlace)> {
        let files = InputFiles(self.input);
        let place_of = |library: &ReadingLibrary| {
            let loaded = LoadedLibrary { path: library.path.as_path(), directories: &library.directories };
            DatabasePlace::near(library.reader, &loaded, &files).filter(|place| place.directory == directory.as_path())
        };
        let mut of_handler = self.readers.iter().filter(|library| library.handler == handler);
        of_handler.find_map(|library| Some((library, place_of(library)?)))
    }

    /// What the library that reads a database finds for a GPU. `None` if no library of the input reads it, and it has all
    /// that a lazy catalogue for the GPU names.
    fn answer(
        &self,
        handler: Handler,
        directory: &EntryPath,
        reader: Option<&(&ReadingLibrary, DatabasePlace)>,
        gpu: &TargetId,
        is_named: bool,
    ) -> Option<DatabaseAnswer> {
        let (files, directory) = (InputFiles(self.input), directory.as_path());
        let device = &gpu.default_device(false);
        let Some((library, place)) = reader else {
            return self
                .missing_of_lazy(handler, directory, device)
                .map(|reason| DatabaseAnswer::Lacks { file: directory.display().to_string(), reason });
        };
        let (path, files, resources) = (library.path.as_path(), &files, self.resources);
        let search = DatabaseSearch { handler, library: path, place, device, files, resources };
        let Some(problem) = search.look_up(&mut LookupEvidence::default()) else {
            return Some(DatabaseAnswer::Found);
        };
        let code = self.libraries.iter().find(|code| code.path == library.path);
        let has_code = code.is_some_and(|code| code.cell(gpu, |_| true).is_found());
        let is_failure = problem.is_failure(handler, has_code, is_named);
        Some(match problem.severity {
            _ if is_failure => {
                DatabaseAnswer::Lacks { file: problem.path.display().to_string(), reason: problem.reason }
            }
            Severity::NotBuilt => DatabaseAnswer::NotBuilt(problem.reason),
            Severity::Broken | Severity::Remark => DatabaseAnswer::Remark(problem.reason),
        })
    }

    /// What is missing of what the lazy catalogue for a GPU names.
    fn missing_of_lazy(&self, handler: Handler, directory: &Path, device: &TargetId) -> Option<String> {
        let files = InputFiles(self.input);
        let below = directory.join(device.processor());
        let directory = if files.list(&below).is_ok() { &*below } else { directory };
        missing_of_lazy(handler, directory, device.processor(), &files)
    }
}

/// The code of a file, unless its name says that it is for another mode than all of its code.
fn in_named_mode(code: CodeFile, arch: &Arch) -> Result<CodeFile, String> {
    match (arch, code.targets.first()) {
        (Arch::Target(named), Some(first)) if code.targets.iter().all(|target| named.contradicts(target)) => {
            Err(format!("it is code for {first}"))
        }
        _ => Ok(code),
    }
}

/// The libraries of the input that read databases.
fn readers(input: &Input) -> Vec<ReadingLibrary> {
    let files = InputFiles(input);
    let mut found = BTreeMap::<EntryPath, ReadingLibrary>::new();
    for entry in input.entries.iter().filter(|entry| !matches!(entry.kind, EntryKind::Directory)) {
        let name = std::str::from_utf8(entry.path.name()).ok();
        let Some((handler, reader)) = name.and_then(Handler::read_by) else { continue };
        let (Some(path), Some(directory)) = (files.resolve(entry.path.as_path()), entry.path.parent()) else {
            continue;
        };
        let library = found.entry(path.clone());
        let library = library.or_insert_with(|| ReadingLibrary { handler, reader, path, directories: Vec::new() });
        library.directories.push(directory.as_path().to_owned());
    }
    found.into_values().collect()
}

/// Whether a GPU takes the files of an architecture.
pub(crate) fn serves(arch: &Arch, gpu: &TargetId) -> bool {
    cell(gpu, &BTreeSet::from([arch.clone()])).is_found()
}

fn cell(gpu: &TargetId, archs: &BTreeSet<Arch>) -> Cell {
    let targets: Vec<_> = archs
        .iter()
        .filter_map(|arch| match arch {
            Arch::Target(target) => Some(target),
            Arch::Bundle(_) => None,
        })
        .collect();
    let cell = Cell::of(&[WrapperCode::of(0, gpu, &targets)]);
    let chain = BundleKey::of(gpu).packaging_chain();
    let family = archs.iter().find_map(|arch| match arch {
        Arch::Bundle(key) if chain.contains(key) => Some(key.to_string()),
        Arch::Bundle(_) | Arch::Target(_) => None,
    });
    match family {
        Some(key) if !cell.is_found() => Cell::of_family(key),
        _ => cell,
    }
}
