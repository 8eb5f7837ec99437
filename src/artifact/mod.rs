//! Artifacts: the directories that builds of ROCm (`TheRock`) produce, and how those of several builds are joined.
//!
//! An artifact is a directory `<component>_<family>` with a file `artifact_manifest.txt`, which lists *prefixes*:
//! directories of the artifact that are laid over each other when it is installed. A split artifact is
//! `<component>_generic` with host code and `<component>_<processor>` for each processor. A *shard* is the directory of
//! all artifacts of one build.
//!
//! It does not know device code: `split` decides where each file goes.

mod config;
mod find;
mod kpm;
mod manifest;
mod name;
mod recombine;

pub use config::{Group, PackagingConfig, Validation};
pub use find::{FoundArtifacts, find, find_in, is_packed_artifact, name_of_archive, shards};
pub use kpm::{Kpm, KpmEntry};
pub use manifest::{MANIFEST, Manifest, ManifestError};
pub use name::{ArtifactName, GENERIC};
pub use recombine::{Combined, Duplicate, Missing, Recombination, recombine};
pub(crate) use recombine::{is_grouped, is_same_part};
