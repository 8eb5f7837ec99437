//! What `kpackfs split` says after success.

use std::path::PathBuf;

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
        let wheels = written.paths();
        let output = self.output().to_string_lossy();
        let inputs: Vec<_> = self.source.paths().iter().map(|path| path.to_string_lossy().into_owned()).collect();
        // Device parts alone lack what else is in the input.
        let is_whole = is_fat && self.source.artifact_directory().is_none() && !are_device_parts(&self.view);
        let against = if is_whole { &*inputs } else { &[] };
        let against = against.iter().map(String::as_str);
        let is_joined = self.view.iter().any(|view| view.trim_matches('/') == FAT);
        let written = match (self.format, &*wheels) {
            // A host wheel and its only device wheel, or a thin wheel.
            (OutputFormat::Wheel, [_, _]) | (OutputFormat::ThinWheel, [_]) => {
                written.next(["pip", "install"].into_iter().chain(wheels.iter().map(String::as_str)))
            }
            _ if is_joined => written.next(["kpackfs", "inspect", &*output]),
            _ if against.len() == 0 => written.next(["kpackfs", "verify", &*output]),
            _ => written.next(["kpackfs", "verify", &*output, "--against"].into_iter().chain(against)),
        };
        self.said.say(&written)
    }
}
