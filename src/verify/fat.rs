//! The fat input after `--against`, and what of all that is verified was made of it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::against::Comparison;
use super::artifacts;
use super::context::Context;
use super::directory::wheels_in;
use super::distributions::{Distribution, named_by};
use super::error::VerifyError;
use super::input::VerifyInput;
use super::parts::{Part, Parts};
use super::report::Findings;
use super::sites::sites_of;
use crate::join::join;
use crate::metrics::Progress;
use crate::resources::Resources;
use crate::source::{EntryKind, EntryPath, Input};
use crate::wheel::{Metadata, WheelFile, WheelName, normalise};

/// What `--against` names.
pub(super) struct FatInput<'a> {
    path: &'a Path,
    /// The build that it is, if several parts may be of other builds of one distribution, and the best fit among these.
    build: Option<(BuildLabel, BuildFit)>,
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

impl<'a> FatInput<'a> {
    pub(super) fn find(
        path: &'a Path,
        inputs: &[VerifyInput],
        resources: &Arc<Resources>,
    ) -> Result<Self, VerifyError> {
        let is_of_artifacts = inputs.iter().any(|input| input.component().is_some());
        if !is_of_artifacts && !wheels_in(path)?.is_empty() {
            return Err(VerifyError::DirectoryOfWheels(path.to_owned()));
        }
        let parts: Vec<_> = inputs.iter().flat_map(VerifyInput::parts).collect();
        let is_one = parts.len() < 2 || is_of_artifacts;
        let label = if is_one { None } else { BuildLabel::of_fat(&Input::open(path, resources)?) };
        let with_best = |label: BuildLabel| {
            let best = parts.iter().filter_map(|parts| label.fit(parts)).max()?;
            Some((label, best))
        };
        Ok(Self { path, build: label.and_then(with_best) })
    }

    /// Compares parts with it. `false` if they are of another distribution, or if other parts fit better.
    pub(super) fn compare(&self, context: &Context<'_>, progress: &Progress) -> Result<bool, VerifyError> {
        let Context { parts, distributions, resources, findings, .. } = *context;
        if let Some(component) = &parts.component {
            let fats = artifacts::fats(self.path, component, resources)?;
            Comparison::new(&fats, None, context).run(progress);
            return Ok(true);
        }
        // The split of a whole environment is compared with all of it.
        let path = if distributions.is_empty() { self.path.to_owned() } else { site_of(self.path)? };
        let mut fat = Part::open(&path, String::new(), resources, &Findings::default())?.input;
        let joined = join(&mut fat, resources, &Progress::default());
        joined.warnings.into_iter().for_each(|warning| findings.note(format!("{}: {warning}", path.display())));
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
            let host = parts.all.first().map_or(Path::new(""), |part| &part.input.location);
            findings.note(format!("{}: not compared with {}, which is {other}", host.display(), self.path.display()));
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

/// The directory of packages of an environment, as of one that is verified; otherwise the path itself.
fn site_of(path: &Path) -> Result<PathBuf, VerifyError> {
    match sites_of(path)?.as_slice() {
        [] => Ok(path.to_owned()),
        // It is a directory of packages to which `.pth` files add others.
        [first, ..] if first.path == path => Ok(path.to_owned()),
        [site] => Ok(site.path.clone()),
        [first, ..] => Err(VerifyError::SeveralSites { path: path.to_owned(), first: first.path.clone() }),
    }
}
