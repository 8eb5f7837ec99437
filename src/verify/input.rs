//! The input of `verify`: which paths are parts of one split, and which are separate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::artifacts;
use super::directory::{is_wheel, wheels_in};
use super::error::VerifyError;
use super::group::{NamedInput, group};
use super::parts::Parts;
use super::report::Findings;
use super::sites::{Site, sites_of};
use super::views::Views;
use crate::kpack;
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{begins_binary, open_file};
use crate::view::REPORTS;

/// Something to check.
#[derive(Debug)]
pub(super) enum VerifyInput {
    /// Directories or wheels.
    Parts(Box<Parts>),
    /// The directories of packages of an environment. Some of them may have nothing to check.
    Sites(Vec<Parts>),
    /// A single binary.
    Binary(SingleFile),
    /// A single archive.
    Archive(SingleFile),
}

/// A single file.
#[derive(Debug)]
pub(super) struct SingleFile {
    pub(super) path: PathBuf,
    pub(super) content: Arc<dyn Content>,
}

impl VerifyInput {
    fn of_parts(parts: Parts) -> Self {
        Self::Parts(Box::new(parts))
    }

    /// The component, if these are the parts of an artifact.
    pub(super) fn component(&self) -> Option<&str> {
        match self {
            Self::Parts(parts) => parts.component.as_deref(),
            Self::Sites(_) | Self::Binary(_) | Self::Archive(_) => None,
        }
    }
}

/// Classifies the paths. Artifacts are recognised by their manifests, and the output of `split` and `mount` by the
/// names of its directories. A directory of wheels stands for its wheels, and a virtual environment for its directories of
/// packages. Other directories and wheels are grouped by
/// their content. Everything else is separate.
pub(super) fn open(
    paths: &[PathBuf],
    resources: &Arc<Resources>,
    findings: &Findings,
) -> Result<Vec<VerifyInput>, VerifyError> {
    if let Some(artifacts) = artifacts::open(paths, resources, findings)? {
        return Ok(artifacts.into_iter().map(VerifyInput::of_parts).collect());
    }
    let mut parts = Vec::new();
    let mut others = Vec::new();
    let mut inputs = Vec::new();
    // If all entries of a directory are named, the directory of the statement is among them.
    for path in paths.iter().filter(|path| !path.ends_with(REPORTS)) {
        let wheels = wheels_in(path)?;
        if !wheels.is_empty() {
            parts.extend(wheels.into_iter().map(|path| NamedInput { path, is_listed: true }));
        } else if let Some(views) = Views::of(path)? {
            inputs.extend(views.open(resources, findings)?.into_iter().map(VerifyInput::of_parts));
        } else if let sites @ [_, ..] = &*sites_of(path)? {
            let open = |site: &Site| Parts::open_installation(&site.path, site.label.clone(), resources, findings);
            inputs.push(VerifyInput::Sites(sites.iter().map(open).collect::<Result<_, _>>()?));
        } else if path.is_dir() || is_wheel(path) {
            parts.push(NamedInput { path: path.clone(), is_listed: false });
        } else {
            others.push(path.clone());
        }
    }
    match parts.as_slice() {
        [NamedInput { path, is_listed: false }] => others.push(path.clone()),
        parts => inputs.extend(group(parts, resources, findings)?.into_iter().map(VerifyInput::of_parts)),
    }
    for path in others {
        inputs.push(open_one(&path, resources, findings)?);
    }
    Ok(inputs)
}

fn open_one(path: &Path, resources: &Arc<Resources>, findings: &Findings) -> Result<VerifyInput, VerifyError> {
    if path.is_dir() || is_wheel(path) {
        return Ok(VerifyInput::of_parts(Parts::open_installation(path, String::new(), resources, findings)?));
    }
    let content = open_file(path, resources)?;
    let mut magic = [0; 4];
    if content.size() >= 4 {
        content.peek(&mut magic)?;
    }
    let file = SingleFile { path: path.to_owned(), content };
    if magic == *kpack::MAGIC || path.extension().is_some_and(|extension| extension == "kpack") {
        Ok(VerifyInput::Archive(file))
    } else if begins_binary(magic) {
        Ok(VerifyInput::Binary(file))
    } else {
        Err(VerifyError::UnknownKind(path.to_owned()))
    }
}
