//! What TheRock's builds publish: artifacts split by GPU, and packages joined from shards, with their `.kpm` lists.

mod artifacts;
mod component;
mod kpm;
mod layout;
mod listed;
mod package;
mod part_inputs;
mod recombined;
mod split_part;
mod stated;

pub use artifacts::{ArtifactPart, Artifacts, NothingToSplit, PartSplit, SplitArtifact};
pub use component::InstalledComponent;
pub use layout::lay_out_artifacts;
pub use part_inputs::PartInputs;
pub use recombined::{Recombined, Shards};
