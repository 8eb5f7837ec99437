//! The fat inputs after `--against`, and what of all that is verified was made of each of them.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{anyhow, bail};

use super::against::Comparison;
use super::artifacts::FatArtifacts;
use super::binary::CheckedBinaries;
use super::context::Context;
use super::distributions::{Distribution, Role, named_by};
use super::input::VerifyInput;
use super::parts::{Part, Parts};
use super::report::{Findings, Tools};
use super::rules::Rule;
use crate::binary::FatBinary;
use crate::database::Databases;
use crate::image::{self, ImageReference};
use crate::join::join;
use crate::metrics::Progress;
use crate::opened::{Named, Site, recognise};
use crate::rope::Content;
use crate::source::{EntryKind, EntryPath, Input};
use crate::wheel::{Metadata, WheelFile, WheelName, normalise};

/// All that `--against` names.
pub(super) struct FatInputs(Vec<FatInput>);

/// One fat input.
struct FatInput {
    path: PathBuf,
    form: FatForm,
    /// The build that it is, if several builds of one distribution may be among all inputs.
    label: Option<BuildLabel>,
    /// The best fit among all that is verified.
    best: Option<BuildFit>,
    /// Whether anything was compared with it, or it is there as it was.
    is_used: Cell<bool>,
}

/// Whether a fat input was compared with parts.
enum Pairing {
    /// With the normalised name of its distribution, unless it is none.
    Compared(Option<String>),
    OtherBuild,
    OtherDistribution,
    /// With nothing: its distribution, which has no device code, is among what is verified as it was.
    AsItWas,
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
    /// The forms of what is at a path: each wheel of a directory is an input.
    fn all(path: &Path, is_of_artifacts: bool, findings: &Findings) -> anyhow::Result<Vec<(PathBuf, Self)>> {
        let form = recognise(path)?;
        let one = |form| Ok(vec![(path.to_owned(), form)]);
        let refused = |what| Err(not_fat(path, what));
        if is_of_artifacts {
            return one(Self::Artifacts(FatArtifacts::of(path, form)?));
        }
        match form {
            Named::Wheels(directory) => {
                directory.warnings.into_iter().for_each(|warning| findings.note(warning));
                Ok(directory.wheels.into_iter().map(|wheel| (wheel.clone(), Self::Whole(wheel))).collect())
            }
            Named::Environment(sites) => one(Self::Environment(sites)),
            Named::Image(reference) => one(Self::Image(reference)),
            Named::Split(split) if split.is_mount => refused("a mount of a split"),
            Named::Split(_) => refused("an output of `split`"),
            Named::Archive => refused("a .kpack archive"),
            Named::Bundle => refused("an offload bundle"),
            Named::CodeObject => refused("a code object"),
            Named::Tree
            | Named::Artifacts(_)
            | Named::Wheel
            | Named::Remote
            | Named::Tar
            | Named::Zip
            | Named::Binary => one(Self::Whole(path.to_owned())),
        }
    }
}

impl FatInputs {
    pub(super) fn find(paths: &[PathBuf], inputs: &[VerifyInput], tools: Tools<'_>) -> anyhow::Result<Self> {
        let parts: Vec<_> = inputs.iter().flat_map(VerifyInput::parts).collect();
        let is_of_artifacts = parts.iter().any(|parts| parts.component.is_some());
        let mut all = Vec::new();
        for path in paths {
            all.extend(FatForm::all(path, is_of_artifacts, tools.findings)?);
        }
        let has_builds = parts.len() > 1 || all.len() > 1;
        let open = |(path, form): (PathBuf, FatForm)| {
            let label = match &form {
                FatForm::Whole(place) if has_builds => {
                    let fat = Input::open(place, tools.resources)?;
                    check_whole(&path, Metadata::read(&fat).ok().as_ref())?;
                    BuildLabel::of_fat(&fat)
                }
                _ => None,
            };
            let best = label.as_ref().and_then(|label| parts.iter().filter_map(|parts| label.fit(parts)).max());
            Ok(FatInput { path, form, label, best, is_used: Cell::new(false) })
        };
        all.into_iter().map(open).collect::<Result<_, _>>().map(Self)
    }

