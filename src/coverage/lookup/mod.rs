//! What libraries find in kernel databases, step by step as they look for it: on the disk, or in an input.

mod aotriton;
mod catalogue;
mod files;
mod listing;
mod miopen;
mod place;
mod problem;
mod rocfft;
mod tensile;
mod trail;

use std::path::Path;
use std::sync::Arc;

use crate::database::Handler;
use crate::gpu::TargetId;
use crate::resources::Resources;

use tensile::TensileDatabase;

pub(crate) use catalogue::missing_of_lazy;
pub(crate) use files::{DiskFiles, InputFiles, LibraryFiles};
pub(crate) use place::{DatabasePlace, LoadedLibrary};
pub(crate) use problem::{DATABASE_MISSING, DATABASE_VARIABLE, Problem, Severity};
pub(crate) use trail::{LookupEvidence, Trail};

#[cfg(test)]
pub(crate) use problem::KINDS;

/// A library that looks in a database for what a GPU needs.
pub(crate) struct DatabaseSearch<'a> {
    pub(crate) handler: Handler,
    /// The library, if it is known.
    pub(crate) library: Option<&'a Path>,
    pub(crate) device: &'a TargetId,
    pub(crate) files: &'a dyn LibraryFiles,
    pub(crate) resources: &'a Arc<Resources>,
}

impl DatabaseSearch<'_> {
    /// Whether there is a database to look in. Most packages of rocFFT have none.
    pub(crate) fn is_there(&self, place: &DatabasePlace) -> bool {
        self.handler != Handler::Rocfft || rocfft::has_any(self.files, place)
    }

    /// Follows the library in a directory. Returns what is wrong.
    pub(crate) fn look_up(&self, place: &DatabasePlace, evidence: &mut LookupEvidence) -> Option<Problem> {
        let Self { handler, library, device, files, resources } = *self;
        match handler {
            Handler::Miopen => miopen::look_up(files, place, device, evidence),
            Handler::Aotriton => aotriton::look_up(files, place, device, evidence),
            Handler::Rocfft => rocfft::look_up(files, place, device, evidence),
            handler => TensileDatabase { handler, library, files, place, device, resources }.look_up(evidence),
        }
    }
}
