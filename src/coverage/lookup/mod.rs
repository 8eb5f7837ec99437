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

use crate::database::Handler;

pub(crate) use catalogue::missing_of_lazy;
pub(crate) use files::{DiskFiles, InputFiles, LibraryFiles};
pub(crate) use place::{DatabasePlace, DatabaseSearch, LoadedLibrary};
pub(crate) use problem::{Problem, Severity};
pub(crate) use trail::{LookupEvidence, Trail};

impl DatabaseSearch<'_> {
    /// Whether there is a database to look in. Most packages of rocFFT have none.
    pub(crate) fn is_there(&self) -> bool {
        self.handler != Handler::Rocfft || rocfft::has_any(self)
    }

    /// Follows the library in a directory. Returns what is wrong.
    pub(crate) fn look_up(&self, evidence: &mut LookupEvidence) -> Option<Problem> {
        let found = match self.handler {
            Handler::Miopen => miopen::look_up(self, evidence),
            Handler::Aotriton => aotriton::look_up(self, evidence),
            Handler::Rocfft => rocfft::look_up(self, evidence),
            _ => self.look_up_tensile(evidence),
        };
        found.err()
    }
}
