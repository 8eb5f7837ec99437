//! Listing the applications and trees that the user named.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::CollectError;
use crate::opened::{Named, Opened, OpenedInputs, open, outside, recognise};
use crate::resources::Resources;
use crate::source::Input;

/// Listed inputs, each with the path that names it.
#[derive(Debug, Default)]
pub struct NamedInputs {
    /// The inputs in the order in which they were named.
    pub inputs: Vec<(PathBuf, Input)>,
    /// What is left out, for the user.
    pub notes: Vec<String>,
    /// What cannot be used, for the user.
    pub warnings: Vec<String>,
}

impl NamedInputs {
    /// Lists applications. A split is its parts laid over each other.
    pub fn apps(places: &[PathBuf], resources: &Arc<Resources>) -> Result<Self, CollectError> {
        let mut named = Self::default();
        places.iter().try_for_each(|place| named.add(place, resources))?;
        Ok(named)
    }

    /// Lists trees. Those of an environment are its prefix, since conda puts libraries next to the packages, and the
    /// directories of packages outside of it.
    pub fn trees(places: &[PathBuf], resources: &Arc<Resources>) -> Result<Self, CollectError> {
        let mut named = Self::default();
        for place in places {
            let sites = match recognise(place)? {
                Named::Environment(sites) => outside(place, &sites),
                _ => Vec::new(),
            };
            std::iter::once(place).chain(&sites).try_for_each(|place| named.add(place, resources))?;
        }
        Ok(named)
    }

    fn add(&mut self, place: &Path, resources: &Arc<Resources>) -> Result<(), CollectError> {
        let Opened { inputs, notes, warnings } = open(&[place.to_owned()], Input::open, resources)?;
        let inputs = match inputs {
            OpenedInputs::One(input) => vec![*input],
            // Wheels that do not belong together are trees of their own.
            OpenedInputs::Several(inputs) => inputs,
        };
        self.inputs.extend(inputs.into_iter().map(|input| (place.to_owned(), input)));
        self.notes.extend(notes);
        self.warnings.extend(warnings);
        Ok(())
    }
}
