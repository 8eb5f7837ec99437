//! Wheels as they are made: what each part of a split has as a wheel, with digests that are computed when they are read.

mod assemble;
mod digest;
mod entry;
mod fat;
mod input_record;
mod licences;
mod payload;
mod record;
mod record_file;
mod spliced;
#[cfg(test)]
mod tests;
mod unchanged;
mod wheel_part;
mod wheels;
mod writer;
mod zip;

pub use assemble::{Assembled, AssemblyOptions, SplitWheel, Wheels, warnings_of};
pub use digest::{Digest, Sums};
pub use entry::WheelEntry;
pub use fat::FatWheel;
pub(crate) use record_file::{RecordFile, WheelBody};
pub use unchanged::Unchanged;
pub use wheel_part::WheelPart;
pub use wheels::{WheelOptions, WheelSet};
pub use zip::{DosTime, archive};
