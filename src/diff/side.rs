//! One of two compared inputs, in whatever form. It consists of parts that are laid over each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use serde::Serialize;

use super::paths::compared;
use crate::artifact::{ArtifactName, FoundArtifacts, GENERIC, MANIFEST, Manifest};
use crate::gpu::{BundleKey, Level};
use crate::kpack::BundleJobs;
use crate::metrics::Progress;
use crate::opened::{Named, NamedPath, OpenedResult, open_all};
use crate::report::details::Details;
use crate::report::{InspectReport, SizedParts, Sizes};
use crate::resources::Resources;
use crate::source::{DeviceWheel, EntryPath, Input, InputKind};
use crate::split::{Packaging, Plan, PlanOptions};
use crate::wheel::Metadata;
use crate::wheelparts::{PlannedInput, WheelOptions, WheelSet};

/// The form of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum InputForm {
    /// A `.whl` file.
    Wheel,
    /// A directory of wheels, or an index: a split in the form of wheels.
    Wheels,
    /// Any other directory, or what is unpacked as one: an environment, an image, a tar archive.
    Tree,
    /// An ELF or PE file.
    Binary,
    /// A directory with a host part and device parts, as written by `split` or shown by a mount.
    Split,
    /// An artifact, or a directory of artifacts.
    Artifacts,
}

impl InputForm {
    fn of(named: &Named) -> Self {
        match named {
            Named::Artifacts(found) if found.has_any() => Self::Artifacts,
            Named::Split(split) if !split.has_wheels_only() => Self::Split,
            Named::Split(_) | Named::Wheels(_) => Self::Wheels,
            Named::Wheel => Self::Wheel,
            Named::Binary | Named::CodeObject => Self::Binary,
            _ => Self::Tree,
        }
    }
}

/// Options of planning.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// For all inputs but artifacts.
    pub options: PlanOptions,
    /// For artifacts.
    pub artifacts: PlanOptions,
    /// For the wheels whose sizes are compared.
    pub wheels: WheelOptions,
}

/// An input that has been listed and planned.
#[derive(Debug)]
pub(crate) struct Side {
    pub(super) name: String,
    pub(super) form: InputForm,
    pub(super) parts: Vec<SidePart>,
    /// Whether its parts are thin wheels: each is a whole, and several have the same code.
    pub(super) is_thin: bool,
    pub(crate) resources: Arc<Resources>,
    jobs: Arc<BundleJobs>,
    pub(super) warnings: Vec<String>,
}

/// One of the directories or wheels of an input.
#[derive(Debug)]
pub(super) struct SidePart {
    /// The prefix of its paths: the component of an artifact, or the artifact's whole name if several shards have the
    /// component.
    pub(super) place: EntryPath,
    /// Directories of an artifact that are laid over each other when it is installed.
    pub(super) prefixes: Vec<EntryPath>,
    /// The path of each entry in the comparison.
    pub(super) paths: Vec<EntryPath>,
    pub(super) input: Input,
    pub(super) plan: Plan,
    wheels: Option<WheelSet>,
}

/// Sizes of downloads in bytes.
#[derive(Debug, Default)]
pub(super) struct Downloads {
    /// Everything.
    pub(super) whole: Option<u64>,
    /// Host and device wheels for a GPU, if their sizes are known.
    pub(super) split: BTreeMap<String, u64>,
    /// Estimates of thin wheels.
    pub(super) thin: BTreeMap<String, u64>,
}

impl Side {
    /// Lists and plans an input.
    pub(crate) fn open(
        input: &NamedPath,
        settings: &Settings,
        resources: &Arc<Resources>,
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let location = &*input.path;
        input.named.check_local(location)?;
        let mut side = Self::new(location, &input.named, resources);
        if let Some(found) = input.artifacts() {
            side.add_artifacts(location, found.clone(), settings, progress)?;
        } else {
            let OpenedResult { inputs, notes, warnings } = open_all(input, resources)?;
            side.warnings.extend(notes.into_iter().chain(warnings));
            inputs.into_iter().try_for_each(|input| side.add(input, settings, progress))?;
        }
        Ok(side)
    }

    /// Whether wheels are made of it.
    pub(crate) fn has_wheels(&self) -> bool {
        self.parts.iter().any(|part| part.wheels.is_some())
    }

