//! Wheels before they are installed, and the parts of a split: what an installation of them has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cause::{self, Cause};
use super::error::WhyError;
use super::held::HeldCode;
use super::lookup::{CodePlace, Lookup, Presence, quoted};
use super::origin::wheel_in;
use super::wanted::WantedPackages;
use crate::binary::{FatBinary, SplitBinary};
use crate::gpu::TargetId;
use crate::image::{ImageReference, open_root};
use crate::join::{Joined, join, open_wheels};
use crate::loader::is_archive;
use crate::metrics::Progress;
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{Entry, EntryKind, EntryPath, Input, InputKind, may_be_binary};
use crate::wheel::{Metadata, accepts, file_tags, normalise};

/// A file of an assembly, and its code.
pub(super) struct AssembledFile {
    /// Where it is: the wheel or directory, then its path in an installation.
    pub(super) path: PathBuf,
    pub(super) code: Result<HeldCode, WhyError>,
}

/// What is put together.
#[derive(Debug)]
pub(super) enum Assembly {
    /// Wheels that are installed together, and those that were given and cannot be read.
    Wheels { wheels: Vec<GivenWheel>, unread: Vec<PathBuf> },
    /// Parts of a split: their names.
    Parts(Vec<String>),
    /// Anything else, such as a tar archive.
    Other,
}

/// A wheel, by its path.
#[derive(Clone, Debug)]
pub(super) struct GivenWheel {
    pub(super) path: PathBuf,
    pub(super) metadata: Metadata,
}

/// Wheels that require each other belong to one group, unless they are of one distribution. The first of each group is
/// that which has most requirements: the host wheel.
pub(super) fn group(wheels: Vec<GivenWheel>) -> Vec<Vec<GivenWheel>> {
    let mut groups = Vec::<Vec<GivenWheel>>::new();
    for wheel in wheels {
        let (related, others): (Vec<_>, Vec<_>) =
            groups.into_iter().partition(|group| group.iter().any(|it| it.is_related(&wheel)));
        groups = others;
        groups.push(related.into_iter().flatten().chain([wheel]).collect());
    }
    for group in &mut groups {
        group.sort_by_key(|wheel| std::cmp::Reverse(wheel.metadata.pins_of_extras().count()));
    }
    groups.into_iter().flat_map(divide).collect()
}

/// A group for each host wheel of several with one name, such as those for two systems.
fn divide(group: Vec<GivenWheel>) -> Vec<Vec<GivenWheel>> {
    let host = group.first().map(GivenWheel::name);
    let (hosts, devices): (Vec<_>, Vec<_>) = group.into_iter().partition(|wheel| Some(wheel.name()) == host);
    let of_host = |host: &GivenWheel| {
        let own = devices.iter().filter(|device| device.belongs_to(host, &hosts));
        let is_wanted = |device: &&GivenWheel| host.pins(device);
        let (wanted, others): (Vec<_>, Vec<_>) = own.partition(is_wanted);
        let mut names = BTreeSet::new();
        let own = wanted.into_iter().chain(others).filter(|device| names.insert(device.name()));
        std::iter::once(host).chain(own).cloned().collect()
    };
    hosts.iter().map(of_host).collect()
}

/// The files of wheels that belong together. A second wheel of one distribution, or one of a version that the host
/// wheel does not require, cannot be installed with it.
pub(super) fn of_wheels(
    group: &[GivenWheel],
    unread: &[PathBuf],
    resources: &Arc<Resources>,
) -> Result<Vec<AssembledFile>, WhyError> {
    let Some(host) = group.first() else { return Ok(Vec::new()) };
    let paths: Vec<_> = group.iter().map(|wheel| wheel.path.clone()).collect();
    let input = match &*paths {
        [only] => Input::open(only, resources)?,
        several => open_wheels(several, resources)?,
    };
    let assembly = Assembly::Wheels { wheels: group.to_vec(), unread: unread.to_vec() };
    Ok(files(input, &host.path, &Arc::new(assembly), resources))
}

/// The files of any other packed input, such as a tar archive.
pub(super) fn of_packed(path: &Path, resources: &Arc<Resources>) -> Result<Vec<AssembledFile>, WhyError> {
    Ok(files(Input::open(path, resources)?, path, &Arc::new(Assembly::Other), resources))
}

/// The files of an image's root file system.
pub(super) fn of_image(image: &ImageReference, resources: &Arc<Resources>) -> Result<Vec<AssembledFile>, WhyError> {
    let input = open_root(image, resources)?;
    Ok(files(input, Path::new("/"), &Arc::new(Assembly::Other), resources))
}

/// The archives of a directory without libraries, such as a device part.
pub(super) fn of_directory(path: &Path, resources: &Arc<Resources>) -> Result<Vec<AssembledFile>, WhyError> {
    Ok(files(Input::survey(path, resources)?, path, &Arc::new(Assembly::Other), resources))
}

