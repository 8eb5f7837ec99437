//! GPU targets: their names, their places in the packaging hierarchy, and which of them this machine has.
//!
//! It knows targets by their names and imports no other room.

mod bundled;
mod detect;
mod fallback;
mod hierarchy;
mod id;
mod key;
mod names;
mod processors;
mod served;
mod set;
mod unknown;
mod version_override;

pub use detect::{DetectError, GpuNode, KFD_TOPOLOGY, detect, gpu_nodes};
pub use fallback::{FALLBACKS, Fallback, FallbackState};
pub use hierarchy::{BUNDLES, GpuFamily, Level, TARGETS, Target};
pub use id::{SPIRV, TargetId, TargetIdError, begins_with_target};
pub use key::{BundleKey, UNKNOWN};
pub(crate) use names::{arch_at, archs, find_arch, named_gpu, number_at, starts, whole_arch};
pub use processors::{ModeSupport, PROCESSORS, Processor};
pub use served::{CodeKind, FoundCode};
pub use set::GpuSet;
pub use unknown::{begins_device_part, doubt, near_gpus};
pub use version_override::{OVERRIDE, OverrideEffect, VersionOverride, stand_ins, value_for, version_override};