    fn new(location: &Path, named: &Named, resources: &Arc<Resources>) -> Self {
        let absolute = location.canonicalize().unwrap_or_else(|_| location.to_owned());
        Self {
            name: absolute.file_name().unwrap_or(absolute.as_os_str()).to_string_lossy().into_owned(),
            form: InputForm::of(named),
            parts: Vec::new(),
            is_thin: matches!(named, Named::Split(split) if split.has_wheels_only() && !split.thin_wheels.is_empty()),
            resources: Arc::clone(resources),
            jobs: BundleJobs::new(resources),
            warnings: Vec::new(),
        }
    }

    /// Adds an artifact, or all of a directory.
    fn add_artifacts(
        &mut self,
        location: &Path,
        found: FoundArtifacts,
        settings: &Settings,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let artifacts = match found {
            FoundArtifacts::One => BTreeMap::from([(self.name.clone(), location.to_owned())]),
            FoundArtifacts::Several { artifacts, others, archives } => {
                self.note_others(location, &others, &archives);
                artifacts
            }
        };
        artifacts.iter().try_for_each(|(name, location)| {
            self.add_artifact(name, location, &place_of(name, &artifacts), settings, progress)
        })
    }

    /// Adds warnings about files in a directory of artifacts that are not artifacts.
    fn note_others(&mut self, location: &Path, others: &[String], archives: &[String]) {
        let warning =
            |name: &String, reason: &str| format!("{}: not compared: {reason}", location.join(name).display());
        let no_manifest = format!("{MANIFEST} not found in it");
        self.warnings.extend(others.iter().map(|name| warning(name, &no_manifest)));
        let no_name = "a tar archive that is no artifact";
        self.warnings.extend(archives.iter().map(|name| warning(name, no_name)));
    }

    fn add(&mut self, input: Input, settings: &Settings, progress: &Progress) -> anyhow::Result<()> {
        let plan = Plan::make(&input, &settings.options, &self.jobs, progress);
        let plan = plan.with_context(|| input.location.display().to_string())?;
        // A zip file of another name may be a wheel.
        if matches!(input.kind, InputKind::Wheel(_)) && self.form == InputForm::Tree {
            self.form = InputForm::Wheel;
        }
        let mut part = SidePart::new(EntryPath::root(), input, plan);
        if self.form == InputForm::Wheel {
            match WheelSet::new(&part.input, &part.plan, &settings.wheels, &self.resources) {
                Ok(wheels) => part.wheels = wheels,
                Err(error) => {
                    let place = part.input.location.display();
                    self.warnings.push(format!("{place}: the sizes of its parts are not known: {error}"));
                }
            }
        }
        self.warnings.extend(part.plan.warnings.iter().cloned());
        self.parts.push(part);
        Ok(())
    }

    fn add_artifact(
        &mut self,
        name: &str,
        location: &Path,
        place: &str,
        settings: &Settings,
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let component = ArtifactName::parse(name).map_or_else(|| name.to_owned(), |name| name.component);
        let mut input = Input::open(location, &self.resources)?;
        let manifest = Manifest::of(&input)?;
        let prefixes = manifest.present(&input);
        Manifest { prefixes: prefixes.clone() }.keep_installed(&mut input);
        let options = PlanOptions {
            overlay_roots: Some(prefixes.clone()),
            packaging: Packaging::Processors,
            group: Some(component),
            ..settings.artifacts.clone()
        };
        let plan = Plan::make(&input, &options, &self.jobs, progress);
        let plan = plan.with_context(|| location.display().to_string())?;
        self.warnings.extend(plan.warnings.iter().map(|warning| format!("{name}/{warning}")));
        let place = EntryPath::new(place.as_bytes()).unwrap_or_else(|_| EntryPath::root());
        self.parts.push(SidePart { prefixes, ..SidePart::new(place, input, plan) });
        Ok(())
    }

    /// Compares an artifact as it is installed if the other input is none: without the component and without prefixes.
    pub(crate) fn compare_with(&mut self, other: &Self) {
        if self.form != InputForm::Artifacts || other.form == InputForm::Artifacts {
            return;
        }
        for part in &mut self.parts {
            part.place = EntryPath::root();
            let prefixes = &part.prefixes;
            let installed = |path: EntryPath| prefixes.iter().find_map(|prefix| path.below(prefix)).unwrap_or(path);
            part.paths = compared(&part.input, &part.place).into_iter().map(installed).collect();
        }
    }

