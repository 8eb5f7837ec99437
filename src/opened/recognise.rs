//! Recognising what the user named.

use std::path::{Path, PathBuf};

use super::error::OpenedError;
use super::form::{FORMS, Named};
use super::packed;
use super::place::Place;
use super::split::SplitDirectory;
use crate::artifact::FoundArtifacts;
use crate::image::{ImageReference, LayoutForm, is_layout};
use crate::remote::is_url;
use crate::source::{DirectoryListing, SourceError, unknown};

/// A path that the user named, and what it is.
#[derive(Debug)]
pub struct NamedPath {
    /// The path.
    pub path: PathBuf,
    /// What it is.
    pub named: Named,
}

/// Recognises each input of a command.
pub fn recognise_all(paths: &[PathBuf]) -> Result<Vec<NamedPath>, OpenedError> {
    paths.iter().map(|path| NamedPath::of(path)).collect()
}

impl NamedPath {
    /// Recognises an input.
    pub fn of(path: &Path) -> Result<Self, OpenedError> {
        Ok(Self { path: path.to_owned(), named: recognise(path)? })
    }

    /// The artifacts, if it is one or contains some.
    pub fn artifacts(&self) -> Option<&FoundArtifacts> {
        match &self.named {
            Named::Artifacts(found) if found.has_any() => Some(found),
            _ => None,
        }
    }
}

/// The same for `verify`: a tree that has views among other things is a split, and it says what it does not check.
pub fn recognise_all_unproved(paths: &[PathBuf]) -> Result<Vec<NamedPath>, OpenedError> {
    let mut all = recognise_all(paths)?;
    for NamedPath { path, named } in all.iter_mut().filter(|it| matches!(it.named, Named::Tree)) {
        if let Some(split) = SplitDirectory::of(&DirectoryListing::read(path)?)? {
            *named = Named::Split(Box::new(split));
        }
    }
    Ok(all)
}

/// Recognises an input by the first of the [`FORMS`] that fits. Reads names, statements and first bytes only.
pub fn recognise(path: &Path) -> Result<Named, OpenedError> {
    if is_url(path) {
        return Ok(Named::Remote);
    }
    if let Some(image) = ImageReference::parse(path) {
        let place = Place::new(&image.layout)?;
        if image.form == LayoutForm::Directory && !is_layout(&place.path) {
            let what = "no layout of images, which has the file oci-layout";
            return Err(SourceError::UnknownKind { path: place.path, what }.into());
        }
        return Ok(Named::Image(image));
    }
    packed::of_reference(path)?;
    let place = Place::new(path)?;
    for form in &FORMS {
        if let Some(named) = (form.recognise)(&place)? {
            return Ok(named);
        }
    }
    Err(unknown(path).into())
}
