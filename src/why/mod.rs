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
mod library;
mod lookup;
mod named;
mod nearby;
mod origin;
mod part;
mod process;
mod question;
mod runtime;
mod sites;
mod split;
mod unwrapped;
mod wanted;

use std::collections::BTreeSet;

use crate::coverage::CodePlace;
use crate::gpu::TargetId;

use found::FoundLookups;
use libraries::LibraryFile;
use library::Library;

pub(crate) use crate::coverage::Trail;
pub(crate) use answer::{AnswerStatus, DatabaseLookup, Explanation, FoundCause};
pub(crate) use error::{WhyError, is_not_understood};
pub(crate) use gpus::{FORCED, VisibleGpu, disabled, forced, visible, warn_of_empty, warn_of_forced};
pub(crate) use lookup::Lookup;
pub(crate) use origin::source_tree;
pub(crate) use process::Process;
pub(crate) use question::Question;
pub(crate) use runtime::is_runtime;
pub(crate) use sites::InstalledFiles;

impl Question {
    /// Looks up all that was named.
    pub(crate) fn answer(&self) -> anyhow::Result<Explanation> {
        let mut found = FoundLookups::default();
        // What a process has loaded is not recognised: an archive that it has mapped is no argument.
        match self.loaded {
            Some(_) => self.look_up_installed(&self.paths, &self.all_gpus(), &mut found),
            None => self.look_up_named(&mut found),
        }
        found.unread.extend(self.gone.iter().cloned());
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
        let cause = match library {
            Library::Split(split) => {
                split::look_up(file, split, &wrappers, &device, self, &mut lookup);
                runtime::judge(file, self, &mut lookup)
            }
            Library::Held(code, assembly) => {
                if let Some(assembly) = assembly {
                    assembly.describe(form, &mut lookup);
                }
                held::look_up(code, assembly.as_deref(), self.wrapper, &device, &mut lookup);
                lookup.is_optional &= !self.paths.contains(&file.path);
                let split = assembly.as_deref().filter(|_| form == CodePlace::Split);
                split.and_then(|assembly| runtime::judge_own(assembly.runtime.as_ref(), &mut lookup))
            }
        };
        if let Some(cause) = cause {
            lookup.fail(cause);
        }
        Some(lookup)
    }
}
