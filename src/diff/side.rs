//! One of two compared inputs: a wheel, a tree, a binary, a split, or artifacts. It consists of parts that are laid
//! over each other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::error::DiffError;
use crate::artifact::{ArtifactName, FoundArtifacts, GENERIC, MANIFEST, Manifest, find};
use crate::disk;
use crate::gpu::{BundleKey, Level};
use crate::kpack::BundleJobs;
use crate::memory::Parser;
use crate::metrics::Progress;
use crate::report::details::Details;
use crate::report::{InspectReport, SizedParts, Sizes};
use crate::resources::Resources;
use crate::source::{Input, InputKind, SourceError};
use crate::split::{Packaging, Plan, PlanOptions, RESERVED, STATEMENT, Statement};
use crate::view::{HOST, REPORTS};
use crate::wheel::Metadata;
use crate::wheelparts::{WheelOptions, WheelSet};

/// The form of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum InputForm {
    /// A `.whl` file.
    Wheel,
    /// A directory that contains only wheels: a split in the form of wheels.
    Wheels,
    /// Any other directory.
    Tree,
    /// An ELF or PE file.
    Binary,
    /// A directory with a host part and device parts, as written by `split` or shown by a mount.
    Split,
    /// An artifact, or a directory of artifacts.
    Artifacts,
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
    pub(super) resources: Arc<Resources>,
    jobs: Arc<BundleJobs>,
    pub(super) warnings: Vec<String>,
}

/// One of the directories or wheels of an input.
#[derive(Debug)]
pub(super) struct SidePart {
    /// The prefix of its paths: the component of an artifact, or the artifact's whole name if several shards have the
    /// component.
    pub(super) place: Option<String>,
    pub(super) input: Input,
    pub(super) plan: Plan,
    wheels: Option<WheelSet>,
    /// Bytes of the `.whl` file, if it is one.
    file_size: Option<u64>,
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
        location: &Path,
        settings: &Settings,
        resources: &Arc<Resources>,
        progress: &Progress,
    ) -> Result<Self, DiffError> {
        let io = |source| SourceError::Io { path: location.to_owned(), source };
        let absolute = location.canonicalize().map_err(io)?;
        let name = absolute.file_name().unwrap_or(absolute.as_os_str()).to_string_lossy().into_owned();
        let mut side = Self {
            name,
            form: InputForm::Tree,
            parts: Vec::new(),
            resources: Arc::clone(resources),
            jobs: BundleJobs::new(resources),
            warnings: Vec::new(),
        };
        let artifacts = match find(&absolute).map_err(io)? {
            Some(FoundArtifacts::One) => BTreeMap::from([(side.name.clone(), absolute.clone())]),
            Some(FoundArtifacts::Several { artifacts, others, archives }) if !artifacts.is_empty() => {
                side.note_others(&absolute, &others, &archives);
                artifacts
            }
            // Any directory may contain tar archives.
            None | Some(FoundArtifacts::Several { .. }) => BTreeMap::new(),
        };
        if !artifacts.is_empty() {
            side.form = InputForm::Artifacts;
            for (name, location) in &artifacts {
                side.add_artifact(name, location, place_of(name, &artifacts), settings, progress)?;
            }
            return Ok(side);
        }
        let parts = match parts_of_split(&absolute).map_err(io)? {
            Some((form, parts)) => {
                side.form = form;
                parts
            }
            None => vec![absolute],
        };
        for part in parts {
            side.add(&part, settings, progress)?;
        }
        Ok(side)
    }

    /// Adds warnings about files in a directory of artifacts that are not artifacts.
    fn note_others(&mut self, location: &Path, others: &[String], archives: &[String]) {
        let warning =
            |name: &String, reason: &str| format!("{}: not compared: {reason}", location.join(name).display());
        let no_manifest = format!("{MANIFEST} not found in it");
        self.warnings.extend(others.iter().map(|name| warning(name, &no_manifest)));
        let no_name = "a tar archive whose name is no artifact's, <component>_<family>";
        self.warnings.extend(archives.iter().map(|name| warning(name, no_name)));
    }

    fn add(&mut self, location: &Path, settings: &Settings, progress: &Progress) -> Result<(), DiffError> {
        let input = Input::survey(location, &self.resources)?;
        let refused = |source| DiffError::Split { location: location.to_owned(), source };
        let plan = Plan::make(&input, &settings.options, &self.jobs, progress).map_err(refused)?;
        let is_wheel = matches!(input.kind, InputKind::Wheel(_));
        let file_size = is_wheel.then(|| location.metadata().ok().map(|metadata| metadata.len())).flatten();
        match input.kind {
            InputKind::Wheel(_) if self.form == InputForm::Tree => self.form = InputForm::Wheel,
            InputKind::Binary => self.form = InputForm::Binary,
            _ => {}
        }
        let wheels = match WheelSet::new(&input, &plan, &settings.wheels, &self.resources) {
            Ok(wheels) => wheels.filter(|_| self.form == InputForm::Wheel),
            Err(error) => {
                self.warnings.push(format!("{}: the sizes of its parts are not known: {error}", location.display()));
                None
            }
        };
        self.warnings.extend(plan.warnings.iter().cloned());
        self.parts.push(SidePart { place: None, input, plan, wheels, file_size });
        Ok(())
    }

    fn add_artifact(
        &mut self,
        name: &str,
        location: &Path,
        place: String,
        settings: &Settings,
        progress: &Progress,
    ) -> Result<(), DiffError> {
        let component = ArtifactName::parse(name).map_or_else(|| name.to_owned(), |name| name.component);
        let mut input = Input::survey(location, &self.resources)?;
        let manifest = Manifest::of(&input)?;
        let prefixes = manifest.present(&input);
        Manifest { prefixes: prefixes.clone() }.keep_installed(&mut input);
        let options = PlanOptions {
            overlay_roots: Some(prefixes),
            packaging: Packaging::Processors,
            group: Some(component),
            ..settings.artifacts.clone()
        };
        let refused = |source| DiffError::Split { location: location.to_owned(), source };
        let plan = Plan::make(&input, &options, &self.jobs, progress).map_err(refused)?;
        self.warnings.extend(plan.warnings.iter().map(|warning| format!("{name}/{warning}")));
        self.parts.push(SidePart { place: Some(place), input, plan, wheels: None, file_size: None });
        Ok(())
    }

    /// The resources for work on it.
    pub(crate) fn resources(&self) -> &Arc<Resources> {
        &self.resources
    }

    /// Does the work of a split, so that the sizes of its wheels are known.
    pub(crate) fn make_sizes(&self, progress: &Progress) -> Result<(), DiffError> {
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
            (InputForm::Wheels, parts) => of_wheels(parts),
            _ => Downloads::default(),
        }
    }
}

