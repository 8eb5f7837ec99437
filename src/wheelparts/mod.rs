//! The wheels of a split: their files, with digests that are computed when they are read, and their bytes as ropes.
//!
//! [`Wheels`] knows the fat wheel and the parts it is split into. For each [`SplitWheel`] it makes the dist-info files
//! and combines them with the payload to an [`Assembled`] part: a list of files for a directory, and the `.whl` file of
//! exactly these files.

mod assemble;
mod bounds;
mod deflating;
mod digest;
mod entry;
mod fat;
mod input_record;
mod licences;
mod nearby;
mod part_manifest;
mod payload;
mod planned;
mod record;
mod record_file;
mod requirements;
mod sboms;
mod spliced;
#[cfg(test)]
mod tests;
mod thin_part;
mod unchanged;
mod wheel_part;
mod wheels;
mod zip;

pub use assemble::{Assembled, AssemblyOptions, SplitWheel, Wheels, warnings_of};
pub use digest::{Digest, Sums};
pub use entry::WheelEntry;
pub use fat::FatWheel;
pub use planned::PlannedInput;
pub(crate) use record_file::{RecordFile, WheelBody};
pub use unchanged::{InputDigests, Unchanged};
pub use wheel_part::WheelPart;
pub use wheels::{WheelOptions, WheelSet};
pub use zip::{DosTime, archive};
