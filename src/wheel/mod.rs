//! The wheels of a split: their names, their dist-info, and their bytes as ropes.
//!
//! [`Wheels`] knows the fat wheel and the parts it is split into. For each [`SplitWheel`] it makes the dist-info files and
//! combines them with the payload to an [`Assembled`] part: a list of files for a directory, and the `.whl` file of
//! exactly these files.
//!
//! The rules are those of the [binary distribution format], [core metadata], [recording installed projects] and of the
//! PEPs named in comments.
//!
//! [binary distribution format]: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
//! [core metadata]: https://packaging.python.org/en/latest/specifications/core-metadata/
//! [recording installed projects]: https://packaging.python.org/en/latest/specifications/recording-installed-packages/
//!
//! It does not know binaries and archives: its callers provide the payload as contents.

mod added;
mod assemble;
mod devices;
mod digest;
mod fat;
mod headers;
mod input_record;
mod installed;
mod licences;
mod metadata;
mod name;
mod paths;
mod record;
mod requirement;
#[cfg(test)]
mod tests;
mod unchanged;
mod variant;
mod wheel_file;
mod writer;
mod zip;

use std::sync::Arc;

use crate::rope::{Content, ReadError};
use crate::source::EntryPath;

pub use added::Added;
pub use assemble::{Assembled, AssemblyOptions, SplitWheel, Wheels, warnings_of};
pub use devices::Devices;
pub use digest::{Digest, Sums};
pub use fat::{FatWheel, states_digests};
pub use installed::{installed, is_elsewhere};
pub use metadata::{Edited, Metadata};
pub use name::{WheelName, normalise};
pub use paths::Paths;
pub use record::{Claim, Claims, Stated, line_size};
pub use requirement::{accepts, check_requirement};
pub use unchanged::Unchanged;
pub use variant::VariantLabel;
pub use wheel_file::WheelFile;
pub use zip::{DosTime, archive};

/// The Generator line of new wheels.
pub const GENERATOR: &str = concat!("kpackfs (", env!("CARGO_PKG_VERSION"), ")");

/// The file in the `*.dist-info` directory of host wheels that states the restrictions of the split.
pub const STATEMENT: &str = "kpackfs.json";

/// A file of a wheel.
#[derive(Clone, Debug)]
pub struct WheelEntry {
    /// Its path in the wheel.
    pub path: EntryPath,
    /// Whether it is executable. Wheels keep nothing else of a mode.
    pub executable: bool,
    /// Its content with digests. Wheels that contain the same file share this.
    pub digest: Arc<Digest>,
    /// A raw deflate stream of the content. Without one, the content is stored.
    pub deflated: Option<Arc<dyn Content>>,
}

impl WheelEntry {
    /// A new file, without compression.
    pub fn stored(path: EntryPath, content: Arc<dyn Content>) -> Self {
        let digest = Arc::new(Digest::new(path.to_text(), content, None));
        Self { path, executable: false, digest, deflated: None }
    }

    /// The path as text. Names in wheels are UTF-8 ("Recording installed projects").
    pub(crate) fn name(&self) -> Result<&str, WheelError> {
        std::str::from_utf8(self.path.as_bytes()).map_err(|_| WheelError::NotUtf8(self.path.clone()))
    }
}

/// Why a wheel cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum WheelError {
    /// A file name is not that of a wheel.
    #[error("{name:?} is not the name of a wheel: {reason}")]
    Name {
        /// The file name.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A name given by the user, or derived from one, is not a valid distribution name.
    #[error(
        "{0:?} cannot be the name of a distribution: letters, digits, \".\", \"_\" and \"-\" only, the first and the last no punctuation"
    )]
    Distribution(String),
    /// Two bundle keys would share a distribution.
    #[error("{first} and {second} would both be packaged as {distribution}")]
    SameDistribution {
        /// The distribution.
        distribution: String,
        /// One key.
        first: String,
        /// The other.
        second: String,
    },
    /// The input is not a wheel.
    #[error("the input is not a wheel: it has no *.dist-info directory")]
    NotAWheel,
    /// A file of the dist-info directory is missing or not usable.
    #[error("{path}: {reason}")]
    DistInfo {
        /// The file.
        path: EntryPath,
        /// What is wrong with it.
        reason: String,
    },
    /// A text given by the user is not a requirement.
    #[error("not a requirement (PEP 508) such as \"numpy >= 2\" or \"rocm-sdk-device-@GFXARCH@ == 7.1\": {0}")]
    Requirement(String),
    /// A variant label breaks the rules of PEP 825.
    #[error("a label consists of digits, lower-case letters, \"_\" and \".\", and is not \"null\"")]
    Label,
    /// The input has a variant label already.
    #[error("the input is a wheel of the variant {0:?} already")]
    IsVariant(String),
    /// There is no property by which a variant could be chosen.
    #[error("no variant wheel: the input has code for no target that a variant provider knows")]
    NoVariant,
    /// The part does not exist.
    #[error("the input has no code for {0}")]
    NoSuchPart(String),
    /// A path that is not UTF-8, which wheels require.
    #[error("{0}: the name is not UTF-8, which wheels need")]
    NotUtf8(EntryPath),
    /// A path that is too long for a zip file.
    #[error("{0}: the name is too long for a zip file")]
    NameTooLong(EntryPath),
    /// Two files of one wheel have the same path.
    #[error("{0}: two files of a wheel have this name")]
    Twice(EntryPath),
    /// A content cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
}
