//! Options about archives, and about the manifests of parts.

use anyhow::Context;
use clap::{Args, ValueEnum};

use crate::kpack::Compression;
use crate::source::EntryPath;
use crate::split::FileDigest;

/// How code objects are compressed.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct CompressionOptions {
    /// Compression of code objects in archives: zstd, zstd:LEVEL (1 to 22) or none [default: zstd:3]
    #[arg(long, value_name = "SCHEME", help_heading = "Split", hide_short_help = true)]
    compression: Option<Compression>,

    /// The level, in rocm-kpack's spelling.
    #[arg(long, value_name = "LEVEL", hide = true, value_parser = clap::value_parser!(i32).range(1..=22))]
    compression_level: Option<i32>,
}

impl CompressionOptions {
    pub(in crate::cli) fn compression(&self) -> Compression {
        match (self.compression.unwrap_or_default(), self.compression_level) {
            (Compression::Zstd(_), Some(level)) => Compression::Zstd(level),
            (compression, _) => compression,
        }
    }
}

/// The names and places of archives.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct ArchiveNames {
    /// First part of the archives' names
    ///
    /// The default is the name of the wheel or the binary, and "rocm" for an install tree. Each binary below usr or opt of a
    /// tree has archives with its own name.
    #[arg(long, value_name = "NAME", alias = "artifact-prefix", help_heading = "Split", hide_short_help = true)]
    group: Option<String>,

    /// An earlier name of --artifact-prefix, used if no other is given.
    #[arg(long, value_name = "NAME", hide = true)]
    component_name: Option<String>,

    /// Directory that gets a .kpack directory
    ///
    /// It may be given several times. The default is every top-level package of a wheel with device code, and the root of an
    /// install tree. For binaries below usr or opt of a tree it is their directory, as packages of a distribution need it.
    #[arg(long, value_name = "DIR", help_heading = "Split", hide_short_help = true)]
    overlay_root: Vec<String>,
}

impl ArchiveNames {
    pub(super) fn group(&self) -> Option<String> {
        self.group.clone().or_else(|| self.component_name.clone())
    }

    /// Whether an earlier name was given, but has no effect.
    pub(super) fn ignores_earlier_name(&self) -> bool {
        self.component_name.is_some() && self.group.is_some()
    }

    /// The overlay roots, if any are given.
    pub(super) fn overlay_roots(&self) -> anyhow::Result<Option<Vec<EntryPath>>> {
        let root = |name: &String| match name.trim_matches('/') {
            "" | "." => Ok(EntryPath::root()),
            name => EntryPath::new(name.as_bytes()).with_context(|| format!("--overlay-root {name}")),
        };
        let roots = self.overlay_root.iter().map(root).collect::<anyhow::Result<Vec<_>>>()?;
        Ok((!roots.is_empty()).then_some(roots))
    }
}

/// The manifests of parts.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct ManifestOptions {
    /// The digests in the manifests of trees and artifacts
    ///
    /// XXH3-128 finds damage, SHA-256 also finds forged files. Wheels always have SHA-256. Without manifests, verify does not
    /// find what is damaged, missing or of another split.
    #[arg(
        long,
        value_enum,
        value_name = "KIND",
        default_value = "xxh3",
        conflicts_with = "no_manifest",
        help_heading = "Split",
        hide_short_help = true
    )]
    digests: Option<Digests>,

    /// An earlier spelling of --digests none.
    #[arg(long, hide = true)]
    no_manifest: bool,
}

/// The digests in manifests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Digests {
    /// XXH3-128
    Xxh3,
    /// SHA-256
    Sha256,
    /// No manifests
    None,
}

impl ManifestOptions {
    /// The digests of manifests; `None` if there are none.
    pub(super) fn digests(&self) -> Option<FileDigest> {
        match self.digests {
            _ if self.no_manifest => None,
            Some(Digests::None) => None,
            Some(Digests::Sha256) => Some(FileDigest::Sha256),
            Some(Digests::Xxh3) | None => Some(FileDigest::Xxh3),
        }
    }
}
