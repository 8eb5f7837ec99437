//! The look-up of a library for a GPU: evidence, and the cause if there is no code.

use serde::Serialize;

use super::cause::Cause;
use crate::coverage::{CodePlace, Trail, wrappers_without_code};
use crate::loader::named_target;

/// The look-up of a library for a GPU.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Lookup {
    /// The library.
    pub library: String,
    /// Where its code is.
    pub form: CodePlace,
    /// Whether a runtime would find it there.
    #[serde(skip)]
    pub presence: Presence,
    /// The GPU's own name.
    pub target: String,
    /// Number of wrappers, or of names in an archive, that were looked up.
    pub wrappers: usize,
    /// Number of those with code.
    pub with_code: usize,
    /// The wrappers with code for other GPUs only, if others have some for this one.
    pub without_code: Vec<usize>,
    /// Why there is no code.
    pub cause: Option<Cause>,
    /// What would keep a runtime from the code after that is fixed.
    pub further: Vec<Cause>,
    /// What may be wrong with the code that is found.
    pub remark: Option<Cause>,
    /// Why nothing can load the code that is found.
    #[serde(skip)]
    pub damage: Option<String>,
    /// Whether only the program that opens it knows if the GPU needs it. Files that were named answer for themselves.
    #[serde(skip)]
    pub is_optional: bool,
    /// The kernel database that has the library as a file for some GPUs.
    #[serde(skip)]
    pub database: Option<OfDatabase>,
    /// Whether it reads archives only if the runtime does, and there is no runtime.
    #[serde(skip)]
    pub lacks_runtime: bool,
    /// Evidence, in the order in which a runtime would find it.
    pub evidence: Trail,
}

/// The kernel database that a library is a file of.
#[derive(Clone, Debug)]
pub(crate) struct OfDatabase {
    /// Its handler and its directory.
    pub(super) name: String,
    /// Whether the GPU takes the library, by its name.
    pub(super) is_for_gpu: bool,
}

/// Whether a runtime would find a file where it was looked up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Presence {
    /// A runtime would load it from there.
    #[default]
    Installed,
    /// It is in a wheel or in parts of a split, which are to be installed.
    ToInstall,
    /// It is in a tar archive, an image, or a directory of archives.
    Contained,
}

impl Lookup {
    /// What files with the code of the same libraries for several GPUs have in common, their paths but for the names of
    /// GPUs, and the GPU. Libraries that are files of a database have the database in common. `None` for another library.
    pub(super) fn group(&self) -> Option<(String, String)> {
        if let Some(database) = &self.database {
            return Some((database.name.clone(), self.target.clone()));
        }
        let name = self.library.rsplit('/').next().unwrap_or(&self.library);
        let stem = match self.form {
            CodePlace::Archive => name.rsplit_once(named_target(name)?)?.0.to_owned(),
            form if form.is_file() => without_processors(&self.library),
            _ => return None,
        };
        Some((stem, self.target.clone()))
    }

    /// Whether its code is found in archives, which may be those of another package.
    pub(super) fn is_in_archives(&self) -> bool {
        self.form == CodePlace::Split && self.cause.is_none()
    }

    /// What the wrappers with code for other GPUs only lack.
    pub(crate) fn gap(&self) -> Option<String> {
        wrappers_without_code(&self.without_code, self.wrappers, &self.target)
    }

    /// Its causes, each with what it concerns.
    pub(super) fn causes(&self) -> impl Iterator<Item = (&Cause, &String, &String)> {
        self.cause.iter().chain(&self.further).map(|cause| (cause, &self.target, &self.library))
    }

    pub(super) fn fail(&mut self, cause: Cause) {
        if self.cause.is_some() {
            self.further.push(cause);
        } else {
            self.cause = Some(cause);
        }
    }
}

/// A path without the numbers of the processors that it names.
fn without_processors(path: &str) -> String {
    let mut parts = path.split("gfx");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "gfx" + part.trim_start_matches(|it: char| it.is_ascii_alphanumeric()))
}
