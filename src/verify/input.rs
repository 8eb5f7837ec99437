//! The input of `verify`: which paths are parts of one split, and which are separate; and what is in the directories of
//! a split or a mount.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::artifacts;
use super::error::VerifyError;
use super::group::{self, NamedInput, group};
use super::overlaid::{laid_over, overlaid_keys, take_off};
use super::parts::{self, Part, Parts, PartsKind};
use super::report::{Findings, Tools, enumerate};
use crate::artifact::FoundArtifacts;
use crate::image;
use crate::opened::{
    Named, NamedPath, OpenedError, Site, SplitDirectory, WheelDirectory, shows_nothing_of_its_own, wheel_in_tree,
};
use crate::resources::Resources;
use crate::rope::{Content, equal};
use crate::source::{Input, SourceError, open_file};
use crate::split::{SIMPLE, STATEMENT};
use crate::view::{HOST, MERGED, REPORTS, THIN, THIN_WHEELS, WHEELS};

/// Something to check.
#[derive(Debug)]
pub(super) enum VerifyInput {
    /// Directories or wheels, each with what belongs to it.
    Parts(Vec<Parts>),
    /// Components of artifacts.
    Artifacts {
        components: Vec<Parts>,
        /// Whether a directory of artifacts was named, so that all components are there.
        is_whole: bool,
    },
    /// A single binary, code object or bundle.
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
    /// The parts, if it is made of them.
    pub(super) fn parts(&self) -> &[Parts] {
        match self {
            Self::Parts(parts) | Self::Artifacts { components: parts, .. } => parts,
            Self::Binary(_) | Self::Archive(_) => &[],
        }
    }
}

/// Opens what the user named. Directories and wheels are grouped by their content; everything else is separate.
pub(super) fn open(named: &[NamedPath], tools: Tools<'_>) -> Result<Vec<VerifyInput>, VerifyError> {
    let Tools { resources, findings } = tools;
    if let Some(components) = artifacts::open(named, tools)? {
        let is_directory = |it: &NamedPath| matches!(it.named, Named::Artifacts(FoundArtifacts::Several { .. }));
        let is_whole = named.iter().any(is_directory);
        return Ok(vec![VerifyInput::Artifacts { components, is_whole }]);
    }
    let (mut grouped, mut inputs) = (Vec::new(), Vec::new());
    for NamedPath { path, named: form } in named {
        let file = || Ok::<_, VerifyError>(SingleFile { path: path.clone(), content: open_file(path, resources)? });
        match form {
            Named::Wheels(wheels) => grouped.extend(wheels_of(wheels, named, tools)),
            Named::Split(split) => {
                inputs.push(VerifyInput::Parts(open_views(split, "", tools)?));
                if !split.sites.is_empty() {
                    inputs.push(open_sites(&split.sites, resources)?);
                }
            }
            Named::Environment(sites) => {
                note_wheels(path, findings)?;
                inputs.push(open_sites(sites, resources)?);
            }
            Named::Image(reference) => {
                let root = image::open_root(reference, resources).map_err(OpenedError::from)?;
                // Messages name the image, and not a file of its layout.
                let root = Input { location: path.clone(), ..root };
                let part = Part::of_input(root, String::new(), resources)?;
                let thin = image::gpus_of(reference, resources).map_err(OpenedError::from)?;
                inputs.push(VerifyInput::Parts(vec![Parts { thin, ..Parts::of_one(part) }]));
            }
            Named::Binary | Named::Bundle | Named::CodeObject => inputs.push(VerifyInput::Binary(file()?)),
            Named::Archive => inputs.push(VerifyInput::Archive(file()?)),
            Named::Tree | Named::Artifacts(_) if shows_nothing_of_its_own(path) => {}
            Named::Tree | Named::Artifacts(_) | Named::Wheel | Named::Remote | Named::Tar | Named::Zip => {
                note_wheels(path, findings)?;
                grouped.push(NamedInput { path: path.clone(), is_listed: false });
            }
        }
    }
    match grouped.as_slice() {
        [] => {}
        // In messages its files have no prefix.
        [NamedInput { path, is_listed: false }] => {
            inputs.push(VerifyInput::Parts(vec![Parts::open_installation(path, String::new(), resources)?]));
        }
        grouped => inputs.push(VerifyInput::Parts(group(grouped, tools)?)),
    }
    Ok(inputs)
}

fn open_sites(sites: &[Site], resources: &Arc<Resources>) -> Result<VerifyInput, VerifyError> {
    let open = |Site { path, label, .. }: &Site| {
        let parts = Parts::open_installation(path, label.clone(), resources)?;
        Ok::<_, VerifyError>(Parts { is_optional: true, ..parts })
    };
    Ok(VerifyInput::Parts(sites.iter().map(open).collect::<Result<_, _>>()?))
}

