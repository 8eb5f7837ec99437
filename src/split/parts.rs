//! Names of directories that a split uses itself.

/// Names of directories that a split uses itself, so that no target may have them.
pub const RESERVED: [&str; 10] = [HOST, DEVICE, MERGED, WHEELS, THIN, THIN_WHEELS, FAT, FAT_WHEEL, SIMPLE, SIMPLE_THIN];
/// The host part.
pub const HOST: &str = "host";
/// Links to the device parts.
pub const DEVICE: &str = "device";
/// Trees as installed for one target.
pub const MERGED: &str = "merged";
/// Wheels of the parts.
pub const WHEELS: &str = "wheels";
/// Trees as installed for some GPUs, with device code in binaries.
pub const THIN: &str = "thin";
/// The fat binaries from which split ones were made.
pub const FAT: &str = "fat";
/// A wheel for each thin view.
pub const THIN_WHEELS: &str = "thin-wheels";
/// The wheel before it was split.
pub const FAT_WHEEL: &str = "fat-wheel";
/// A package index of all wheels, except thin ones.
pub const SIMPLE: &str = "simple";
/// A package index of thin wheels for each thin view.
pub const SIMPLE_THIN: &str = "simple-thin";
