//! The look-up of a library for a GPU: evidence, and the cause if there is no code.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde::Serialize;

use super::cause::Cause;
use crate::coverage::wrappers_without_code;
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
    /// Evidence, in the order in which a runtime would find it.
    pub evidence: Vec<Evidence>,
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

/// The kind of a file with code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum CodePlace {
    /// A library whose wrappers lead to archives.
    #[default]
    Split,
    /// A library whose wrappers lead to bundles in it.
    Fat,
    /// An archive.
    Archive,
    /// An offload bundle in a file of its own.
    Bundle,
    /// A code object in a file of its own.
    CodeObject,
}

/// An observation or a conclusion.
#[derive(Debug, Serialize)]
pub(crate) struct Evidence {
    /// Whether it follows from how runtimes work, without being observed.
    pub model: bool,
    /// The text.
    pub text: String,
}

impl Lookup {
    pub(super) fn saw(&mut self, text: impl Into<String>) {
        self.evidence.push(Evidence { model: false, text: text.into() });
    }

    pub(super) fn follows(&mut self, text: impl Into<String>) {
        self.evidence.push(Evidence { model: true, text: text.into() });
    }

    /// What files with the code of the same libraries for several GPUs have in common, their names but for the target, and
    /// the GPU. `None` for a library.
    pub(super) fn group(&self) -> Option<(String, String)> {
        let (directory, name) = self.library.rsplit_once('/').unwrap_or(("", &self.library));
        let stem = match self.form {
            CodePlace::Archive => name.rsplit_once(named_target(name)?)?.0.to_owned(),
            CodePlace::Bundle | CodePlace::CodeObject => {
                format!("{directory}/{}", name.rsplit_once("gfx").map_or("", |(stem, _)| stem))
            }
            CodePlace::Split | CodePlace::Fat => return None,
        };
        Some((stem, self.target.clone()))
    }

    /// What the wrappers with code for other GPUs only lack.
    pub(super) fn gap(&self) -> Option<String> {
        wrappers_without_code(&self.without_code, self.wrappers, &self.target)
    }

    pub(super) fn fail(&mut self, cause: Cause) {
        if self.cause.is_some() {
            self.further.push(cause);
        } else {
            self.cause = Some(cause);
        }
    }
}

/// A path, quoted for a shell.
pub(super) fn quoted(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+:@%".contains(byte);
    let text = path.display().to_string();
    if bytes.iter().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}
