//! The fat input after `--against`, and what of all that is verified was made of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::against::Comparison;
use super::artifacts::FatArtifacts;
use super::context::Context;
use super::distributions::{Distribution, named_by};
use super::error::VerifyError;
use super::input::VerifyInput;
use super::parts::{Part, Parts};
use super::report::Findings;
use crate::image::{self, ImageReference};
use crate::join::join;
use crate::metrics::Progress;
use crate::opened::{Named, OpenedError, Site, recognise};
use crate::resources::Resources;
use crate::source::{EntryKind, EntryPath, Input};
use crate::wheel::{Metadata, WheelFile, WheelName, normalise};

/// What `--against` names.
pub(super) struct FatInput<'a> {
    path: &'a Path,
    form: FatForm,
    /// The build that it is, if several parts may be of other builds of one distribution, and the best fit among these.
    build: Option<(BuildLabel, BuildFit)>,
}

/// The form of a fat input.
enum FatForm {
    Artifacts(FatArtifacts),
    /// A wheel, a tree or a tar archive.
    Whole(PathBuf),
    /// The directories of packages of an environment.
    Environment(Vec<Site>),
    /// The root file system of an image.
    Image(ImageReference),
}

/// Tells a build of a distribution from those for other versions of Python, or of other versions.
struct BuildLabel {
    /// The normalised name.
    name: String,
    version: String,
    /// `None` if they cannot be read.
    tags: Option<BTreeSet<String>>,
}

/// How much of a label agrees, in ascending order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct BuildFit {
    has_version: bool,
    has_tags: bool,
}

impl FatForm {
    fn of(path: &Path, is_of_artifacts: bool) -> Result<Self, VerifyError> {
        let form = recognise(path)?;
        let refused = |what| Err(VerifyError::NotFat { path: path.to_owned(), what });
        if is_of_artifacts {
            return Ok(Self::Artifacts(FatArtifacts::of(path, form)?));
        }
        match form {
            Named::Wheels(wheels) => match <[PathBuf; 1]>::try_from(wheels.wheels) {
                Ok([wheel]) => Ok(Self::Whole(wheel)),
                Err(_) if wheels.is_index => refused("a package index of several wheels"),
                Err(_) => refused("a directory of wheels"),
            },
            Named::Environment(sites) => Ok(Self::Environment(sites)),
            Named::Image(reference) => Ok(Self::Image(reference)),
            Named::Split(split) if split.is_mount => refused("a mount of a split"),
            Named::Split(_) => refused("an output of `split`"),
            Named::Archive => refused("a .kpack archive"),
            Named::Bundle => refused("an offload bundle"),
            Named::CodeObject => refused("a code object"),
            Named::Tree | Named::Artifacts(_) | Named::Wheel | Named::Tar | Named::Zip | Named::Binary => {
                Ok(Self::Whole(path.to_owned()))
            }
        }
    }
}

impl<'a> FatInput<'a> {
    pub(super) fn find(
        path: &'a Path,
        inputs: &[VerifyInput],
        resources: &Arc<Resources>,
    ) -> Result<Self, VerifyError> {
        let parts: Vec<_> = inputs.iter().flat_map(VerifyInput::parts).collect();
        let form = FatForm::of(path, parts.iter().any(|parts| parts.component.is_some()))?;
        let label = match &form {
            FatForm::Whole(place) if parts.len() > 1 => BuildLabel::of_fat(&Input::open(place, resources)?),
            _ => None,
        };
        let with_best = |label: BuildLabel| {
            let best = parts.iter().filter_map(|parts| label.fit(parts)).max()?;
            Some((label, best))
        };
        Ok(Self { path, form, build: label.and_then(with_best) })
    }

    /// Checks that each component of a directory of artifacts is among the input.
    pub(super) fn check_components(&self, existing: &[Parts], chosen: &[String], findings: &Findings) {
        if let FatForm::Artifacts(artifacts) = &self.form {
            let existing = existing.iter().filter_map(|parts| parts.component.as_deref()).collect();
            artifacts.check_components(&existing, chosen, findings);
        }
    }

    /// Opens it, with the files of its distributions, or all of an environment, whose split is compared with all of it.
    fn open(&self, has_distributions: bool, resources: &Arc<Resources>) -> Result<Part, VerifyError> {
        let place = match &self.form {
            FatForm::Image(reference) => {
                let root = image::open_root(reference, resources).map_err(OpenedError::from)?;
                return Part::of_input(root, String::new(), resources);
            }
            FatForm::Whole(place) => place,
            FatForm::Environment(sites) if has_distributions => site_of(self.path, sites)?,
            FatForm::Environment(_) | FatForm::Artifacts(_) => self.path,
        };
        Part::open(place, String::new(), resources)
    }