    /// Compares parts with those that they were made of, and says which distributions of a split were made of none.
    pub(super) fn compare(&self, context: &Context<'_>) -> anyhow::Result<()> {
        let Context { parts, distributions, findings, .. } = *context;
        let (mut compared, mut has_other_build) = (Vec::new(), false);
        for fat in &self.0 {
            match fat.compare(&self.0, context)? {
                Pairing::Compared(name) => {
                    fat.is_used.set(true);
                    compared.push(name);
                }
                Pairing::OtherBuild => has_other_build = true,
                Pairing::OtherDistribution => {}
                Pairing::AsItWas => fat.is_used.set(true),
            }
        }
        let reason = if has_other_build {
            "not compared: --against names it in another version or for another Python only"
        } else if parts.is_rest {
            "not compared: of what a wheel installs, --against compares the directory of packages only"
        } else {
            "not compared: --against names no fat input of this distribution"
        };
        let has_host = distributions.iter().any(|it| it.role == Role::Host);
        let is_whole = |it: &&Distribution| it.is_of_split() && !(has_host && it.is_device());
        let mut wholes = distributions.iter().filter(is_whole).peekable();
        if wholes.peek().is_none() && compared.is_empty() {
            findings.note(format!("{}: {reason}", parts.location().display()));
        }
        let is_made_of = |it: &Distribution, fat: &Option<String>| fat.as_ref().is_none_or(|fat| it.is_made_of(fat));
        for left in wholes.filter(|it| !compared.iter().any(|fat| is_made_of(it, fat))) {
            // In an installation there may be splits that nobody asks about.
            if compared.is_empty() {
                findings.add(Rule::AgainstMissing, left.label(), reason);
            } else {
                findings.note(format!("{}: {reason}", left.label()));
            }
        }
        Ok(())
    }

    /// Checks that each component of a directory of artifacts is among the input.
    pub(super) fn check_components(&self, existing: &[Parts], chosen: &[String], findings: &Findings) {
        let existing = existing.iter().filter_map(|parts| parts.component.as_deref()).collect();
        for fat in &self.0 {
            if let FatForm::Artifacts(artifacts) = &fat.form {
                artifacts.check_components(&existing, chosen, findings);
            }
        }
    }

    /// Reports those of which nothing was made that is verified.
    pub(super) fn say_unused(&self, findings: &Findings) {
        for fat in self.0.iter().filter(|fat| !fat.is_used.get()) {
            let reason = "nothing that is verified was made of it";
            findings.add(Rule::AgainstOther, fat.path.display().to_string(), reason);
        }
    }
}

impl FatInput {
    /// Opens what parts are compared with. Of an environment that is what corresponds to them; a split of it has all.
    fn open(&self, context: &Context<'_>) -> anyhow::Result<Part> {
        let Context { parts, distributions, resources, .. } = *context;
        let place = match &self.form {
            FatForm::Image(reference) => {
                let root = image::open_root(reference, resources)?;
                return Part::of_input(root, String::new(), resources);
            }
            FatForm::Whole(place) => place,
            FatForm::Environment(sites) if parts.is_rest => {
                return Part::open_rest(&self.path, sites, context.tools());
            }
            FatForm::Environment(sites) if !distributions.is_empty() => site_of(&self.path, sites)?,
            FatForm::Environment(_) | FatForm::Artifacts(_) => &self.path,
        };
        Part::open(place, String::new(), resources)
    }

