//! The formats of wheels: names, METADATA, RECORD, WHEEL, variant.json, requirements.
//!
//! The rules are those of the [binary distribution format], [core metadata], [recording installed projects] and of the
//! PEPs named in comments.
//!
//! [binary distribution format]: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
//! [core metadata]: https://packaging.python.org/en/latest/specifications/core-metadata/
//! [recording installed projects]: https://packaging.python.org/en/latest/specifications/recording-installed-packages/

mod added;
mod devices;
mod dist_info;
mod edited_record;
mod gpu_requirements;
mod headers;
mod installed;
mod metadata;
mod name;
mod paths;
mod record;
mod relation;
mod requirement;
mod signatures;
mod variant;
mod wheel_file;

use crate::rope::ReadError;
use crate::source::EntryPath;

pub use added::Added;
pub(crate) use added::part_in;
pub use devices::Devices;
pub use dist_info::states_digests;
pub(crate) use dist_info::text;
pub(crate) use edited_record::{LineEdit, edited_record};
pub(crate) use gpu_requirements::{GpuRequirement, PartExtra, replaced_distribution};
pub use gpu_requirements::{KnownExtras, Requirements, StatedExtras};
pub(crate) use installed::{among_data, installed_with, moved};
pub use installed::{installed, is_elsewhere};
pub(crate) use metadata::pin_of_extra;
pub use metadata::{Edited, Metadata};
pub use name::{WheelName, file_tags, normalise};
pub use paths::Paths;
pub(crate) use paths::{PYCACHE, is_compiled, is_made_again, is_of_installer};
pub use record::{Claim, Claims, Stated, line_size};
pub(crate) use record::{SHA256_TEXT, quoted, sha256_text};
pub use relation::{WheelLabel, installed_together};
pub(crate) use requirement::{TARGET, required_name};
pub use requirement::{accepts, check_requirement};
pub use signatures::{GPG, may_be_signature, signatures_of, unusable_signatures};
pub use variant::VariantLabel;
pub(crate) use variant::{has_property, variant_json};
pub use wheel_file::WheelFile;

/// The Generator line of new wheels.
pub const GENERATOR: &str = concat!("kpackfs (", env!("CARGO_PKG_VERSION"), ")");

/// The file in the `*.dist-info` directory of a part's wheel that states the split that it is of, and its restrictions.
pub const STATEMENT: &str = "kpackfs.json";

/// The file in the `*.dist-info` directory of a part's wheel that lists what the part holds.
pub const PART_MANIFEST: &str = "kpackfs-manifest.json";

/// Why a wheel cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum WheelError {
    /// A file name is not that of a wheel.
    #[error("{name:?} is not the name of a wheel: {reason}")]
    Name { name: String, reason: &'static str },
    /// A name given by the user, or derived from one, is not a valid distribution name.
    #[error(
        "{0:?} cannot be the name of a distribution: letters, digits, \".\", \"_\" and \"-\" only, the first and the last no punctuation"
    )]
    Distribution(String),
    /// Two bundle keys would share a distribution.
    #[error("{first} and {second} would both be packaged as {distribution}")]
    SameDistribution { distribution: String, first: String, second: String },
    /// The input is not a wheel.
    #[error("the input is not a wheel: it has no *.dist-info directory")]
    NotAWheel,
    /// A file of the dist-info directory is missing or not usable.
    #[error("{path}: {reason}")]
    DistInfo { path: EntryPath, reason: String },
    /// A text given by the user is not a requirement.
    #[error("not a requirement (PEP 508) such as \"numpy >= 2\" or \"rocm-sdk-device-@GFXARCH@ == 7.1\": {0}")]
    Requirement(String),
    /// A text given by the user does not state the extras of a distribution.
    #[error("not a name and its extras, such as \"rocm=libraries,device-gfx942\": {0}")]
    StatedExtras(String),
    /// A variant label breaks the rules of PEP 825.
    #[error("a label consists of digits, lower-case letters, \"_\" and \".\", and is not \"null\"")]
    Label,
    /// The input has a variant label already.
    #[error("{0}: it is a wheel of the variant {1:?} already, so no variant wheel is made of it")]
    IsVariant(String, String),
    /// There is no property by which a variant could be chosen.
    #[error("{0}: it has code for no target that a variant provider knows, so no variant wheel is made of it")]
    NoVariant(String),
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
    #[error("{0}")]
    Read(#[from] ReadError),
}
