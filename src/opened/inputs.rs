//! Inputs as they are installed: the parts of a split, or wheels that belong together, laid over each other.
//! They know what was not looked into, in which device code may be.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;

use super::error::NotUnderstood;
use super::form::{Named, NamedPath, recognise};
use super::site::{Site, outside, sites_of};
use super::split::SplitDirectory;
use super::wheels::{WheelDirectory, is_unpacked_wheel};
use crate::image;
use crate::join::{self, SeveralWheels, WheelsError};
use crate::packages::InstalledComponent;
use crate::remote::RemoteProblem;
use crate::resources::Resources;
use crate::source::{DirectoryListing, EntryPath, Input, SourceError};
use crate::split::{HOST, STATEMENT};
use crate::text::some_of;
use crate::view::REPORTS;

/// What the user named, listed.
#[derive(Debug, Default)]
pub struct OpenedResult<I> {
    /// One input or several.
    pub inputs: I,
    /// What is left out, for the user.
    pub notes: Vec<String>,
    /// What cannot be used, for the user.
    pub warnings: Vec<String>,
}

/// One input or several.
#[derive(Debug)]
pub enum OpenedInputs {
    /// One input, or several wheels or parts that belong together, as one tree.
    One(Box<Input>),
    /// Several that do not, and why. Each is an input, a host wheel together with its device wheels.
    Several(Vec<Input>, anyhow::Error),
}

/// Lists what the user named.
pub fn open(named: &[NamedPath], resources: &Arc<Resources>) -> anyhow::Result<OpenedResult<OpenedInputs>> {
    let mut said = OpenedResult::default();
    let inputs = match named {
        [NamedPath { named: Named::Wheels(directory), .. }] => wheels(&said.keep(directory), resources)?,
        [only] => {
            match &only.named {
                Named::Environment(sites) => said.note_added(sites),
                Named::Split(split) if !split.is_mount && !split.is_tree() => said.note_others(split),
                _ => {}
            }
            one(only, resources)?
        }
        several => {
            let paths: Vec<_> = several.iter().map(|it| it.path.clone()).collect();
            if let Some(split) = split_of_parts(&paths)? {
                lay_over(&split.parts().collect::<Vec<_>>(), resources)?
            } else {
                let named = several.iter().map(|it| said.wheels_of(it)).collect::<Result<Vec<_>, _>>()?;
                wheels(&distinct(named.concat()), resources)?
            }
        }
    };
    Ok(said.with(inputs))
}

/// Lists wheels, of which only host wheels and their device wheels belong together. Anything else is one input.
pub fn open_apart(named: &[NamedPath], resources: &Arc<Resources>) -> anyhow::Result<OpenedResult<Vec<Input>>> {
    let mut said = OpenedResult::default();
    let wheels = named.iter().map(|it| said.wheels_of(it)).collect::<Result<Vec<_>, _>>();
    match (wheels, named) {
        (Ok(wheels), _) => Ok(said.with(join::open_apart(&distinct(wheels.concat()), resources)?)),
        (Err(error), [_]) if matches!(error.downcast_ref(), Some(WheelsError::NotAWheel(_))) => {
            let OpenedResult { inputs, notes, warnings } = open(named, resources)?;
            Ok(OpenedResult { inputs: inputs.into_vec(), notes, warnings })
        }
        (Err(error), _) => Err(error),
    }
}

/// Lists all that the user named: of wheels, only host wheels and their device wheels are laid over each other, and an
/// environment has the directories of packages outside of it as well. Artifacts are one tree, as they are installed.
pub fn open_all(named: &NamedPath, resources: &Arc<Resources>) -> anyhow::Result<OpenedResult<Vec<Input>>> {
    let mut said = OpenedResult::default();
    let inputs = match &named.named {
        Named::Wheels(directory) => join::open_apart(&said.keep(directory), resources)?,
        Named::Split(split) if split.has_wheels_only() => join::open_apart(&split.all_wheels(), resources)?,
        Named::Environment(sites) => {
            let places = std::iter::once(named.path.clone()).chain(outside(&named.path, sites));
            places.map(|place| Input::open(&place, resources)).collect::<Result<_, _>>()?
        }
        Named::Artifacts(found) if found.has_any() => {
            vec![InstalledComponent::open_together(&named.path, found, resources)?]
        }
        _ => one(named, resources)?.into_vec(),
    };
    Ok(said.with(inputs))
}