    /// Compares parts with it, unless they are of another distribution, or other parts or fat inputs fit better.
    fn compare(&self, all: &[Self], context: &Context<'_>) -> anyhow::Result<Pairing> {
        let Context { parts, distributions, resources, findings, .. } = *context;
        if let (FatForm::Artifacts(artifacts), Some(component)) = (&self.form, &parts.component) {
            let fats = artifacts.of_component(component, resources)?;
            Comparison::new(&fats, None, context).run();
            return Ok(Pairing::Compared(None));
        }
        // A directory of wheels, or an installation, may contain several splits, and wheels that none was made of.
        let has_split = distributions.iter().any(Distribution::is_of_split);
        let is_of = |it: &Distribution, fat: &str| {
            if has_split { it.is_made_of(fat) } else { it.name().is_some_and(|(name, _)| name == fat) }
        };
        let is_other = |fat: &String| !distributions.is_empty() && !distributions.iter().any(|it| is_of(it, fat));
        if let Some(BuildLabel { name, version, .. }) = self.label.as_ref().filter(|label| is_other(&label.name)) {
            // Most fat inputs are of other distributions, and are not opened for each of the parts.
            if !is_there_without_code(context, (name, version)) {
                return Ok(Pairing::OtherDistribution);
            }
            let Part { input, databases, .. } = self.open(context)?;
            return Ok(unsplit(&input, &databases));
        }
        if self.is_other_build(parts, all) {
            return Ok(Pairing::OtherBuild);
        }
        let _named = context.progress.at(|| self.path.display().to_string());
        let Part { input: mut fat, databases, .. } = self.open(context)?;
        let metadata = Metadata::read(&fat).ok();
        check_whole(&self.path, metadata.as_ref())?;
        fat.check_access()?;
        let joined = join(&mut fat, resources, &Progress::default());
        let path = self.path.display();
        joined.warnings.into_iter().for_each(|warning| findings.note(format!("{path}: {warning}")));
        let label = metadata.map(|metadata| (normalise(&metadata.name), metadata.version));
        if let Some((name, version)) = label.as_ref().filter(|(name, _)| is_other(name) || parts.is_rest) {
            let is_there = is_there_without_code(context, (name, version));
            return Ok(if is_there { unsplit(&fat, &databases) } else { Pairing::OtherDistribution });
        }
        let name = label.map(|(name, _)| name);
        if let Some(record) = context.records_below().first().filter(|_| name.is_some()) {
            let path = parts.location().display();
            bail!(
                "{path}: packages are installed below it, such as that of {record}: name their directory to compare it, and unpack an \
                 archive or an image first"
            );
        }
        Comparison::new(&[fat], name.as_deref(), context).run();
        Ok(Pairing::Compared(name))
    }

    fn is_other_build(&self, parts: &Parts, all: &[Self]) -> bool {
        let Some((label, fit)) = self.label.as_ref().and_then(|label| Some((label, label.fit(parts)?))) else {
            return false;
        };
        let others = all.iter().filter_map(|fat| fat.label.as_ref()).filter(|other| other.name == label.name);
        let best_here = others.filter_map(|other| other.fit(parts)).max();
        best_here.max(self.best).is_some_and(|best| fit < best)
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

/// Whether a distribution of this name and version, of no split, is there without device code.
fn is_there_without_code(context: &Context<'_>, name: (&str, &str)) -> bool {
    let is_it = |it: &&Distribution| it.name().is_some_and(|(own, version)| (own.as_str(), version) == name);
    let is_plain = |it: &Distribution| it.record.is_some() && !it.is_of_split() && !has_code(it, context.binaries);
    context.distributions.iter().filter(is_it).any(is_plain)
}

/// The pairing of a fat input whose distribution is there without device code: it is there as it was if the input has none, either.
fn unsplit(fat: &Input, databases: &Databases) -> Pairing {
    // A binary that cannot be judged may have some.
    let has_none = |(path, content): (&EntryPath, &Arc<dyn Content>)| {
        databases.classify(path).is_none() && FatBinary::scan(content).is_ok_and(|binary| binary.is_none())
    };
    if fat.files().all(has_none) { Pairing::AsItWas } else { Pairing::OtherDistribution }
}

/// Whether a distribution has fat binaries or kernel databases.
fn has_code(it: &Distribution<'_>, binaries: &CheckedBinaries) -> bool {
    let mut files = it.payload().filter_map(|path| it.part.recorded(&path));
    files.any(|path| binaries.has_fat(&it.part.label(&path)) || it.part.databases.classify(&path).is_some())
}

/// Fails for a host wheel, whose device code is elsewhere.
fn check_whole(path: &Path, metadata: Option<&Metadata>) -> anyhow::Result<()> {
    let is_host = metadata.is_some_and(|metadata| !metadata.devices().is_empty());
    if is_host { Err(not_fat(path, "the host wheel of a split")) } else { Ok(()) }
}

/// The error if `--against` names something else.
fn not_fat(path: &Path, what: &str) -> anyhow::Error {
    anyhow!("{}: {what} is no fat input: name the wheel, or the tree, that was split", path.display())
}

/// The directory of packages of an environment, as of one that is verified.
fn site_of<'a>(path: &'a Path, sites: &'a [Site]) -> anyhow::Result<&'a Path> {
    match sites {
        [] => Ok(path),
        // It is a directory of packages to which `.pth` files add others.
        [first, ..] if first.path == path => Ok(path),
        [site] => Ok(&site.path),
        [first, ..] => {
            let (path, first) = (path.display(), first.path.display());
            bail!("{path}: it has several directories of packages: name one, such as {first}")
        }
    }
}
