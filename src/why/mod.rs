//! Explains why a kernel is not found: the steps of a HIP runtime for a library on this machine, and a command that
//! fixes the problem.
//!
//! Nothing is loaded and no GPU is used. Facts that cannot be observed but follow from how runtimes work are marked as
//! a model.

mod answer;
mod assembled;
mod cause;
mod conclude;
mod databases;
mod device;
mod error;
mod gpus;
mod held;
mod installed;
mod installer;
mod libraries;
mod lookup;
mod origin;
mod part;
mod paths;
mod pieces;
mod process;
mod runtime;
mod split;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocm_kpack::Environment;

use crate::binary::{FatBinary, SplitBinary};
use crate::gpu::TargetId;
use crate::image::ImageReference;
use crate::join::WheelsError;
use crate::resources::Resources;
use crate::source::{SourceError, open_file};
use crate::view::HOST;

use assembled::{AssembledFile, GivenWheel};
use held::HeldCode;
use libraries::LibraryFile;
use lookup::{CodePlace, Presence};
use paths::SortedPaths;

pub(crate) use answer::{AnswerStatus, DatabaseLookup, Explanation, FoundCause};
pub(crate) use cause::Cause;
pub(crate) use error::WhyError;
pub(crate) use gpus::{VisibleGpu, disabled, visible, warn_of_empty};
pub(crate) use lookup::{Evidence, Lookup};
pub(crate) use process::{GoneLibrary, Process};
pub(crate) use runtime::is_runtime;

/// The question.
#[derive(Debug)]
pub(crate) struct Question {
    /// Libraries, or directories with libraries.
    pub paths: Vec<PathBuf>,
    /// The GPUs, in the order in which a runtime sees them.
    pub gpus: Vec<TargetId>,
    /// The same GPUs, if they are those of this machine.
    pub visible: Vec<VisibleGpu>,
    /// Restricts the libraries to this file name.
    pub binary: Option<String>,
    /// Restricts the look-up to this wrapper.
    pub wrapper: Option<usize>,
    /// The environment variables of the process.
    pub variables: BTreeMap<OsString, OsString>,
    /// The HIP runtimes that the process has loaded, if there is a process.
    pub loaded: Option<Vec<PathBuf>>,
    /// Libraries with code that the process has loaded and that are not there to be examined.
    pub gone: Vec<GoneLibrary>,
    /// For reading.
    pub resources: Arc<Resources>,
}

/// A library with device code, or with wrappers that lead to archives; or another file with code.
enum Library {
    Split(SplitBinary),
    Held(HeldCode),
}

/// What was looked up.
#[derive(Default)]
struct FoundLookups {
    lookups: Vec<Lookup>,
    databases: Vec<DatabaseLookup>,
    /// Why wheels cannot be installed together.
    conflicts: Vec<FoundCause>,
    unread: Vec<String>,
    has_library: bool,
}

