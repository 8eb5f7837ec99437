//! The formats that `kpackfs split` writes.

use clap::ValueEnum;

/// What is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum OutputFormat {
    /// A directory for each part (the default)
    Directory,
    /// A .whl file for each part of a wheel
    Wheel,
    /// A self-contained .whl file for each GPU, in a directory with its name
    ThinWheel,
    /// A package index of wheels, for pip and uv: simple/, with the .whl files of all parts. INPUT may be any wheels
    Index,
    /// An image for each GPU, with its name as the tag, in an OCI image layout. INPUT is an image (oci:DIR:TAG)
    Oci,
}

impl OutputFormat {
    /// Whether all archives of a split are written in this format, to the output itself.
    pub(super) fn has_archives(self) -> bool {
        matches!(self, Self::Directory | Self::Wheel)
    }
}
