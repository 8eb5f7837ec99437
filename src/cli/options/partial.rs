//! Commands with some of the options of a split. The others are the defaults.

use clap::Args;

use super::{
    ArchiveNames, CompressionOptions, DatabaseOptions, DeflateOptions, Ignored, ManifestOptions, ResourceOptions,
    SplitOptions, TargetOptions, WheelNames,
};

/// The options of a split that change what is reported.
#[derive(Debug, Args)]
pub(in crate::cli) struct InspectOptions {
    #[command(flatten)]
    targets: TargetOptions,

    #[command(flatten)]
    databases: DatabaseOptions,

    #[command(flatten)]
    names: ArchiveNames,

    #[command(flatten)]
    compression: CompressionOptions,

    #[command(flatten)]
    wheel_names: WheelNames,

    #[command(flatten)]
    deflate: DeflateOptions,

    #[command(flatten)]
    pub(in crate::cli) resources: ResourceOptions,
}

impl InspectOptions {
    /// The sizes are those of what split writes.
    pub(in crate::cli) fn of_split(&self) -> SplitOptions {
        let Self { targets, databases, names, compression, wheel_names, deflate, resources } = self;
        let options = SplitOptions {
            targets: targets.clone(),
            databases: databases.clone(),
            names: names.clone(),
            compression: compression.clone(),
            wheel_names: wheel_names.clone(),
            deflate: deflate.clone(),
            resources: resources.clone(),
            ..SplitOptions::default()
        };
        options.of_writer()
    }
}

/// The options of a split that change what is compared.
#[derive(Debug, Args)]
pub(in crate::cli) struct DiffOptions {
    #[command(flatten)]
    targets: TargetOptions,

    #[command(flatten)]
    databases: DatabaseOptions,

    #[command(flatten)]
    compression: CompressionOptions,

    #[command(flatten)]
    deflate: DeflateOptions,

    #[command(flatten)]
    pub(in crate::cli) resources: ResourceOptions,
}

impl DiffOptions {
    pub(in crate::cli) fn of_split(&self) -> SplitOptions {
        let Self { targets, databases, compression, deflate, resources } = self;
        let options = SplitOptions {
            targets: targets.clone(),
            databases: databases.clone(),
            compression: compression.clone(),
            deflate: deflate.clone(),
            resources: resources.clone(),
            ..SplitOptions::default()
        };
        options.of_writer()
    }
}

/// The options of a split that change which views there are.
#[derive(Debug, Args)]
pub(in crate::cli) struct ViewOptions {
    #[command(flatten)]
    targets: TargetOptions,

    #[command(flatten)]
    databases: DatabaseOptions,

    #[command(flatten)]
    pub(in crate::cli) resources: ResourceOptions,
}

impl ViewOptions {
    pub(in crate::cli) fn of_split(&self) -> SplitOptions {
        let Self { targets, databases, resources } = self;
        SplitOptions {
            targets: targets.clone(),
            databases: databases.clone(),
            resources: resources.clone(),
            ..SplitOptions::default()
        }
    }
}

/// The options of a split that packages have.
#[derive(Debug, Args)]
pub(in crate::cli) struct RecombineOptions {
    #[command(flatten)]
    targets: TargetOptions,

    #[command(flatten)]
    databases: DatabaseOptions,

    #[command(flatten)]
    compression: CompressionOptions,

    #[command(flatten)]
    manifests: ManifestOptions,

    #[command(flatten)]
    pub(in crate::cli) resources: ResourceOptions,

    #[command(flatten)]
    ignored: Ignored,
}

impl RecombineOptions {
    pub(in crate::cli) fn of_split(&self) -> SplitOptions {
        let Self { targets, databases, compression, manifests, resources, ignored } = self;
        SplitOptions {
            targets: targets.clone(),
            databases: databases.clone(),
            compression: compression.clone(),
            manifests: manifests.clone(),
            resources: resources.clone(),
            ignored: ignored.clone(),
            ..SplitOptions::default()
        }
    }
}