/// The wheels of a directory. Those of an index that are equal to others of the same name are left out: a mount shows the
/// same ones in its directory of wheels, which may be named as well.
fn wheels_of(wheels: &WheelDirectory, named: &[NamedPath], tools: Tools<'_>) -> Vec<NamedInput> {
    wheels.notes.iter().chain(&wheels.warnings).for_each(|note| tools.findings.note(note.clone()));
    let others = named.iter().filter_map(|it| match &it.named {
        Named::Wheels(other) if wheels.is_index && !other.is_index => Some(&other.wheels),
        _ => None,
    });
    let mut known: Vec<_> = others.flatten().collect();
    // What cannot be read is checked, and gives an error.
    let are_equal = |one: &Path, other: &Path| {
        let (Ok(one), Ok(other)) = (open_file(one, tools.resources), open_file(other, tools.resources)) else {
            return false;
        };
        equal(&*one, &*other).unwrap_or(false)
    };
    let mut kept = Vec::new();
    for wheel in wheels.wheels.iter().chain(&wheels.copies) {
        if !known.iter().any(|other| other.file_name() == wheel.file_name() && are_equal(wheel, other)) {
            known.push(wheel);
            kept.push(NamedInput::listed(wheel));
        }
    }
    kept
}

/// Says that wheels in an installation or a tree are no part of it.
fn note_wheels(path: &Path, findings: &Findings) -> Result<(), SourceError> {
    if let Some(first) = wheel_in_tree(path)? {
        let first = first.display();
        findings.note(format!(
            "{first}: wheels in a tree or an installation are not checked with it; name them to check them"
        ));
    }
    Ok(())
}

/// Opens all that is to be checked. `prefix` comes before the names of parts in findings.
fn open_views(split: &SplitDirectory, prefix: &str, tools: Tools<'_>) -> Result<Vec<Parts>, VerifyError> {
    check_parts(split, tools.findings)?;
    let one = |name: &str| Parts::open_installation(&split.path.join(name), name.to_owned(), tools.resources);
    let mut opened = if split.has_host {
        vec![open_split(split, prefix, tools)?]
    } else {
        split.devices.iter().map(|name| one(name)).collect::<Result<_, _>>()?
    };
    for (name, split) in &split.splits {
        opened.append(&mut open_views(split, &format!("{name}/"), tools)?);
    }
    note_unchecked(split, tools.findings);
    if !split.is_mount {
        for name in split.wholes() {
            opened.push(one(&name)?);
        }
        let wheels: Vec<_> =
            split.wheels.iter().chain(&split.thin_wheels).map(|path| NamedInput::listed(path)).collect();
        opened.extend(group::group(&wheels, tools)?);
    }
    Ok(opened)
}

/// Notes directories that are not checked: what a mount shows a second time, an index, and the views of each wheel in a copy
/// of a mount of several.
fn note_unchecked(split: &SplitDirectory, findings: &Findings) {
    if split.is_mount {
        if !split.merged.is_empty() || !split.wheels.is_empty() {
            findings.note(format!(
                "{MERGED}/ and {WHEELS}/ of a mount show what {HOST}/ and the device parts are made of; name them to \
                 check them as well"
            ));
        }
        if !split.thin.is_empty() {
            findings.note(format!("{THIN}/ and {THIN_WHEELS}/ of a mount were not checked; name what is in them"));
        }
        return;
    }
    // What has a statement may be in a directory with others.
    let is_noted = |name: &&String| split.statement.is_none() || *name == SIMPLE;
    let others: Vec<_> = split.others.iter().filter(is_noted).collect();
    if !others.is_empty() {
        let (place, names) = (split.path.display(), enumerate(&others));
        findings.note(format!("{place}: directories in it that were not checked; name them to check them: {names}"));
    }
}

/// Checks that exactly the parts in the statement exist.
fn check_parts(split: &SplitDirectory, findings: &Findings) -> Result<(), VerifyError> {
    let Some(located) = &split.statement else { return Ok(()) };
    let host = split.has_host.then(|| HOST.to_owned());
    let existing = host.into_iter().chain(split.devices.iter().cloned()).chain(split.wholes());
    parts::check_parts(located, &split.path, existing.filter(|_| !split.is_mount), findings)
}

fn open_split(split: &SplitDirectory, prefix: &str, tools: Tools<'_>) -> Result<Parts, VerifyError> {
    let Tools { resources, findings } = tools;
    let names = std::iter::once(HOST).chain(split.devices.iter().map(String::as_str));
    let open = |name: &str| Part::open(&split.path.join(name), format!("{prefix}{name}"), resources);
    let mut parts = names.map(open).collect::<Result<Vec<_>, _>>()?;
    if let Some((host, devices)) = parts.split_first_mut() {
        let devices: Vec<_> = devices.iter().collect();
        let overlaid = match &split.statement {
            Some(located) => overlaid_keys(&located.arch()?),
            None => laid_over(host, &devices, !split.merged.is_empty(), findings),
        };
        take_off(host, &devices, &overlaid);
        if split.statement.is_none() && host.input.dist_info().is_none() {
            let place = split.path.join(REPORTS).join(STATEMENT);
            findings.note(format!("{}: not found, so that a part which is missing is not noticed", place.display()));
        }
    }
    let statement = split.statement.clone();
    let kind = PartsKind::of_split(statement.as_ref());
    let parts = Parts { statement, ..Parts::new(kind, parts.into_iter().map(Arc::new).collect()) };
    group::check_complete(&parts, findings);
    Ok(parts)
}