/// The files of directories that are put over each other, the first one being the host part.
pub(super) fn of_parts(
    host: &Path,
    parts: &[PathBuf],
    resources: &Arc<Resources>,
) -> Result<Vec<AssembledFile>, WhyError> {
    let mut input = Input::survey(host, resources)?;
    for part in parts {
        let entries = Input::survey(part, resources)?.entries;
        input.entries.extend(entries);
    }
    input.kind = InputKind::Tree;
    input.entries.sort_by(|a, b| a.path.cmp(&b.path));
    input.entries.dedup_by(|second, first| second.path == first.path);
    let name = |part: &PathBuf| part.file_name().map(|name| name.to_string_lossy().into_owned());
    Ok(files(input, host, &Arc::new(Assembly::Parts(parts.iter().filter_map(name).collect())), resources))
}

/// The files with code: libraries, or archives if there are no libraries.
fn files(
    mut input: Input,
    location: &Path,
    assembly: &Arc<Assembly>,
    resources: &Arc<Resources>,
) -> Vec<AssembledFile> {
    let archives: Vec<_> = input.entries.iter().filter_map(archive).collect();
    let joined = join(&mut input, resources, &Progress::default());
    let mut found = Vec::new();
    for entry in &input.entries {
        let EntryKind::File { content, .. } = &entry.kind else { continue };
        let path = location.join(entry.path.as_path());
        let code = match joined.binaries.get(&entry.path) {
            Some(form) => {
                let targets = form.code().map(|code| code.iter().map(|it| it.target.clone()).collect());
                Ok(Some(HeldCode { form: CodePlace::Split, targets: targets.collect(), assembly: None }))
            }
            None if may_be_binary(&**content) => binary(&path, content, resources),
            None => Ok(None),
        };
        let with_origin = |code| HeldCode { assembly: Some(Arc::clone(assembly)), ..code };
        match code {
            Ok(Some(code)) => found.push(AssembledFile { path, code: Ok(with_origin(code)) }),
            Ok(None) => {}
            Err(error) => found.push(AssembledFile { path, code: Err(damage(&joined, &entry.path).unwrap_or(error)) }),
        }
    }
    if found.is_empty() {
        found.extend(archives.into_iter().map(|(path, content)| {
            let path = location.join(path.as_path());
            let code = HeldCode::of_archive(&path, &content);
            AssembledFile { code: code.map(|code| HeldCode { assembly: Some(Arc::clone(assembly)), ..code }), path }
        }));
    }
    found
}

/// A library that was not joined. A split one has no archives that can be read.
fn binary(path: &Path, content: &Arc<dyn Content>, resources: &Arc<Resources>) -> Result<Option<HeldCode>, WhyError> {
    let failed = |source| WhyError::Binary { path: path.to_owned(), source };
    if let Some(split) = SplitBinary::find(content).map_err(failed)? {
        let targets = split.wrappers.iter().map(|_| BTreeSet::new()).collect();
        return Ok(Some(HeldCode { form: CodePlace::Split, targets, assembly: None }));
    }
    let Some(binary) = FatBinary::scan(content).map_err(failed)? else { return Ok(None) };
    HeldCode::of_fat(path, content, &binary, resources)
}

/// What joining said about a file.
fn damage(joined: &Joined, path: &EntryPath) -> Option<WhyError> {
    let prefix = format!("{path}: ");
    let found = joined.warnings.iter().find_map(|warning| warning.strip_prefix(&prefix))?;
    Some(WhyError::Archive { path: path.as_path().to_owned(), reason: found.to_owned() })
}

fn archive(entry: &Entry) -> Option<(EntryPath, Arc<dyn Content>)> {
    match &entry.kind {
        EntryKind::File { content, .. } if is_archive(&entry.path, content) => {
            Some((entry.path.clone(), Arc::clone(content)))
        }
        _ => None,
    }
}

impl GivenWheel {
    pub(super) fn read(path: &Path, resources: &Arc<Resources>) -> Result<Self, WhyError> {
        let input = Input::open(path, resources)?;
        let metadata = Metadata::read(&input).map_err(|source| WhyError::Wheel { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), metadata })
    }

    fn name(&self) -> String {
        normalise(&self.metadata.name)
    }

    /// Whether it is to be installed with this host wheel of several: one that requires its version, and that is for the same
    /// systems if there is such a one, unless it is for all systems. A wheel that none requires belongs to all, which shows that
    /// something is wrong.
    fn belongs_to(&self, host: &Self, hosts: &[Self]) -> bool {
        let is_alike = |host: &Self| host.pins(self) && file_tags(&host.path) == file_tags(&self.path);
        let is_for_all = self.path.to_string_lossy().ends_with("-none-any.whl");
        let is_free = is_for_all || !hosts.iter().any(is_alike);
        is_alike(host) || (host.pins(self) && is_free) || !hosts.iter().any(|host| host.pins(self))
    }

    /// Whether an extra of this wheel requires the other one in its version.
    fn pins(&self, other: &Self) -> bool {
        let mut pins = self.metadata.pins_of_extras();
        pins.any(|(_, name, version)| name == other.name() && accepts(version, &other.metadata.version))
    }

    /// Whether one of two wheels requires the other one in exactly one version.
    fn is_related(&self, other: &Self) -> bool {
        let requires = |one: &Self, name: &str| {
            let of_extras = one.metadata.pins_of_extras().map(|(_, name, _)| name);
            one.metadata.pins().map(|(name, _)| name).chain(of_extras).any(|it| it == name)
        };
        requires(self, &other.name()) || requires(other, &self.name())
    }
}

