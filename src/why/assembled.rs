//! Wheels before they are installed, and the parts of a split: what an installation of them has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cause::Cause;
use super::error;
use super::found::SeenFiles;
use super::installed::are_of_one;
use super::libraries::may_be_library;
use super::library::{Library, library};
use super::lookup::{Lookup, Presence};
use super::origin::wheel_in;
use super::question::Question;
use super::wanted::{WantedPackages, exact};
use crate::coverage::{CauseKind, CodePlace, CoveredDatabase, DatabaseQuestion, InputDatabases, LibraryCode};
use crate::database::Databases;
use crate::disk::parent;
use crate::fatbin::begins_code;
use crate::gpu::TargetId;
use crate::image::{ImageReference, open_root};
use crate::join::{join, lay_over, open_wheels};
use crate::loader::{OwnRuntime, is_archive};
use crate::metrics::Progress;
use crate::opened::{InnerSplits, SplitDirectory, check_elsewhere, statement_in, statements_in};
use crate::packages::InstalledComponent;
use crate::remote::is_url;
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{EntryKind, EntryPath, Input};
use crate::text::{quoted, some_of};
use crate::wheel::{Metadata, WheelLabel, accepts, normalise};

/// The files with code of what is put together, and how much was looked at.
#[derive(Default)]
pub(super) struct AssembledFiles {
    pub(super) files: Vec<LocatedCode>,
    pub(super) assembly: Arc<Assembly>,
    /// The kernel databases, for the GPUs of the question.
    pub(super) databases: Vec<(PathBuf, CoveredDatabase)>,
    pub(super) seen: SeenFiles,
}

/// A file, and what is known of the code there: the wheel or directory, then its path in an installation.
type LocatedCode = (PathBuf, anyhow::Result<LibraryCode>);

/// What is put together, with the HIP runtime that it has.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    form: AssemblyForm,
    pub(super) runtime: Option<OwnRuntime>,
}

#[derive(Debug, Default)]
enum AssemblyForm {
    /// Wheels that are installed together, and those that were given and cannot be read.
    Wheels { wheels: Vec<GivenWheel>, unread: Vec<PathBuf> },
    /// The host part of a split with device parts: their names.
    Parts(Vec<String>),
    /// Artifacts that are installed together.
    Artifacts,
    /// Anything else, such as a tar archive.
    #[default]
    Other,
}

/// A wheel, by its path.
#[derive(Clone, Debug)]
pub(super) struct GivenWheel {
    pub(super) path: PathBuf,
    pub(super) metadata: Metadata,
    /// The ID of the split that it is a part of, if it states one.
    split_id: Option<String>,
}

/// The files of wheels that are installed together, the host wheel first.
pub(super) fn of_wheels(
    wheels: &[&GivenWheel],
    unread: &[PathBuf],
    question: &Question,
) -> anyhow::Result<AssembledFiles> {
    let resources = &question.resources;
    let paths: Vec<_> = wheels.iter().map(|wheel| wheel.path.clone()).collect();
    let input = match &*paths {
        [only] => Input::open(only, resources)?,
        several => open_wheels(several, resources)?,
    };
    let assembly = AssemblyForm::Wheels { wheels: wheels.iter().copied().cloned().collect(), unread: unread.to_vec() };
    Ok(files(input, paths.first().map_or(Path::new(""), PathBuf::as_path), assembly, question))
}

/// The files of a wheel on a server.
pub(super) fn of_remote(path: &Path, question: &Question) -> anyhow::Result<AssembledFiles> {
    let input = Input::open(path, &question.resources)?;
    let assembly = AssemblyForm::Wheels { wheels: vec![GivenWheel::of(path, &input)?], unread: Vec::new() };
    Ok(files(input, path, assembly, question))
}

/// The files of any other packed input, such as a tar archive. Fails if it is a split, whose files are not where they are installed.
pub(super) fn of_packed(path: &Path, question: &Question) -> anyhow::Result<AssembledFiles> {
    let input = Input::open(path, &question.resources)?;
    if statements_in(&input).any(|statement| statement.depth() == 2) {
        check_elsewhere(&input, &question.resources)?;
    }
    Ok(files(input, path, AssemblyForm::Other, question))
}