    /// Compares parts with it. `false` if they are of another distribution, or if other parts fit better.
    pub(super) fn compare(&self, context: &Context<'_>, progress: &Progress) -> Result<bool, VerifyError> {
        let Context { parts, distributions, resources, findings, .. } = *context;
        if let (FatForm::Artifacts(artifacts), Some(component)) = (&self.form, &parts.component) {
            let fats = artifacts.of_component(component, resources)?;
            Comparison::new(&fats, None, context).run(progress);
            return Ok(true);
        }
        let mut fat = self.open(!distributions.is_empty(), resources)?.input;
        let joined = join(&mut fat, resources, &Progress::default());
        let path = self.path.display();
        joined.warnings.into_iter().for_each(|warning| findings.note(format!("{path}: {warning}")));
        let name = Metadata::read(&fat).ok().map(|metadata| normalise(&metadata.name));
        // A directory of wheels, or an installation, may contain several splits, and wheels that none was made of.
        let has_split = distributions.iter().any(Distribution::is_of_split);
        let is_of = |it: &Distribution, fat: &str| {
            if has_split { it.is_made_of(fat) } else { it.name().is_some_and(|(name, _)| name == fat) }
        };
        let is_other = |fat: &String| !distributions.is_empty() && !distributions.iter().any(|it| is_of(it, fat));
        let other = match &self.build {
            _ if name.as_ref().is_some_and(is_other) => Some("another distribution"),
            Some((label, best)) if label.fit(parts).is_some_and(|fit| fit < *best) => {
                Some("of another version or for another Python, unlike others that are verified")
            }
            _ => None,
        };
        if let Some(other) = other {
            let host = parts.location().display();
            findings.note(format!("{host}: not compared with {path}, which is {other}"));
            return Ok(false);
        }
        Comparison::new(&[fat], name.as_deref(), context).run(progress);
        Ok(true)
    }
}

impl BuildLabel {
    fn of_fat(fat: &Input) -> Option<Self> {
        let label = Self::read(fat, fat.dist_info()?)?;
        // The tags in a wheel's file name take precedence, as in its split.
        let of_file = fat.location.file_name().and_then(|name| WheelName::parse(name.to_str()?).ok());
        let of_file = of_file.map(|name| name.tags().into_iter().collect());
        Some(Self { tags: of_file.or(label.tags), ..label })
    }

    fn read(input: &Input, dist_info: &EntryPath) -> Option<Self> {
        let metadata = Metadata::read_at(input, dist_info).ok()?;
        let tags = WheelFile::read(input, &dist_info.child(b"WHEEL")).ok().map(|it| it.tags().into_iter().collect());
        Some(Self { name: normalise(&metadata.name), version: metadata.version, tags })
    }

    /// How well parts fit; `None` if they do not contain the distribution.
    fn fit(&self, parts: &Parts) -> Option<BuildFit> {
        let is_ours =
            |path: &EntryPath| path.is_dist_info() && named_by(path).is_some_and(|(name, _)| name == self.name);
        let of_part = |part: &Arc<Part>| {
            let entries = part.input.entries.iter().filter(|it| matches!(it.kind, EntryKind::Directory));
            let labels = entries.filter(|it| is_ours(&it.path)).filter_map(|it| Self::read(&part.input, &it.path));
            labels.map(|label| self.fit_of(&label)).max()
        };
        parts.all.iter().filter_map(of_part).max()
    }

    fn fit_of(&self, other: &Self) -> BuildFit {
        // Thin wheels may name their GPUs in a local version.
        let is_local = |rest: &str| rest.is_empty() || rest.starts_with('+') || self.version.contains('+');
        let has_version = other.version.strip_prefix(&self.version).is_some_and(is_local);
        let has_tags = self.tags.as_ref().zip(other.tags.as_ref()).is_none_or(|(own, other)| own == other);
        BuildFit { has_version, has_tags }
    }
}

/// The directory of packages of an environment, as of one that is verified.
fn site_of<'a>(path: &'a Path, sites: &'a [Site]) -> Result<&'a Path, VerifyError> {
    match sites {
        [] => Ok(path),
        // It is a directory of packages to which `.pth` files add others.
        [first, ..] if first.path == path => Ok(path),
        [site] => Ok(&site.path),
        [first, ..] => Err(VerifyError::SeveralSites { path: path.to_owned(), first: first.path.clone() }),
    }
}
