//! Explains why a kernel is not found: the steps of a HIP runtime for a library on this machine, and a command that
//! fixes the problem.
//!
//! Nothing is loaded and no GPU is used. Facts that cannot be observed but follow from how runtimes work are marked as
//! a model.

mod answer;
mod as_installed;
mod assembled;
mod cause;
mod conclude;
mod databases;
mod device;
mod error;
mod found;
mod gpus;
mod held;
mod installed;
mod installer;
mod kpack_path;
mod libraries;
mod lookup;
mod named;
mod nearby;
mod origin;
mod part;
mod process;
mod runtime;
mod sites;
mod split;
mod unwrapped;
mod wanted;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocm_kpack::Environment;

use crate::binary::{FatBinary, SplitBinary};
use crate::coverage::{CodePlace, LibraryCode};
use crate::fatbin::begins_code;
use crate::gpu::TargetId;
use crate::resources::Resources;
use crate::source::{EntryPath, open_file};

use assembled::Assembly;
use found::FoundLookups;
use libraries::LibraryFile;
use lookup::Presence;

pub(crate) use crate::coverage::Trail;
pub(crate) use answer::{AnswerStatus, DatabaseLookup, Explanation, FoundCause};
pub(crate) use error::{WhyError, is_not_understood};
pub(crate) use gpus::{FORCED, VisibleGpu, disabled, forced, visible, warn_of_empty, warn_of_forced};
pub(crate) use lookup::Lookup;
pub(crate) use origin::source_tree;
pub(crate) use process::{GoneLibrary, Process};
pub(crate) use runtime::is_runtime;
pub(crate) use sites::InstalledFiles;

/// The question.
#[derive(Debug)]
pub(crate) struct Question {
    /// Libraries, or directories with libraries.
    pub paths: Vec<PathBuf>,
    /// Those of each package that was named.
    pub packages: Vec<Vec<PathBuf>>,
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
    /// What is found out about installed files.
    pub installed: InstalledFiles,
}

/// A library with device code, or with wrappers that lead to archives; or another file with code.
enum Library {
    Split(SplitBinary),
    /// With what it was put together from, if it is not installed.
    Held(LibraryCode, Option<Arc<Assembly>>),
}

impl Question {
    /// Looks up all that was named.
    pub(crate) fn answer(&self) -> anyhow::Result<Explanation> {
        let mut found = FoundLookups::default();
        // What a process has loaded is not recognised: an archive that it has mapped is no argument.
        match self.loaded {
            Some(_) => self.look_up_installed(&self.paths, &self.all_gpus(), &mut found),
            None => self.look_up_named(&mut found),
        }
        found.unread.extend(self.gone.iter().map(ToString::to_string));
        found.drop_those_of_other_gpus();
        if found.is_empty() {
            self.look_up_unwrapped(&self.paths, &mut found);
        } else if self.packages.len() > 1 {
            // The others do not answer for a package.
            let silent = self.packages.iter().filter(|package| !found.has_some_of(package)).collect::<Vec<_>>();
            for package in silent {
                self.look_up_unwrapped(package, &mut found);
            }
        }
        match self.wrapper {
            _ if found.is_empty() => Err(self.nothing(&found).into()),
            Some(wrapper) if found.has_no_wrapper() => Err(WhyError::NoWrapper(wrapper).into()),
            _ => Ok(self.conclude(found)),
        }
    }

    /// The positions of all GPUs.
    fn all_gpus(&self) -> Vec<usize> {
        (0..self.gpus.len()).collect()
    }

    /// The environment in the form of a kpack runtime.
    fn environment(&self) -> Environment {
        Environment::of(|name| self.variables.get(&OsString::from(name)).cloned())
    }

