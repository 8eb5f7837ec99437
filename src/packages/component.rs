//! Artifacts as they are installed: the host code and the device code of one component in one tree.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::artifacts::{no_artifact, unnamed};
use crate::artifact::{ArtifactName, FoundArtifacts, GENERIC, Manifest};
use crate::join::lay_over;
use crate::resources::Resources;
use crate::source::Input;

/// Artifacts that are installed together.
#[derive(Debug)]
pub struct InstalledComponent {
    /// The name of the component, or of its only artifact. `None` if that artifact is the whole input.
    pub name: Option<String>,
    locations: Vec<PathBuf>,
}

impl InstalledComponent {
    /// The components of the artifact at `location`, or of all artifacts that were found in that directory. Device parts
    /// belong to the generic part next to them.
    pub fn all(location: &Path, found: &FoundArtifacts) -> anyhow::Result<Vec<Self>> {
        let (found, archives) = match found {
            FoundArtifacts::One => return Ok(vec![Self { name: None, locations: vec![location.to_owned()] }]),
            FoundArtifacts::Several { artifacts, archives, .. } => (artifacts, archives),
        };
        if let Some(archive) = archives.first() {
            return Err(no_artifact(&location.join(archive)));
        }
        let mut components = BTreeMap::<String, Self>::new();
        for (name, place) in found {
            let parsed = ArtifactName::parse(name).ok_or_else(|| unnamed(place))?;
            let is_split = found.contains_key(&ArtifactName::new(&parsed.component, GENERIC).to_string());
            let name = if is_split { parsed.component } else { name.clone() };
            let component = components.entry(name.clone());
            component.or_insert_with(|| Self { name: Some(name), locations: Vec::new() }).locations.push(place.clone());
        }
        Ok(components.into_values().collect())
    }

    /// The directory of its only artifact; `None` if it has several, or one in a tar archive.
    pub fn directory(&self) -> Option<&Path> {
        let [only] = self.locations.as_slice() else { return None };
        only.is_dir().then_some(only)
    }

    /// All artifacts of a directory in one tree, as [`Self::open`] has those of a component.
    pub fn open_together(location: &Path, found: &FoundArtifacts, resources: &Arc<Resources>) -> anyhow::Result<Input> {
        let locations = Self::all(location, found)?.into_iter().flat_map(|component| component.locations).collect();
        Self { name: None, locations }.open(resources)
    }

    /// The files of all its artifacts in one tree, with their prefixes laid over each other. Of different files at one path
    /// the first is taken, with a warning.
    pub fn open(&self, resources: &Arc<Resources>) -> anyhow::Result<Input> {
        let installed = |location: &PathBuf| {
            let (mut input, origins) = Manifest::open_installed(location, resources)?;
            let left_out = |(path, other)| format!("{path}: left out: {other} is installed at the same place");
            input.warnings.extend(origins.conflicts.into_iter().map(left_out));
            Ok(input)
        };
        let parts = self.locations.iter().map(installed).collect::<anyhow::Result<_>>()?;
        Ok(lay_over(parts)?)
    }
}