/// The files of an image's root file system.
pub(super) fn of_image(image: &ImageReference, question: &Question) -> anyhow::Result<AssembledFiles> {
    Ok(files(open_root(image, &question.resources)?, Path::new("/"), AssemblyForm::Other, question))
}

/// The files of artifacts in the directory `place` that are installed together.
pub(super) fn of_component(
    place: &Path,
    component: &InstalledComponent,
    question: &Question,
) -> anyhow::Result<AssembledFiles> {
    let place = component.name.as_ref().map_or_else(|| place.to_owned(), |name| place.join(name));
    Ok(files(component.open(&question.resources)?, &place, AssemblyForm::Artifacts, question))
}

/// The files of a directory without libraries, such as a device part, or code objects. What cannot be listed is known.
pub(super) fn of_directory(path: &Path, question: &Question) -> anyhow::Result<AssembledFiles> {
    let (input, _) = Input::survey(path, &question.resources)?;
    Ok(files(input, path, AssemblyForm::Other, question))
}

/// The files of a split, of which `devices` are the parts for the GPU of the question.
pub(super) fn of_parts(
    split: &SplitDirectory,
    devices: &[PathBuf],
    question: &Question,
) -> anyhow::Result<AssembledFiles> {
    let Some(first) = split.parts().next() else { return Ok(AssembledFiles::default()) };
    // Parts of other GPUs tell what the split has for each.
    let parts = split.parts().map(|part| Input::open(&part, &question.resources)).collect::<Result<_, _>>()?;
    let names = devices.iter().filter_map(|part| Some(part.file_name()?.to_string_lossy().into_owned()));
    let assembly = if split.has_host { AssemblyForm::Parts(names.collect()) } else { AssemblyForm::Other };
    let mut found = files(lay_over(parts)?, &first, assembly, question);
    for (path, _) in &mut found.files {
        let below = path.strip_prefix(&first).unwrap_or(path);
        // Libraries that are files of a database are in device parts.
        if let Some(place) = split.parts().map(|part| part.join(below)).find(|place| place.exists()) {
            *path = place;
        }
    }
    Ok(found)
}

/// The files with code: libraries, or archives, bundles and code objects if there are no libraries.
fn files(mut input: Input, location: &Path, form: AssemblyForm, question: &Question) -> AssembledFiles {
    let resources = &question.resources;
    let splits = InnerSplits::in_parts(&input);
    let left_out =
        input.warnings.iter().cloned().chain(input.left_by_pip()).chain(splits.left_out_of(location)).collect();
    splits.leave_out_of(&mut input);
    let mut names = input.entries.iter().filter(|entry| !matches!(entry.kind, EntryKind::Directory));
    let has_wanted = names.any(|entry| question.is_wanted(entry.path.as_path()));
    let mut seen = SeenFiles { files: input.files().count(), has_wanted, left_out, ..SeenFiles::default() };
    let archives: BTreeMap<_, _> = input
        .files()
        .filter(|(path, content)| is_archive(path, content))
        .map(|(path, content)| (path.clone(), Arc::clone(content)))
        .collect();
    let joined = join(&mut input, resources, &Progress::default());
    let mut found = Vec::new();
    for (entry, content) in input.files() {
        let path = location.join(entry.as_path());
        let code = match joined.binaries.get(entry) {
            Some(form) => {
                let targets = form.code().map(|code| code.iter().map(|it| it.target.clone()).collect());
                let code = LibraryCode::new(entry.clone(), CodePlace::Split, targets.collect());
                Ok(Some(LibraryCode { damage: form.damage.clone(), ..code }))
            }
            None if archives.contains_key(entry) || !may_be_library(&**content, &path) => continue,
            None if begins_code(&**content) => continue,
            None => library(entry.clone(), &path, content, resources).map(|found| {
                let code = match found? {
                    // It has no archives that can be read.
                    Library::Split(split) => {
                        let targets = split.wrappers.iter().map(|_| BTreeSet::new());
                        LibraryCode::new(entry.clone(), CodePlace::Split, targets.collect())
                    }
                    Library::Held(code, _) => code,
                };
                Some(LibraryCode { problem: joined.unread.get(entry).cloned(), ..code })
            }),
        };
        seen.binaries += 1;
        found.extend(code.transpose().map(|code| (path, code)));
    }
    let known = Databases::all().of(input.files(), resources);
    let libraries: Vec<_> = found.iter().filter_map(|(_, code)| code.as_ref().ok()).collect();
    let databases = InputDatabases::of(&input, &known, &libraries, resources);
    let devices: Vec<_> = question.gpus.iter().map(|gpu| question.device_of(gpu)).collect();
    let judged = databases.judge(DatabaseQuestion::all(&devices)).into_iter();
    let databases = judged.map(|database| (location.join(&database.path), database)).collect();
    if found.is_empty() {
        found = without_libraries(&input, &archives, &known, location, resources);
    }
    let is_split = |(_, code): &LocatedCode| code.as_ref().is_ok_and(|code| code.form == CodePlace::Split);
    let runtime = if found.iter().any(is_split) { OwnRuntime::of(&input) } else { None };
    AssembledFiles { files: found, assembly: Arc::new(Assembly { form, runtime }), databases, seen }
}