    /// The look-up of a library for the GPUs at these positions, as far as their code can be loaded. What the others take is
    /// added to what could not be read.
    fn look_up_whole(
        &self,
        file: &LibraryFile,
        library: &Library,
        gpus: &[usize],
        found: &mut FoundLookups,
    ) -> Vec<Lookup> {
        let lookups = gpus.iter().filter_map(|&position| self.look_up_one(file, library, position));
        let is_answer = |lookup: &Lookup| lookup.cause.is_some() || lookup.damage.is_none();
        let (whole, damaged): (Vec<_>, Vec<_>) = lookups.partition(is_answer);
        let reasons: BTreeSet<_> = damaged.iter().filter_map(|lookup| lookup.damage.as_deref()).collect();
        for reason in reasons {
            found.fail(&error::at(&file.path)(reason));
        }
        found.damaged.extend(damaged.iter().filter_map(Lookup::group));
        whole
    }

    /// The look-up for the GPU at `position`; `None` if the library has no such wrapper.
    fn look_up_one(&self, file: &LibraryFile, library: &Library, position: usize) -> Option<Lookup> {
        let gpu = self.gpus.get(position)?;
        let mut lookup = self.look_up(file, library, gpu)?;
        self.explain_override(position, &mut lookup, |other| self.look_up(file, library, other));
        if let Some((handler, database)) = self.database_with(file, library, gpu) {
            lookup.is_optional |= handler.is_optional() && !database.is_for_gpu;
            lookup.database = Some(database);
        }
        Some(lookup)
    }

    fn look_up(&self, file: &LibraryFile, library: &Library, gpu: &TargetId) -> Option<Lookup> {
        let path = &*file.path;
        let device = self.device_of(gpu);
        let (form, count) = (library.form(), library.wrapper_count());
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
            ..Lookup::default()
        };
        if device != *gpu {
            lookup
                .evidence
                .follows(format!("a {gpu} calls itself {device}; --target with features asks for other settings"));
        }
        device::model(&device, &mut lookup.evidence);
        match library {
            Library::Split(split) => {
                split::look_up(file, split, &wrappers, &device, self, &mut lookup);
                if let Some(cause) = runtime::judge(file, self, &mut lookup) {
                    lookup.fail(cause);
                }
            }
            Library::Held(code, assembly) => {
                if let Some(assembly) = assembly {
                    assembly.describe(form, &mut lookup);
                }
                held::look_up(code, assembly.as_deref(), self.wrapper, &device, &mut lookup);
                lookup.is_optional &= !self.paths.contains(&file.path);
                let split = assembly.as_deref().filter(|_| form == CodePlace::Split);
                let cause = split.and_then(|assembly| runtime::judge_own(assembly.runtime.as_ref(), &mut lookup));
                if let Some(cause) = cause {
                    lookup.fail(cause);
                }
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
    /// Where its code is.
    fn form(&self) -> CodePlace {
        match self {
            Self::Split(_) => CodePlace::Split,
            Self::Held(code, _) => code.form,
        }
    }

    fn wrapper_count(&self) -> usize {
        match self {
            Self::Split(split) => split.wrappers.len(),
            Self::Held(code, _) => code.wrappers.len(),
        }
    }

    fn presence(&self) -> Presence {
        match self {
            Self::Held(_, Some(assembly)) => assembly.presence(),
            Self::Held(_, None) | Self::Split(_) => Presence::Installed,
        }
    }
}

fn open(path: &Path, resources: &Arc<Resources>) -> anyhow::Result<Option<Library>> {
    let content = open_file(path, resources)?;
    if begins_code(&*content) {
        return Ok(None);
    }
    if let Some(split) = SplitBinary::read(&content).map_err(error::at(path))? {
        return match split.damage {
            Some(reason) => Err(error::at(path)(reason)),
            None => Ok(Some(Library::Split(split))),
        };
    }
    let Some(binary) = FatBinary::scan(&content).map_err(error::at(path))? else { return Ok(None) };
    let code = LibraryCode::of_fat(EntryPath::root(), &content, &binary, resources).map_err(error::at(path))?;
    Ok(code.map(|code| Library::Held(code, None)))
}