impl SidePart {
    fn downloads(&self) -> Downloads {
        let Self { input, plan, wheels, file_size, .. } = self;
        let known = InspectReport::known(input, plan, wheels.as_ref(), None).sizes;
        let details = Details::of(input, plan, &SizedParts::of(input, plan, wheels.as_ref()));
        Downloads {
            whole: *file_size,
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

/// The downloads of a host wheel and device wheels.
fn of_wheels(parts: &[SidePart]) -> Downloads {
    let keys: Vec<_> = parts.iter().map(SidePart::keys).collect();
    let size = |wanted: &dyn Fn(&BTreeSet<BundleKey>) -> bool| {
        let parts = parts.iter().zip(&keys).filter(|(_, keys)| wanted(keys));
        parts.map(|(part, _)| part.file_size.unwrap_or(0)).sum::<u64>()
    };
    let user = |gpu: &BundleKey| {
        let chain = gpu.packaging_chain();
        (gpu.to_string(), size(&|keys| keys.is_empty() || keys.iter().any(|key| chain.contains(key))))
    };
    let gpus = keys.iter().flatten().filter(|key| key.level() == Level::Target);
    Downloads { whole: Some(size(&|_| true)), split: gpus.map(user).collect(), thin: BTreeMap::new() }
}

/// The parts of a split: a host part and device parts, or wheels. `None` if the directory is not a split.
fn parts_of_split(location: &Path) -> std::io::Result<Option<(InputForm, Vec<PathBuf>)>> {
    if !location.is_dir() {
        return Ok(None);
    }
    let (mut wheels, mut directories) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(location)? {
        let path = entry?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.is_dir() && !is_hidden {
            directories.push(path);
        } else if path.extension().is_some_and(|extension| extension == "whl") {
            wheels.push(path);
        }
    }
    directories.sort();
    wheels.sort();
    let host = location.join(HOST);
    if !host.is_dir() {
        return Ok((directories.is_empty() && !wheels.is_empty()).then_some((InputForm::Wheels, wheels)));
    }
    // Other files may be there if the split has a statement.
    let named = disk::read(&location.join(REPORTS).join(STATEMENT), Parser::Statement).ok();
    let named =
        named.and_then(|statement| Statement::parse(&statement).ok()?.parts().ok()).filter(|parts| !parts.is_empty());
    let is_part = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().as_encoded_bytes();
        let is_reserved = RESERVED.iter().any(|reserved| reserved.as_bytes() == name);
        !is_reserved && named.as_ref().is_none_or(|parts| parts.iter().any(|part| part.as_bytes() == name))
    };
    directories.retain(is_part);
    directories.insert(0, host);
    Ok(Some((InputForm::Split, directories)))
}
