//! Artifacts as they are installed: the host code and the device code of one component in one tree.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::artifacts::{ArtifactError, open};
use crate::artifact::{ArtifactName, FoundArtifacts, GENERIC, ManifestError};
use crate::resources::Resources;
use crate::source::{Input, InputKind};

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
    pub fn all(location: &Path, found: &FoundArtifacts) -> Result<Vec<Self>, ArtifactError> {
        let (found, archives) = match found {
            FoundArtifacts::One => return Ok(vec![Self { name: None, locations: vec![location.to_owned()] }]),
            FoundArtifacts::Several { artifacts, archives, .. } => (artifacts, archives),
        };
        if let Some(archive) = archives.first() {
            return Err(ArtifactError::Archive(location.join(archive)));
        }
        let mut components = BTreeMap::<String, Self>::new();
        for (name, place) in found {
            let parsed = ArtifactName::parse(name).ok_or_else(|| ArtifactError::Name(place.clone()))?;
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

    /// The files of all its artifacts in one tree. Of several files at one path the first is taken.
    pub fn open(&self, resources: &Arc<Resources>) -> Result<Input, ArtifactError> {
        let mut inputs = self.locations.iter().map(|location| match open(location, resources) {
            // A tar archive named as an artifact may contain any tree.
            Err(ArtifactError::Manifest(ManifestError::Missing(_))) if location.is_file() => {
                Ok(Input::open(location, resources)?)
            }
            opened => opened.map(|(input, ..)| input),
        });
        let first = inputs.next().unwrap_or_else(|| Err(ArtifactError::Nothing(PathBuf::new())));
        let mut whole = first?;
        for input in inputs {
            whole.entries.extend(input?.entries);
        }
        whole.kind = InputKind::Tree;
        whole.entries.sort_by(|a, b| a.path.cmp(&b.path));
        whole.entries.dedup_by(|second, first| second.path == first.path);
        Ok(whole)
    }
}