/// The paths without those of files that were named before, possibly by another path.
fn distinct(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut seen = BTreeSet::new();
    paths.retain(|path| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
    paths
}

/// The split of which these directories are parts, with no other parts. `None` if one of them is something else.
pub fn split_of_parts(paths: &[PathBuf]) -> anyhow::Result<Option<SplitDirectory>> {
    let parts: BTreeSet<_> =
        paths.iter().filter(|path| path.is_dir()).filter_map(|path| path.canonicalize().ok()).collect();
    let Some(root) = parts.first().and_then(|part| part.parent()) else { return Ok(None) };
    let is_part = |part: &PathBuf| part.parent() == Some(root) && SplitDirectory::may_have(part);
    if parts.len() < paths.len() || !parts.iter().all(is_part) {
        return Ok(None);
    }
    let Named::Split(split) = recognise(root)? else { return Ok(None) };
    let is_given = |name: &str| parts.contains(&root.join(name));
    let devices = split.devices.iter().filter(|name| is_given(name)).cloned().collect();
    let split = SplitDirectory { has_host: split.has_host && is_given(HOST), devices, ..*split };
    // What is in `thin/` and `merged/` are wholes.
    Ok(Some(split).filter(|split| split.parts().count() == parts.len() && !split.is_in_views()))
}

impl OpenedInputs {
    /// The only input; fails if there are several.
    pub fn into_one(self) -> anyhow::Result<Input> {
        match self {
            Self::One(input) => Ok(*input),
            Self::Several(_, reason) => Err(reason),
        }
    }

    /// The inputs.
    pub fn into_vec(self) -> Vec<Input> {
        match self {
            Self::One(input) => vec![*input],
            Self::Several(inputs, _) => inputs,
        }
    }
}

impl OpenedResult<()> {
    /// The wheels that one of several paths names.
    fn wheels_of(&mut self, NamedPath { path, named }: &NamedPath) -> anyhow::Result<Vec<PathBuf>> {
        named.check_local(path)?;
        match named {
            Named::Wheel => Ok(vec![path.clone()]),
            Named::Tree if is_unpacked_wheel(path)? => Ok(vec![path.clone()]),
            Named::Wheels(directory) => Ok(self.keep(directory)),
            Named::Split(split) if split.has_wheels_only() => Ok(split.all_wheels()),
            _ => Err(WheelsError::NotAWheel(path.clone()).into()),
        }
    }

    /// Notes the sites outside of an environment.
    fn note_added(&mut self, sites: &[Site]) {
        let added = sites.iter().filter(|site| site.is_added);
        let note = |site: &Site| {
            format!("{}: added by a .pth file, and not looked into; name it alone for that", site.path.display())
        };
        self.notes.extend(added.map(note));
    }

    /// Notes the directories next to the parts of a split.
    fn note_others(&mut self, split: &SplitDirectory) {
        if !split.others.is_empty() {
            let names = some_of(&split.others);
            let path = split.path.display();
            self.notes.push(format!("{path}: left out, since only the parts of the split in it are used: {names}"));
        }
    }

    /// The wheels of a directory. Keeps what is said about the others.
    fn keep(&mut self, directory: &WheelDirectory) -> Vec<PathBuf> {
        self.notes.extend_from_slice(&directory.notes);
        self.warnings.extend_from_slice(&directory.warnings);
        directory.wheels.clone()
    }

    fn with<I>(self, inputs: I) -> OpenedResult<I> {
        OpenedResult { inputs, notes: self.notes, warnings: self.warnings }
    }
}

fn one(NamedPath { path, named }: &NamedPath, resources: &Arc<Resources>) -> anyhow::Result<OpenedInputs> {
    named.check_input(path)?;
    let input = match named {
        Named::Image(image) => image::open_root(image, resources)?,
        Named::Split(split) => return of_split(split, path, resources),
        _ => Input::open(path, resources)?,
    };
    Ok(OpenedInputs::One(Box::new(input)))
}

/// The parts of a split laid over each other, or its only view, or its wheels.
fn of_split(split: &SplitDirectory, path: &Path, resources: &Arc<Resources>) -> anyhow::Result<OpenedInputs> {
    let several = |path: &Path, number: usize, first: &str| {
        let path = path.display();
        anyhow!("{path}: it has {number} views of which each is a whole tree; name one of them, such as {first}")
    };
    let tree = |path: &Path| Ok(OpenedInputs::One(Box::new(Input::open(path, resources)?)));
    let parts: Vec<_> = split.parts().collect();
    if split.has_host {
        return lay_over(&parts, resources);
    }
    if let [_, _, ..] = &*parts
        && let Some(first) = split.devices.first().filter(|_| split.is_in_views())
    {
        return Err(several(path, parts.len(), first));
    }
    if split.is_tree() {
        return tree(path);
    }
    if let [(first, _), ..] = &*split.splits {
        let opened = split.splits.iter().map(|(_, split)| of_split(split, &split.path, resources));
        let opened = opened.collect::<Result<Vec<_>, _>>()?.into_iter().flat_map(OpenedInputs::into_vec).collect();
        return Ok(OpenedInputs::Several(opened, several(&split.path, split.splits.len(), first)));
    }
    let wholes: Vec<_> = split.wholes().collect();
    match &*wholes {
        [] => wheels(&split.all_wheels(), resources),
        [only] => tree(&split.path.join(only)),
        [first, ..] => Err(several(&split.path, wholes.len(), first)),
    }
}

fn lay_over(parts: &[PathBuf], resources: &Arc<Resources>) -> anyhow::Result<OpenedInputs> {
    let parts = parts.iter().map(|part| Input::open(part, resources));
    Ok(OpenedInputs::One(Box::new(join::lay_over(parts.collect::<Result<_, _>>()?)?)))
}

/// Wheels as one tree if they belong together. What is said of a wheel holds for a directory of one.
fn wheels(wheels: &[PathBuf], resources: &Arc<Resources>) -> anyhow::Result<OpenedInputs> {
    Ok(match wheels {
        [only] => OpenedInputs::One(Box::new(Input::open(only, resources)?)),
        several => match join::open_several(several, resources)? {
            SeveralWheels::Together(input) => OpenedInputs::One(input),
            SeveralWheels::Apart(inputs, reason) => OpenedInputs::Several(inputs, reason.into()),
        },
    })
}

impl Named {
    /// Fails for a wheel on a server. It is for commands that cannot read one.
    pub fn check_local(&self, path: &Path) -> anyhow::Result<()> {
        match self {
            Self::Remote => Err(SourceError::from(RemoteProblem::not_taken(path)).into()),
            _ => Ok(()),
        }
    }

    /// Fails for a file that is a part of something, and no input by itself.
    pub fn check_input(&self, path: &Path) -> anyhow::Result<()> {
        let name = path.display();
        let (what, way) = match self {
            Self::Archive => (
                "a .kpack archive, which has the code of libraries that are elsewhere",
                format!("name the split that it is of; `kpackfs kpack list {name}` says what is in it"),
            ),
            Self::Bundle => (
                "an offload bundle without a library",
                format!(
                    "`kpackfs why --target GPU {name}` says whether a GPU can use it; `kpackfs kpack unbundle` unpacks it"
                ),
            ),
            _ => return Ok(()),
        };
        Err(NotUnderstood::Packed { path: path.to_owned(), what, way }.into())
    }
}

/// The statements of splits that are in an input.
pub fn statements_in(input: &Input) -> impl Iterator<Item = &EntryPath> {
    input.files().map(|(path, _)| path).filter(|path| is_statement(path))
}

/// Whether a path is the place of the statement of a split.
pub fn is_statement(path: &EntryPath) -> bool {
    path.name() == STATEMENT.as_bytes() && path.parent().is_some_and(|it| it.name() == REPORTS.as_bytes())
}

/// Fails if `.pth` files of an environment in which nothing was found add directories outside of it.
pub fn check_sites(environment: &Input) -> anyhow::Result<()> {
    let Some(path) = environment.directory() else { return Ok(()) };
    let sites = outside(path, &sites_of(&DirectoryListing::read(path)?)?);
    let Some(first) = sites.first().map(|site| site.display().to_string()) else { return Ok(()) };
    let (path, what, number) = (path.to_owned(), "directories added by .pth files", sites.len());
    Err(NotUnderstood::NotLookedInto { path, what, number, first }.into())
}

/// Fails if an input in which nothing was found has wheels, a split, or symlinks out of it to anything but binaries without device
/// code. That it has no device code would be a guess. Symlinks out of an unpacked wheel are none of a wheel: it is an installation of one
/// package by symlinks to a cache.
pub fn check_elsewhere(input: &Input, resources: &Arc<Resources>) -> anyhow::Result<()> {
    let is_wheel = |path: &&EntryPath| path.name().ends_with(b".whl");
    let splits = || statements_in(input).collect();
    let wheels = || input.files().map(|(path, _)| path).filter(is_wheel).collect();
    let links_out = || join::links_to_code(input, resources);
    let kinds: [(_, &dyn Fn() -> Vec<_>); 3] =
        [("splits", &splits), ("wheels", &wheels), ("symlinks that lead out of it", &links_out)];
    for (what, find) in kinds {
        let found = find();
        if let Some(first) = found.first().map(ToString::to_string) {
            let (path, number) = (input.location.clone(), found.len());
            return Err(NotUnderstood::NotLookedInto { path, what, number, first }.into());
        }
    }
    Ok(())
}
