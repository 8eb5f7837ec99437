//! GPU targets: their names, their places in the packaging hierarchy, and which of them this machine has.
//!
//! It knows targets by their names and imports no other room.

mod detect;
mod hierarchy;
mod id;
mod key;
mod set;

pub use detect::{DetectError, KFD_TOPOLOGY, detect, devices};
pub use hierarchy::{BUNDLES, GpuFamily, Level, TARGETS, Target, Xnack, target_of_version};
pub use id::{SPIRV, TargetId, TargetIdError, begins_with_target};
pub use key::BundleKey;
pub use set::GpuSet;
