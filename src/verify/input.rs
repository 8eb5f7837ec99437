//! The input of `verify`: which paths are parts of one split, and which are separate.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::artifacts;
use super::directory::{directories_in, is_wheel, read_directory, wheels_among, wheels_in, wheels_in_index};
use super::error::VerifyError;
use super::group::{NamedInput, group, has_code};
use super::parts::{Part, Parts};
use super::report::{Findings, enumerate};
use super::sites::{Site, has_packages, is_environment, is_prefix, sites_of};
use super::statement::LocatedStatement;
use super::views::Views;
use crate::kpack;
use crate::resources::Resources;
use crate::rope::{Content, equal};
use crate::source::{SourceError, begins_binary, open_file};
use crate::split::SIMPLE;
use crate::view::{DEVICE, REPORTS, WHEELS};

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

    /// The parts, if it is made of them.
    pub(super) fn parts(&self) -> &[Parts] {
        match self {
            Self::Parts(parts) => std::slice::from_ref(parts),
            Self::Sites(sites) => sites,
            Self::Binary(_) | Self::Archive(_) => &[],
        }
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
/// packages, whatever else is in it. Other directories and wheels are grouped by their content. Everything else is
/// separate.
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
    for path in paths.iter().filter(|path| !is_shown_elsewhere(path)) {
        let (wheels, is_prefix) = (wheels_in(path)?, is_prefix(path)?);
        if !wheels.is_empty() {
            parts.extend(listed(wheels));
            continue;
        }
        let wheels = wheels_in_index(path)?;
        if !wheels.is_empty() {
            parts.extend(listed(without_copies(wheels, wheels_beside(path, paths)?, resources)));
            continue;
        }
        // In an environment, only a statement proves that these directories are views.
        let views = Views::of(path)?.filter(|views| !is_prefix || views.has_statement());
        let has_views = views.is_some();
        if let Some(views) = views {
            inputs.extend(views.open(resources, findings)?.into_iter().map(VerifyInput::of_parts));
        }
        if has_views && !is_environment(path) {
            continue;
        }
        if let sites @ [_, ..] = &*sites_of(path)? {
            let open = |Site { path, label, is_added }: &Site| {
                let parts = Parts::open_installation(path, label.clone(), resources, findings)?;
                Ok::<_, VerifyError>(Parts { is_added: *is_added, ..parts })
            };
            inputs.push(VerifyInput::Sites(sites.iter().map(open).collect::<Result<_, _>>()?));
        } else if let wheels @ [_, ..] = &*wheels_of_release(path, resources)? {
            parts.extend(listed(wheels.to_vec()));
            let names = directories_in(path)?;
            findings.note(format!(
                "{}: the wheels in it were checked, and no directory next to them: {}",
                path.display(),
                enumerate(&names)
            ));
            continue;
        } else if path.is_dir() || is_wheel(path) {
            parts.push(NamedInput { path: path.clone(), is_listed: false });
        } else {
            others.push(path.clone());
        }
        note_wheels(path, has_views, findings)?;
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

/// Whether a directory shows nothing of its own, if all entries of a split or of a mount are named: the directory of the
/// statement, and that of links to the device parts.
fn is_shown_elsewhere(path: &Path) -> bool {
    let is_link = |entry: &PathBuf| entry.is_symlink();
    let has_links_only = || read_directory(path).is_ok_and(|entries| entries.iter().all(is_link));
    path.ends_with(REPORTS) || path.ends_with(DEVICE) && has_links_only()
}

/// The wheels in `wheels/` next to an index, if that is named as well: a mount shows the same ones in both.
fn wheels_beside(index: &Path, paths: &[PathBuf]) -> Result<Vec<PathBuf>, SourceError> {
    let beside = index.with_file_name(WHEELS);
    if index.ends_with(SIMPLE) && paths.contains(&beside) { wheels_in(&beside) } else { Ok(Vec::new()) }
}

/// Leaves out wheels that are equal to `others` of the same name, or to each other.
fn without_copies(wheels: Vec<PathBuf>, mut others: Vec<PathBuf>, resources: &Arc<Resources>) -> Vec<PathBuf> {
    // What cannot be read is checked, and gives an error.
    let are_equal = |one: &Path, other: &Path| {
        let (Ok(one), Ok(other)) = (open_file(one, resources), open_file(other, resources)) else { return false };
        equal(&*one, &*other).unwrap_or(false)
    };
    let mut kept = Vec::new();
    for wheel in wheels {
        if !others.iter().any(|other| other.file_name() == wheel.file_name() && are_equal(&wheel, other)) {
            others.push(wheel.clone());
            kept.push(wheel);
        }
    }
    kept
}

fn listed(wheels: Vec<PathBuf>) -> impl Iterator<Item = NamedInput> {
    wheels.into_iter().map(|path| NamedInput { path, is_listed: true })
}

/// The wheels in a directory that also contains directories, but no code and no part of a split.
fn wheels_of_release(path: &Path, resources: &Arc<Resources>) -> Result<Vec<PathBuf>, VerifyError> {
    let wheels = wheels_among(path)?;
    if wheels.is_empty() || LocatedStatement::of_part(path)?.is_some() {
        return Ok(Vec::new());
    }
    let tree = Part::open(path, String::new(), resources, &Findings::default())?;
    Ok(if has_code(&tree) || has_packages(path) { Vec::new() } else { wheels })
}

/// Says that wheels in an installation or a tree are no part of it.
fn note_wheels(path: &Path, has_views: bool, findings: &Findings) -> Result<(), VerifyError> {
    let places = [path.to_owned(), path.join(WHEELS)];
    for place in places.iter().filter(|_| !has_views) {
        if let Some(first) = wheels_among(place)?.first() {
            let first = first.display();
            findings.note(format!(
                "{first}: wheels in a tree or an installation are not checked with it; name them to check them"
            ));
        }
    }
    Ok(())
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