/// The archives, bundles and code objects of an input, without those that a library finds by a catalogue: what it has for each GPU
/// has its own names.
fn without_libraries(
    input: &Input,
    archives: &BTreeMap<EntryPath, Arc<dyn Content>>,
    known: &Databases,
    location: &Path,
    resources: &Arc<Resources>,
) -> Vec<LocatedCode> {
    let of_archive = |(entry, content): (&EntryPath, &Arc<dyn Content>)| {
        let path = location.join(entry.as_path());
        let read = (!is_url(location)).then_some(resources);
        let code = LibraryCode::of_archive(entry.clone(), content, read).map_err(error::at(&path));
        (path, code)
    };
    let is_catalogued = |path: &EntryPath| known.classify(path).is_some_and(|file| file.handler.reader().is_some());
    let is_loose = |path: &EntryPath| !archives.contains_key(path) && !is_catalogued(path);
    let loose = input.files().filter(|(path, _)| is_loose(path)).filter_map(|(entry, content)| {
        let path = location.join(entry.as_path());
        let code = LibraryCode::of_loose(entry.clone(), content, resources).map_err(error::at(&path)).transpose()?;
        Some((path, code))
    });
    archives.iter().map(of_archive).chain(loose).collect()
}

impl GivenWheel {
    pub(super) fn read(path: &Path, resources: &Arc<Resources>) -> anyhow::Result<Self> {
        Self::of(path, &Input::open(path, resources)?)
    }

    fn of(path: &Path, input: &Input) -> anyhow::Result<Self> {
        let metadata = Metadata::read(input).map_err(error::at(path))?;
        let split_id = input.dist_info().and_then(|info| statement_in(input, info)?.split_id);
        Ok(Self { path: path.to_owned(), metadata, split_id })
    }

    fn name(&self) -> String {
        normalise(&self.metadata.name)
    }

    pub(super) fn label(&self) -> WheelLabel<'_> {
        WheelLabel { metadata: Some(&self.metadata), path: &self.path }
    }
}

impl Assembly {
    pub(super) fn presence(&self) -> Presence {
        match &self.form {
            AssemblyForm::Wheels { .. } | AssemblyForm::Parts(_) | AssemblyForm::Artifacts => Presence::ToInstall,
            AssemblyForm::Other => Presence::Contained,
        }
    }

    /// What is known of an archive or a library before code is looked up.
    pub(super) fn describe(&self, form: CodePlace, lookup: &mut Lookup) {
        match (&self.form, form) {
            (AssemblyForm::Wheels { wheels, .. }, CodePlace::Archive) => {
                for (name, version) in wheels.first().into_iter().flat_map(|wheel| wheel.metadata.pins()) {
                    lookup
                        .evidence
                        .follows(format!("an installer takes {name} {version} with it, as the wheel requires"));
                }
            }
            (AssemblyForm::Wheels { wheels, .. }, _) => {
                let names: Vec<_> =
                    wheels.iter().map(|it| format!("{} {}", it.metadata.name, it.metadata.version)).collect();
                lookup.evidence.follows(format!("{} is installed as it is in the wheel", names.join(" with ")));
            }
            (AssemblyForm::Parts(parts), _) => {
                lookup.evidence.follows(format!("the host part is installed with {}", some_or_none(parts)));
            }
            (AssemblyForm::Artifacts | AssemblyForm::Other, _) => {}
        }
    }

    /// Whether what is installed with an archive has the library that leads to it: of a device wheel, what it requires.
    pub(super) fn brings_libraries(&self) -> bool {
        matches!(self.form, AssemblyForm::Wheels { .. })
    }