    /// Does the work of a split, so that the sizes of its wheels are known.
    pub(crate) fn make_sizes(&self, progress: &Progress) -> anyhow::Result<()> {
        for part in &self.parts {
            Sizes::make(&part.plan, part.wheels.as_ref(), progress)?;
        }
        Ok(())
    }

    /// The metadata of its wheel, or of the wheel that it becomes when it is installed.
    pub(super) fn metadata(&self) -> Option<Metadata> {
        self.parts.iter().find_map(|part| Metadata::read(&part.input).ok())
    }

    pub(super) fn downloads(&self) -> Downloads {
        match (self.form, self.parts.as_slice()) {
            (InputForm::Wheel, [part]) => part.downloads(),
            (InputForm::Wheels, parts) if !self.is_thin => of_wheels(parts),
            _ => Downloads::default(),
        }
    }
}

impl SidePart {
    fn new(place: EntryPath, input: Input, plan: Plan) -> Self {
        Self { paths: compared(&input, &place), place, prefixes: Vec::new(), input, plan, wheels: None }
    }

    fn downloads(&self) -> Downloads {
        let Self { input, plan, wheels, .. } = self;
        let planned = PlannedInput { input, plan, wheels: wheels.as_ref() };
        let known = InspectReport::of(planned, None, true).sizes;
        let details = Details::of(input, plan, &SizedParts::of(planned), true);
        Downloads {
            whole: file_size(&input.location),
            split: known.users.into_iter().filter_map(|(gpu, user)| Some((gpu, user.download_size?))).collect(),
            thin: details.thin.into_iter().filter_map(|(gpu, thin)| Some((gpu, thin.download_size?))).collect(),
        }
    }

    /// The keys for which it has databases or archives. Archives are named `<group>_<target>.kpack`.
    fn keys(&self) -> BTreeSet<BundleKey> {
        let named = self.input.entries.iter().filter_map(|entry| {
            let name = entry.path.name().strip_suffix(b".kpack")?;
            let target = std::str::from_utf8(name).ok()?.rsplit_once("_gfx")?.1;
            format!("gfx{target}").parse().ok().map(|target| BundleKey::of(&target))
        });
        self.plan.keys.iter().cloned().chain(named).collect()
    }

    /// The wheels that it is: the keys of each, and the bytes of its file.
    fn downloaded(&self) -> Vec<(BTreeSet<BundleKey>, u64)> {
        let size = |path: &Path| file_size(path).unwrap_or(0);
        let own = (self.keys(), size(&self.input.location));
        let Some(host) = self.input.host_wheel() else { return vec![own] };
        let of_device = |device: &DeviceWheel| (device.part.parse().into_iter().collect(), size(&device.location));
        std::iter::once((BTreeSet::new(), own.1)).chain(host.devices.iter().map(of_device)).collect()
    }
}

/// The prefix of an artifact's paths. The parts of a split artifact are laid over each other, so they have the same
/// prefix. Artifacts of different shards have different files at the same paths.
fn place_of(name: &str, all: &BTreeMap<String, PathBuf>) -> String {
    let Some(parsed) = ArtifactName::parse(name) else { return name.to_owned() };
    let is_split = all.contains_key(&ArtifactName::new(&parsed.component, GENERIC).to_string());
    let is_other = |other: &&String| {
        *other != name && ArtifactName::parse(other).is_some_and(|other| other.component == parsed.component)
    };
    if !is_split && all.keys().any(|other| is_other(&other)) { name.to_owned() } else { parsed.component }
}

/// The downloads of host wheels and device wheels.
fn of_wheels(parts: &[SidePart]) -> Downloads {
    let wheels: Vec<_> = parts.iter().flat_map(SidePart::downloaded).collect();
    let size = |wanted: &dyn Fn(&BTreeSet<BundleKey>) -> bool| {
        wheels.iter().filter(|(keys, _)| wanted(keys)).map(|(_, size)| *size).sum::<u64>()
    };
    let user = |gpu: &BundleKey| {
        let chain = gpu.packaging_chain();
        (gpu.to_string(), size(&|keys| keys.is_empty() || keys.iter().any(|key| chain.contains(key))))
    };
    let gpus = wheels.iter().flat_map(|(keys, _)| keys).filter(|key| key.level() == Level::Target);
    Downloads { whole: Some(size(&|_| true)), split: gpus.map(user).collect(), thin: BTreeMap::new() }
}

fn file_size(path: &Path) -> Option<u64> {
    path.metadata().ok().filter(std::fs::Metadata::is_file).map(|metadata| metadata.len())
}