impl FoundLookups {
    fn add(&mut self, result: Result<Option<Vec<Lookup>>, WhyError>) {
        match result {
            Ok(Some(found)) => {
                self.has_library = true;
                self.lookups.extend(found);
            }
            Ok(None) => {}
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &WhyError) {
        self.unread.push(once(&error.to_string()).to_owned());
    }

    /// Drops archives without code for a GPU, if the archive of that GPU is there.
    fn drop_other_archives(&mut self) {
        let is_archive = |it: &&Lookup| it.form == CodePlace::Archive;
        let with_code = self.lookups.iter().filter(is_archive).filter(|it| it.cause.is_none());
        let with_code: BTreeSet<_> = with_code.filter_map(Lookup::archive_group).collect();
        let is_other = |it: &Lookup| it.archive_group().is_some_and(|group| with_code.contains(&group));
        self.lookups.retain(|it| it.form != CodePlace::Archive || it.cause.is_none() || !is_other(it));
    }

    fn is_empty(&self) -> bool {
        !self.has_library && self.databases.is_empty() && self.conflicts.is_empty() && self.unread.is_empty()
    }
}

/// An error that names its file once. Errors of reading name it, too.
fn once(error: &str) -> &str {
    let rest =
        error.split_once(": ").filter(|(path, rest)| rest.strip_prefix(path).is_some_and(|it| it.starts_with(':')));
    rest.map_or(error, |(_, rest)| rest)
}

impl Question {
    /// Looks up all libraries.
    pub(crate) fn answer(&self) -> Result<Explanation, WhyError> {
        let resources = &self.resources;
        let mut found = FoundLookups::default();
        // What a process has loaded is not sorted: an archive that it has mapped is no argument.
        let arguments = match self.loaded {
            Some(_) => SortedPaths { files: self.paths.clone(), ..SortedPaths::default() },
            None => SortedPaths::sort(&self.files(), resources),
        };
        let (libraries, unread) = libraries::find(&arguments.files, self.binary.as_deref(), resources);
        arguments.unread.iter().chain(&unread).for_each(|error| found.fail(error));
        found.unread.extend(self.gone.iter().map(ToString::to_string));
        for library in &libraries {
            let opened = open(&library.path, resources);
            let lookups = opened.map(|opened| Some(self.look_up_all(library, &opened?)));
            if let Ok(lookups) = &lookups {
                found.databases.extend(self.look_up_database(library, lookups.as_deref().unwrap_or_default()));
            }
            found.add(lookups);
        }
        self.look_up_wheels(&arguments.wheels, &mut found);
        self.look_up_assembled(&arguments, &mut found);
        for (path, code) in arguments.loose {
            found.add(Ok(Some(self.look_up_all(&LibraryFile::at(path), &Library::Held(code)))));
        }
        let is_empty = found.is_empty();
        for directory in arguments.files.iter().filter(|path| is_empty && path.is_dir()) {
            self.add_assembled(assembled::of_directory(directory, resources), &self.gpus, &mut found);
        }
        found.drop_other_archives();
        match (self.paths.first(), self.wrapper) {
            (Some(path), _) if found.is_empty() => Err(WhyError::Nothing(path.clone())),
            (_, Some(wrapper)) if found.lookups.is_empty() && found.unread.is_empty() => {
                Err(WhyError::NoWrapper(wrapper))
            }
            _ => Ok(self.conclude(found)),
        }
    }

    /// The images among the paths.
    fn images(&self) -> impl Iterator<Item = ImageReference> {
        self.paths.iter().filter_map(|path| ImageReference::parse(path))
    }

    /// The other paths.
    fn files(&self) -> Vec<PathBuf> {
        self.paths.iter().filter(|path| ImageReference::parse(path).is_none()).cloned().collect()
    }

    /// Looks up what would be installed from wheels.
    fn look_up_wheels(&self, paths: &[PathBuf], found: &mut FoundLookups) {
        let (mut wheels, mut unread) = (Vec::new(), Vec::new());
        for path in paths {
            match GivenWheel::read(path, &self.resources) {
                Ok(wheel) => wheels.push(wheel),
                Err(error) => {
                    found.fail(&error);
                    unread.push(path.clone());
                }
            }
        }
        for group in assembled::group(wheels) {
            match assembled::of_wheels(&group, &unread, &self.resources) {
                Err(WhyError::Wheels(conflict @ WheelsError::Version { .. })) => {
                    found.conflicts.push(self.conflict(&group, &conflict));
                }
                files => self.add_assembled(files, &self.gpus, found),
            }
        }
    }

    /// Looks up parts of a split, images, and other packed input.
    fn look_up_assembled(&self, arguments: &SortedPaths, found: &mut FoundLookups) {
        let resources = &self.resources;
        for root in &arguments.splits {
            for gpu in &self.gpus {
                let parts = part::parts_for(root, gpu);
                let files = assembled::of_parts(&root.join(HOST), &parts, resources);
                self.add_assembled(files, std::slice::from_ref(gpu), found);
            }
        }
        for image in self.images() {
            self.add_assembled(assembled::of_image(&image, resources), &self.gpus, found);
        }
        for path in &arguments.packed {
            match assembled::of_packed(path, resources) {
                // A text has no device code.
                Err(WhyError::Source(SourceError::UnknownKind { .. })) => {}
                files => self.add_assembled(files, &self.gpus, found),
            }
        }
    }

