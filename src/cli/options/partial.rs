//! Commands with some of the options of a split. The others are the defaults.

use clap::Args;

use super::{
    ArchiveNames, CompressionOptions, DatabaseOptions, DeflateOptions, Ignored, ManifestOptions, ResourceOptions,
    SplitOptions, TargetOptions, WheelNames,
};

/// Some groups of the options of a split.
macro_rules! some_of_split {
    ($(#[$what:meta])* $name:ident { $($group:ident: $kind:ty,)* }) => {
        $(#[$what])*
        #[derive(Debug, Args)]
        pub(in crate::cli) struct $name {
            $(#[command(flatten)]
            pub(in crate::cli) $group: $kind,)*
        }

        impl $name {
            /// The options of a split, of which the others are the defaults.
            pub(in crate::cli) fn of_split(&self) -> SplitOptions {
                SplitOptions { $($group: self.$group.clone(),)* ..SplitOptions::default() }
            }
        }
    };
}

some_of_split! {
    /// The options of a split that change what is reported.
    InspectOptions {
        targets: TargetOptions,
        databases: DatabaseOptions,
        names: ArchiveNames,
        compression: CompressionOptions,
        wheel_names: WheelNames,
        deflate: DeflateOptions,
        resources: ResourceOptions,
    }
}

some_of_split! {
    /// The options of a split that change what is compared.
    DiffOptions {
        targets: TargetOptions,
        databases: DatabaseOptions,
        compression: CompressionOptions,
        deflate: DeflateOptions,
        resources: ResourceOptions,
    }
}

some_of_split! {
    /// The options of a split that change which views there are.
    ViewOptions {
        targets: TargetOptions,
        databases: DatabaseOptions,
        resources: ResourceOptions,
    }
}

some_of_split! {
    /// The options of a split that packages have.
    RecombineOptions {
        targets: TargetOptions,
        databases: DatabaseOptions,
        compression: CompressionOptions,
        manifests: ManifestOptions,
        resources: ResourceOptions,
        ignored: Ignored,
    }
}
