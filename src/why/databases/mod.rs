//! Kernel databases: whether the library that reads one finds in it what a GPU needs.
//!
//! `database/` says which library reads which database, and where it searches; `coverage/lookup/` follows what it does
//! there. Here is what packages, the environment and other directories have to do with what is missing.

mod elsewhere;
mod packages;

use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::answer::DatabaseLookup;
use super::cause::Cause;
use super::installed::TriedArchives;
use super::installer::is_read_only;
use super::libraries::LibraryFile;
use super::library::Library;
use super::lookup::{Lookup, OfDatabase};
use super::question::Question;
use crate::coverage::{
    CauseKind, CodePlace, DatabasePlace, DatabaseSearch, DiskFiles, LoadedLibrary, LookupEvidence, Problem, Severity,
    Trail, serves,
};
use crate::database::{DatabaseFile, DatabaseReader, Databases, Handler};
use crate::gpu::TargetId;
use crate::source::EntryPath;
use crate::text::quoted;

/// A database, the library that reads it, and a GPU.
struct ExaminedDatabase<'a> {
    question: &'a Question,
    handler: Handler,
    reader: &'static DatabaseReader,
    library: &'a LibraryFile,
    /// The directories under whose names the library may be loaded.
    directories: &'a [PathBuf],
    device: TargetId,
    /// Whether the library has code of its own for the GPU.
    has_code: bool,
    files: DiskFiles<'a>,
}

impl Question {
    /// The database that has a library as a file for some GPUs, such as a plug-in of MIOpen: of these, the library that reads it
    /// opens those of its GPU. A library that was named answers for itself.
    pub(super) fn database_with(
        &self,
        file: &LibraryFile,
        library: &Library,
        gpu: &TargetId,
    ) -> Option<(Handler, OfDatabase)> {
        let is_named = self.loaded.is_none() && self.has_named(file);
        if is_named || !matches!(library.form(), CodePlace::Fat | CodePlace::Split) {
            return None;
        }
        // Of what is put together, the path in an installation of it counts, and not the part that a file is in.
        let inside = match library {
            Library::Held(code, Some(_)) => Some(code.path.clone()),
            Library::Held(..) | Library::Split(_) => None,
        };
        let known = Databases::all();
        let mut paths = inside.into_iter().chain(file.paths().filter_map(|path| entry_path(path)));
        let found = paths.find_map(|path| Some((known.classify(&path)?, path)));
        let (DatabaseFile { handler, arch }, path) = found?;
        let name = format!("{} in {}", handler.name(), handler.directory(&path));
        Some((handler, OfDatabase { name, is_for_gpu: serves(&arch, &self.device_of(gpu)) }))
    }

    /// Whether a library was named, rather than a directory with it.
    fn has_named(&self, library: &LibraryFile) -> bool {
        let is_it = |path: &PathBuf| path.canonicalize().is_ok_and(|path| path == library.path);
        self.paths.iter().any(is_it)
    }

    /// The look-ups in the database that a library reads. `lookups` are those of the library's own code: a GPU for which
    /// that is missing is not looked up again.
    pub(super) fn look_up_database(
        &self,
        file: &LibraryFile,
        lookups: &[Lookup],
        gpus: &[usize],
    ) -> Vec<DatabaseLookup> {
        let read_by = |path: &PathBuf| Handler::read_by(path.file_name()?.to_str()?);
        let Some((handler, reader)) = file.paths().find_map(read_by) else { return Vec::new() };
        let mut directories: Vec<_> = file.paths().filter_map(|path| path.parent().map(Path::to_owned)).collect();
        if reader.follows_links {
            directories.reverse();
        }
        let examine = |gpu: &TargetId| {
            let device = self.device_of(gpu);
            let own = lookups.iter().find(|it| it.target == device.to_string());
            let has_code = own.is_some_and(|it| it.with_code > 0);
            let (question, library, directories) = (self, file, &*directories);
            let files = DiskFiles { root: &file.root, resources: &self.resources };
            let examined =
                ExaminedDatabase { question, handler, reader, library, directories, device, has_code, files };
            if own.is_some_and(|it| it.cause.is_some()) { None } else { examined.look_up() }
        };
        gpus.iter().filter_map(|&number| self.gpus.get(number)).filter_map(examine).collect()
    }
}

/// A path without its root.
fn entry_path(path: &Path) -> Option<EntryPath> {
    let names = path.components().filter_map(|name| match name {
        Component::Normal(name) => Some(name.as_bytes()),
        _ => None,
    });
    EntryPath::new(&names.collect::<Vec<_>>().join(&b'/')).ok()
}