    /// Why a split library has no code for a GPU, but for these `targets`.
    pub(super) fn explain(&self, device: &TargetId, targets: &[String], lookup: &mut Lookup) {
        let cause = match &self.form {
            AssemblyForm::Wheels { wheels, unread } => cause_of_wheels(wheels, unread, device, targets),
            AssemblyForm::Artifacts | AssemblyForm::Other => nothing_has_archives(),
            AssemblyForm::Parts(parts) if parts.is_empty() => {
                let reason = format!("the split has no part for {}", device.processor());
                Cause::new(CauseKind::PackageNone, reason, None)
            }
            AssemblyForm::Parts(parts) => {
                let reason = format!("{} of the split has nothing for it", parts.join(" and "));
                Cause::new(CauseKind::ArchivesNone, reason, None)
            }
        };
        lookup.fail(cause);
    }
}

fn nothing_has_archives() -> Cause {
    Cause::new(CauseKind::ArchivesNone, "it is split, and nothing given has archives with code for it", None)
}

fn some_or_none(names: &[String]) -> String {
    if names.is_empty() { "no other part".to_owned() } else { names.join(", ") }
}

fn cause_of_wheels(wheels: &[GivenWheel], unread: &[PathBuf], device: &TargetId, targets: &[String]) -> Cause {
    let Some(host) = wheels.first() else { return nothing_has_archives() };
    let (name, version) = (&host.metadata.name, &host.metadata.version);
    let wanted = WantedPackages::of(&host.metadata, device);
    if wanted.packages.is_empty() {
        return wanted.lacking(name, version, device).unwrap_or_else(nothing_has_archives);
    }
    let given = |package: &(String, String)| {
        wheels.iter().find(|it| it.name() == package.0 && accepts(&package.1, &it.metadata.version))
    };
    let missing: Vec<_> = wanted.packages.iter().filter(|package| given(package).is_none()).collect();
    if missing.is_empty() {
        let devices: Vec<_> = wanted.packages.iter().filter_map(given).collect();
        return cause_of_devices(host, &devices, targets);
    }
    let packages: Vec<_> = missing.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let lack = format!("installed alone, {name} {version} has no kernels, which are in {}", packages.join(" and "));
    let files = files_of(&wanted, &host.path);
    if let Some(damaged) = files.iter().flatten().find(|file| unread.contains(file)) {
        return Cause::new(CauseKind::WheelAlone, format!("{lack}, and {} cannot be read", damaged.display()), None);
    }
    let command = files.map(|files| {
        let files: Vec<_> = std::iter::once(&host.path).chain(&files).map(quoted).collect();
        format!("pip install {}", files.join(" "))
    });
    let extra = wanted.extra.as_ref().map_or_else(
        || format!("install {}", wanted.packages.iter().map(exact).collect::<Vec<_>>().join(", ")),
        |extra| format!("install it with the extra {extra}"),
    );
    let whence = if command.is_some() { "" } else { ", from where you have the wheel" };
    Cause::new(CauseKind::WheelAlone, format!("{lack}: {extra}{whence}"), command)
}

/// Why device wheels have no code for a GPU, but for these `targets`.
fn cause_of_devices(host: &GivenWheel, devices: &[&GivenWheel], targets: &[String]) -> Cause {
    use CauseKind::{ArchiveReplaced, ArchivesNone};
    let are_of_one = devices.iter().map(|it| are_of_one(host.split_id.as_deref(), it.split_id.as_deref()));
    let (kind, reason) = match (are_of_one.min().flatten(), targets) {
        (Some(false), _) => (ArchiveReplaced, "the device wheels are of another build than the host wheel".to_owned()),
        (_, [_, ..]) => (ArchivesNone, format!("the device wheels have its code for {} only", some_of(targets))),
        (Some(true), []) => (ArchivesNone, "no device wheel has code for it".to_owned()),
        (None, []) => (ArchiveReplaced, "no device wheel has code for it: they may be of another build".to_owned()),
    };
    Cause::new(kind, reason, None)
}

/// The wheels of packages next to their host wheel, if all are there.
fn files_of(wanted: &WantedPackages, host: &Path) -> Option<Vec<PathBuf>> {
    wanted.packages.iter().map(|package| wheel_in(parent(host), package)).collect()
}
