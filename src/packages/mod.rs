//! What TheRock's builds publish: artifacts split by GPU, and packages joined from shards, with their `.kpm` lists.

mod artifacts;
mod component;
mod error;
mod kpm;
mod layout;
mod listed;
mod package;
mod part_inputs;
mod recombined;

pub use artifacts::{ArtifactError, ArtifactPart, Artifacts, PartSplit, SplitArtifact};
pub use component::InstalledComponent;
pub use error::{LeftOut, RecombineError};
pub use layout::lay_out_artifacts;
pub use part_inputs::PartInputs;
pub use recombined::{Recombined, Shards};
