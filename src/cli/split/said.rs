//! What `kpackfs split` says after success.

use std::path::{Path, PathBuf};

use super::super::output_format::OutputFormat;
use super::{Split, WrittenOutput};
use crate::split::are_device_parts;
use crate::view::FAT;

impl Split {
    /// Says what was written. `is_fat` is whether the input is as it was before any split, `not_split` what is left of it.
    pub(super) fn say(&self, places: &[PathBuf], is_fat: bool, not_split: Option<String>) -> anyhow::Result<()> {
        let noun = match self.format {
            OutputFormat::Directory if self.view.is_empty() => ("part", "parts"),
            OutputFormat::Directory => ("view", "views"),
            OutputFormat::Wheel | OutputFormat::ThinWheel => ("wheel", "wheels"),
            OutputFormat::Index => ("index", "indexes"),
            OutputFormat::Oci => ("image", "images"),
        };
        let written = WrittenOutput::at(noun, self.output(), places)?.without(not_split);
        let (output, inputs) = (self.output(), self.source.paths());
        // Device parts alone lack what else is in the input.
        let is_whole = is_fat && self.source.artifact_directory().is_none() && !are_device_parts(&self.view);
        let against = if is_whole { &*inputs } else { &[] };
        let is_joined = self.view.iter().any(|view| view.trim_matches('/') == FAT);
        let written = match (self.format, places) {
            // A host wheel and its only device wheel, or a thin wheel.
            (OutputFormat::Wheel, [_, _]) | (OutputFormat::ThinWheel, [_]) => written.next("pip install", places),
            _ if is_joined => written.next("kpackfs inspect", [output]),
            _ if against.is_empty() => written.next("kpackfs verify", [output]),
            _ => {
                let words = [output, Path::new("--against")].into_iter().chain(against.iter().map(PathBuf::as_path));
                written.next("kpackfs verify", words)
            }
        };
        self.said.say(&written)
    }
}