impl ExaminedDatabase<'_> {
    fn look_up(&self) -> Option<DatabaseLookup> {
        let place = DatabasePlace::of(self.reader, &self.loaded(), &self.files, &self.question.variables)?;
        if !self.search(&place).is_there() {
            return None;
        }
        let mut lookup = DatabaseLookup {
            database: self.handler.name(),
            library: self.library.path.display().to_string(),
            target: self.device.to_string(),
            ..DatabaseLookup::default()
        };
        let how = match place.variable {
            Some(variable) => format!("{variable} names {}", place.directory.display()),
            None => format!("{} looks in {}", self.reader.name, place.directory.display()),
        };
        lookup.evidence.follows(format!("{how} ({})", self.reader.source));
        let mut evidence = LookupEvidence::default();
        let problem = self.search(&place).look_up(&mut evidence);
        lookup.directory = evidence.directory;
        lookup.evidence.extend(evidence.trail);
        let Some(problem) = problem else {
            lookup.cause = self.question.installed.version(self.library, &self.device);
            lookup.found = lookup.cause.is_none();
            return Some(lookup);
        };
        if let Some(prints) = &problem.prints {
            lookup.evidence.follows(format!("{} prints: {prints}", self.reader.name));
        }
        let severity = problem.severity;
        let is_failure = problem.is_failure(self.handler, self.has_code, self.is_named());
        let (cause, is_explained) = self.explain(problem, &place);
        if is_failure || is_explained && !self.reader.is_optional {
            lookup.cause = Some(cause);
        } else if severity == Severity::NotBuilt && !is_explained {
            lookup.evidence.saw(cause.reason.as_str());
            lookup
                .evidence
                .follows(format!("a release of {} that is not built for this GPU looks the same", self.reader.name));
            lookup.not_built = (!self.reader.is_optional).then_some(cause);
        } else {
            lookup.found = severity == Severity::Remark;
            lookup.remark = Some(cause);
        }
        Some(lookup)
    }

    fn loaded(&self) -> LoadedLibrary<'_> {
        LoadedLibrary { path: &self.library.path, directories: self.directories }
    }

    /// Whether the question is about this library, rather than about a directory.
    fn is_named(&self) -> bool {
        self.handler != Handler::Miopen && self.question.has_named(self.library)
    }

    /// The search in a directory.
    fn search<'a>(&'a self, place: &'a DatabasePlace) -> DatabaseSearch<'a> {
        let Self { handler, library, ref device, ref files, question, .. } = *self;
        let (library, resources) = (&*library.path, &question.resources);
        DatabaseSearch { handler, library, place, device, files, resources }
    }

    /// Whether a directory has what the GPU needs.
    fn is_complete(&self, place: &DatabasePlace) -> bool {
        self.search(place).look_up(&mut LookupEvidence::default()).is_none()
    }

    /// The cause of a problem, and whether it explains what was built for the GPU and is not there.
    fn explain(&self, problem: Problem, place: &DatabasePlace) -> (Cause, bool) {
        let near = DatabasePlace::near(self.reader, &self.loaded(), &self.files).filter(|near| near != place);
        if let (Some(variable), Some(near)) = (place.variable, near)
            && problem.kind != CauseKind::DatabaseVariable
            && self.is_complete(&near)
        {
            let reason = format!("{variable} is set, and {}", problem.reason);
            return (Cause::new(CauseKind::DatabaseVariable, reason, Some(format!("unset {variable}"))), true);
        }
        if problem.command.is_some() || problem.severity == Severity::Remark {
            return (Cause::new(problem.kind, problem.reason, problem.command), false);
        }
        if let Some(cause) = self.of_packages(&problem, place) {
            return (cause, true);
        }
        if let Some(cause) = self.elsewhere(&problem, place) {
            return (cause, true);
        }
        (Cause::new(problem.kind, problem.reason, None), false)
    }

    /// The cause if packages explain the problem.
    fn of_packages(&self, problem: &Problem, place: &DatabasePlace) -> Option<Cause> {
        let installed = &self.question.installed;
        let site = installed.site_of(&self.library.path);
        let changed =
            site.as_deref().and_then(|it| packages::changed(it, &place.directory, self.handler, &self.device));
        if let Some(changed) = changed {
            let state = if changed.is_gone { "is gone" } else { "was replaced: its size is another one" };
            let (package, remedy) = (changed.package.requirement(), changed.package.renew());
            let reason = format!("{}; {} of {package} {state}", problem.reason, changed.path.display());
            return Some(Cause::new(problem.kind, reason + &remedy.advice, remedy.command));
        }
        let cause = installed.cause(self.library, &self.device, &TriedArchives::default(), &mut Trail::default())?;
        let is_about_packages =
            matches!(cause.kind, CauseKind::PackageMissing | CauseKind::PackageVersion | CauseKind::NotInstalled);
        let reason = format!("{}: {}", problem.reason, cause.reason);
        is_about_packages.then(|| Cause::new(cause.kind, reason, cause.command))
    }

    /// The cause if the files are where the library does not search.
    fn elsewhere(&self, problem: &Problem, place: &DatabasePlace) -> Option<Cause> {
        if problem.kind != CauseKind::DatabaseMissing {
            return None;
        }
        let found = elsewhere::find(self.handler, &self.roots()).into_iter().find(|directory| {
            let variable = self.reader.variable;
            *directory != place.directory && self.is_complete(&DatabasePlace { directory: directory.clone(), variable })
        })?;
        let reason = format!("{}; there are some in {}, where it does not look", problem.reason, found.display());
        let command = match self.reader.variable {
            Some(variable) => format!("export {variable}={}", quoted(&found)),
            None => format!("ln -s {} {}", quoted(&found), quoted(&place.directory)),
        };
        let can_link = self.reader.variable.is_some()
            || !place.directory.exists() && !place.directory.parent().is_some_and(is_read_only);
        Some(Cause::new(problem.kind, reason, can_link.then_some(command)))
    }

    /// The directories below which files may be elsewhere: those of the question, or that of the package or prefix.
    fn roots(&self) -> Vec<PathBuf> {
        let named = self.question.paths.iter().filter_map(|path| path.canonicalize().ok()).filter(|path| path.is_dir());
        let named: Vec<_> = named.collect();
        if !named.is_empty() {
            return named;
        }
        let prefix = || self.library.path.ancestors().nth(2).filter(|it| it.parent().is_some()).map(Path::to_owned);
        self.question
            .installed
            .site_of(&self.library.path)
            .map(|site| site.path.clone())
            .or_else(prefix)
            .into_iter()
            .collect()
    }
}