impl Assembly {
    pub(super) fn presence(&self) -> Presence {
        match self {
            Self::Wheels { .. } | Self::Parts(_) => Presence::ToInstall,
            Self::Other => Presence::Contained,
        }
    }

    /// What is known of an archive or a library before code is looked up.
    pub(super) fn describe(&self, form: CodePlace, lookup: &mut Lookup) {
        match (self, form) {
            (Self::Wheels { wheels, .. }, CodePlace::Archive) => {
                for (name, version) in wheels.first().into_iter().flat_map(|wheel| wheel.metadata.pins()) {
                    lookup.follows(format!("an installer takes {name} {version} with it, as the wheel requires"));
                }
            }
            (Self::Wheels { wheels, .. }, _) => {
                let names: Vec<_> =
                    wheels.iter().map(|it| format!("{} {}", it.metadata.name, it.metadata.version)).collect();
                lookup.follows(format!("{} is installed as it is in the wheel", names.join(" with ")));
            }
            (Self::Parts(parts), _) => {
                lookup.follows(format!("the host part is installed with {}", some_or_none(parts)));
            }
            (Self::Other, _) => {}
        }
    }

    /// Why a split library has no code for a GPU.
    pub(super) fn explain(&self, device: &TargetId, lookup: &mut Lookup) {
        let cause = match self {
            Self::Wheels { wheels, unread } => cause_of_wheels(wheels, unread, device),
            Self::Other => nothing_has_archives(),
            Self::Parts(parts) if parts.is_empty() => {
                let reason = format!("the split has no part for {}", device.processor());
                Cause::new(&cause::PACKAGE_NONE, reason, None)
            }
            Self::Parts(parts) => {
                let reason = format!("{} of the split has nothing for it", parts.join(" and "));
                Cause::new(&cause::ARCHIVES_NONE, reason, None)
            }
        };
        lookup.fail(cause);
    }
}

fn nothing_has_archives() -> Cause {
    Cause::new(&cause::ARCHIVES_NONE, "it is split, and nothing given has archives with code for it", None)
}

fn some_or_none(names: &[String]) -> String {
    if names.is_empty() { "no other part".to_owned() } else { names.join(", ") }
}

fn cause_of_wheels(wheels: &[GivenWheel], unread: &[PathBuf], device: &TargetId) -> Cause {
    let Some(host) = wheels.first() else { return nothing_has_archives() };
    let (name, version) = (&host.metadata.name, &host.metadata.version);
    let wanted = WantedPackages::of(&host.metadata, device);
    if wanted.packages.is_empty() {
        return if wanted.offered.is_empty() {
            nothing_has_archives()
        } else {
            let offered = wanted.offered.join(", ");
            let reason =
                format!("{name} {version} has no package for {}; it has some for {offered}", device.processor());
            Cause::new(&cause::PACKAGE_NONE, reason, None)
        };
    }
    let is_given = |package: &&(String, String)| {
        wheels.iter().any(|it| it.name() == package.0 && accepts(&package.1, &it.metadata.version))
    };
    let missing: Vec<_> = wanted.packages.iter().filter(|package| !is_given(package)).collect();
    if missing.is_empty() {
        let reason = "the device wheels have nothing for it: they are of another build".to_owned();
        return Cause::new(&cause::ARCHIVE_REPLACED, reason, None);
    }
    let packages: Vec<_> = missing.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let lack = format!("installed alone, {name} {version} has no kernels, which are in {}", packages.join(" and "));
    let files = files_of(&wanted, &host.path);
    if let Some(damaged) = files.iter().flatten().find(|file| unread.contains(file)) {
        return Cause::new(&cause::WHEEL_ALONE, format!("{lack}, and {} cannot be read", damaged.display()), None);
    }
    let command = files.map(|files| {
        let files: Vec<_> = std::iter::once(&host.path).chain(&files).map(|file| quoted(file)).collect();
        format!("pip install {}", files.join(" "))
    });
    let extra = wanted.extra.as_ref().map_or_else(
        || format!("install {}", wanted.requirements.join(", ")),
        |extra| format!("install it with the extra {extra}"),
    );
    let whence = if command.is_some() { "" } else { ", from where you have the wheel" };
    Cause::new(&cause::WHEEL_ALONE, format!("{lack}: {extra}{whence}"), command)
}

/// The wheels of packages next to their host wheel, if all are there.
fn files_of(wanted: &WantedPackages, host: &Path) -> Option<Vec<PathBuf>> {
    let directory = host.parent()?;
    // A relative path without a directory has an empty parent.
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    wanted.packages.iter().map(|package| wheel_in(directory, package)).collect()
}
