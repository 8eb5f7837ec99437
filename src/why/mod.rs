//! Explains why a kernel is not found: the steps of a HIP runtime for a library on this machine, and a command that
//! fixes the problem.
//!
//! Nothing is loaded and no GPU is used. Facts that cannot be observed but follow from how runtimes work are marked as
//! a model.

mod answer;
mod cause;
mod conclude;
mod databases;
mod device;
mod error;
mod fat;
mod gpus;
mod installed;
mod libraries;
mod lookup;
mod runtime;
mod split;

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rocm_kpack::Environment;

use crate::binary::{FatBinary, SplitBinary};
use crate::gpu::TargetId;
use crate::resources::Resources;
use crate::source::open_file;

use libraries::LibraryFile;

pub(crate) use answer::{AnswerStatus, DatabaseLookup, Explanation, FoundCause};
pub(crate) use cause::Cause;
pub(crate) use error::WhyError;
pub(crate) use gpus::{VisibleGpu, disabled, visible, warn_of_empty};
pub(crate) use lookup::{Evidence, Lookup};
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
}

/// A library with device code, or with wrappers that lead to archives.
enum Library {
    Split(SplitBinary),
    /// The targets for which each wrapper has code.
    Fat(Vec<BTreeSet<TargetId>>),
}

impl Question {
    /// Looks up all libraries.
    pub(crate) fn answer(&self, resources: &Arc<Resources>) -> Result<Explanation, WhyError> {
        let mut lookups = Vec::new();
        let mut databases = Vec::new();
        let mut is_nothing = true;
        let mut unread = Vec::new();
        for library in &libraries::find(&self.paths, self.binary.as_deref(), resources)? {
            match self.look_up_all(library, resources) {
                Ok(found) => {
                    is_nothing &= found.is_none();
                    let found = found.unwrap_or_default();
                    databases.extend(self.look_up_database(library, &found));
                    lookups.extend(found);
                }
                Err(error) => unread.push(error.to_string()),
            }
        }
        match (self.paths.first(), self.wrapper) {
            (Some(path), _) if is_nothing && unread.is_empty() && databases.is_empty() => {
                Err(WhyError::Nothing(path.clone()))
            }
            (_, Some(wrapper)) if lookups.is_empty() && unread.is_empty() => Err(WhyError::NoWrapper(wrapper)),
            _ => Ok(self.conclude(lookups, databases, unread)),
        }
    }

    /// The environment in the form of a kpack runtime.
    fn environment(&self) -> Environment {
        Environment::of(|name| self.variables.get(&OsString::from(name)).cloned())
    }

    /// The look-up of a library for each GPU; `None` if it is not a library with wrappers.
    fn look_up_all(&self, file: &LibraryFile, resources: &Arc<Resources>) -> Result<Option<Vec<Lookup>>, WhyError> {
        let Some(library) = open(&file.path, resources)? else { return Ok(None) };
        let look_up = |(position, gpu)| {
            let mut lookup = self.look_up(file, &library, gpu)?;
            self.explain_override(position, &mut lookup, |other| self.look_up(file, &library, other));
            Some(lookup)
        };
        Ok(Some(self.gpus.iter().enumerate().filter_map(look_up).collect()))
    }

    /// The look-up for one GPU; `None` if the library has no such wrapper.
    fn look_up(&self, file: &LibraryFile, library: &Library, gpu: &TargetId) -> Option<Lookup> {
        let path = &*file.path;
        let device = self.device_of(gpu);
        let (form, count) = match library {
            Library::Split(split) => ("split", split.wrappers.len()),
            Library::Fat(targets) => ("fat", targets.len()),
        };
        let wrappers: Vec<_> = (0..count).filter(|&it| self.wrapper.is_none_or(|wanted| wanted == it)).collect();
        if wrappers.is_empty() {
            return None;
        }
        let mut lookup = Lookup {
            library: path.display().to_string(),
            form,
            target: device.to_string(),
            wrappers: wrappers.len(),
            with_code: 0,
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
                split::look_up(file, split, &wrappers, &device, &environment, &mut lookup);
                if let Some(cause) = runtime::judge(path, &self.variables, self.loaded.as_deref(), &mut lookup) {
                    lookup.fail(cause);
                }
            }
            Library::Fat(targets) => fat::look_up(targets, &wrappers, &device, &mut lookup),
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

fn open(path: &Path, resources: &Arc<Resources>) -> Result<Option<Library>, WhyError> {
    let content = open_file(path, resources)?;
    let failed = |source| WhyError::Binary { path: path.to_owned(), source };
    if let Some(split) = SplitBinary::read(&content).map_err(failed)? {
        return Ok(Some(Library::Split(split)));
    }
    let binary = FatBinary::scan(&content).map_err(failed)?;
    binary.map(|binary| fat::targets(path, &content, &binary, resources).map(Library::Fat)).transpose()
}