    fn add_assembled(&self, files: Result<Vec<AssembledFile>, WhyError>, gpus: &[TargetId], found: &mut FoundLookups) {
        let is_wanted = |path: &Path| self.binary.as_ref().is_none_or(|name| path.file_name() == Some(name.as_ref()));
        let files = files.unwrap_or_else(|error| {
            found.fail(&error);
            Vec::new()
        });
        for AssembledFile { path, code } in files.into_iter().filter(|file| is_wanted(&file.path)) {
            let look_up = |code| {
                let (file, library) = (LibraryFile::at(path), Library::Held(code));
                let of_gpus = self.gpus.iter().enumerate().filter(|(_, gpu)| gpus.contains(gpu));
                Some(of_gpus.filter_map(|(position, _)| self.look_up_one(&file, &library, position)).collect())
            };
            found.add(code.map(look_up));
        }
    }

    /// The environment in the form of a kpack runtime.
    fn environment(&self) -> Environment {
        Environment::of(|name| self.variables.get(&OsString::from(name)).cloned())
    }

    /// The look-up of a library for each GPU.
    fn look_up_all(&self, file: &LibraryFile, library: &Library) -> Vec<Lookup> {
        (0..self.gpus.len()).filter_map(|position| self.look_up_one(file, library, position)).collect()
    }

    /// The look-up for the GPU at `position`; `None` if the library has no such wrapper.
    fn look_up_one(&self, file: &LibraryFile, library: &Library, position: usize) -> Option<Lookup> {
        let mut lookup = self.look_up(file, library, self.gpus.get(position)?)?;
        self.explain_override(position, &mut lookup, |other| self.look_up(file, library, other));
        Some(lookup)
    }

    fn look_up(&self, file: &LibraryFile, library: &Library, gpu: &TargetId) -> Option<Lookup> {
        let path = &*file.path;
        let device = self.device_of(gpu);
        let (form, count) = match library {
            Library::Split(split) => (CodePlace::Split, split.wrappers.len()),
            Library::Held(code) => (code.form, code.targets.len()),
        };
        let wrappers: Vec<_> = (0..count).filter(|&it| self.wrapper.is_none_or(|wanted| wanted == it)).collect();
        if wrappers.is_empty() && count > 0 {
            return None;
        }
        let mut lookup = Lookup {
            library: path.display().to_string(),
            form,
            presence: library.presence(),
            target: device.to_string(),
            wrappers: wrappers.len(),
            with_code: 0,
            without_code: Vec::new(),
            cause: None,
            further: Vec::new(),
            evidence: Vec::new(),
        };
        if device != *gpu {
            lookup.follows(format!("a {gpu} calls itself {device}; --target with features asks for other settings"));
        }
        device::model(&device, &mut lookup);
        match library {
            Library::Split(split) => {
                let environment = self.environment();
                split::look_up(file, split, &wrappers, &device, (&environment, &self.resources), &mut lookup);
                if let Some(cause) = runtime::judge(path, &self.variables, self.loaded.as_deref(), &mut lookup) {
                    lookup.fail(cause);
                }
            }
            Library::Held(code) => {
                if let Some(assembly) = &code.assembly {
                    assembly.describe(form, &mut lookup);
                }
                code.look_up(&wrappers, &device, &mut lookup);
            }
        }
        Some(lookup)
    }

    /// The name of a GPU with its features in their default state, modified by `HSA_XNACK`.
    fn device_of(&self, gpu: &TargetId) -> TargetId {
        if gpu.features().len() > 0 || gpu.is_generic() {
            return gpu.clone();
        }
        let wants_xnack = self.variables.get(&OsString::from("HSA_XNACK")).is_some_and(|value| value == "1");
        gpu.default_device(wants_xnack)
    }
}

impl Library {
    fn presence(&self) -> Presence {
        match self {
            Self::Held(HeldCode { assembly: Some(assembly), .. }) => assembly.presence(),
            Self::Held(_) | Self::Split(_) => Presence::Installed,
        }
    }
}

fn open(path: &Path, resources: &Arc<Resources>) -> Result<Option<Library>, WhyError> {
    let content = open_file(path, resources)?;
    let failed = |source| WhyError::Binary { path: path.to_owned(), source };
    if let Some(split) = SplitBinary::read(&content).map_err(failed)? {
        return Ok(Some(Library::Split(split)));
    }
    let Some(binary) = FatBinary::scan(&content).map_err(failed)? else { return Ok(None) };
    Ok(HeldCode::of_fat(path, &content, &binary, resources)?.map(Library::Held))
}
