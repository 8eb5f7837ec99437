//! What the packages of a Python environment state about a library and its archives.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::cause::Cause;
use super::installer::{Installer, Remedy, is_read_only};
use super::libraries::LibraryFile;
use super::lookup::Lookup;
use super::wanted::WantedPackages;
use crate::coverage::CauseKind;
use crate::disk;
use crate::gpu::TargetId;
use crate::loader::resolve;
use crate::memory::Parser;
use crate::rope::{Sha256, head_mut};
use crate::source::{DirectoryListing, EntryPath};
use crate::split::Statement;
use crate::text::quoted;
use crate::verify::devices_of;
use crate::wheel::{self, Claims, Metadata, accepts, normalise};

/// The directory in which `rocm-sdk init` makes hard links to installed files (ROCm/TheRock#5778).
const DEVELOPMENT: &str = "_rocm_sdk_devel";

/// Where a runtime looks for archives.
pub(super) const NEXT_TO_FILE: &str = "archives are looked for next to the file that is loaded, symlinks resolved";

/// Bytes that are read at a time.
const PIECE: usize = 256 << 10;

/// An installed distribution.
#[derive(Debug)]
pub(super) struct InstalledDistribution {
    info: PathBuf,
    pub(super) metadata: Metadata,
    pub(super) record: Claims,
}

impl InstalledDistribution {
    fn installer(&self) -> Installer {
        Installer::of(&self.info, None)
    }

    /// What installs it again.
    fn renew(&self) -> Remedy {
        let name = normalise(&self.metadata.name);
        let packages = BTreeSet::from([(name.clone(), self.metadata.version.clone())]);
        self.installer().renew(&packages, &self.info, &name)
    }

    /// The ID of the split that it is a part of, if it states one.
    pub(super) fn split_id(&self) -> Option<String> {
        let bytes = disk::read(&self.info.join(wheel::STATEMENT), Parser::Statement).ok()?;
        Statement::parse(&bytes).ok()?.split_id
    }

    /// Whether its RECORD names a path.
    fn names(&self, path: &EntryPath) -> bool {
        self.record.rows().any(|(row, _)| row == path.as_bytes())
    }
}

/// The directory of packages that contains a library: the nearest one above it with `*.dist-info` directories.
pub(super) fn site_of(library: &Path) -> Option<PathBuf> {
    library.ancestors().skip(1).find(|directory| !dist_infos(directory).is_empty()).map(Path::to_owned)
}

fn dist_infos(directory: &Path) -> Vec<PathBuf> {
    let listing = DirectoryListing::read(directory).unwrap_or_default();
    listing.dist_infos().map(|entry| directory.join(&entry.name)).collect()
}

/// The distributions of a directory of packages.
pub(super) fn distributions(site: &Path) -> impl Iterator<Item = InstalledDistribution> {
    dist_infos(site).into_iter().filter_map(|path| open(&path))
}

/// What installs a package again, of a library's environment.
pub(super) fn reinstall(library: &Path, package: &str) -> Option<Remedy> {
    let (name, version) = package.split_once("==")?;
    let is_it = |it: &InstalledDistribution| it.metadata.name == name && it.metadata.version == version;
    distributions(&site_of(library)?).find(is_it).map(|found| found.renew())
}

/// The archives that a runtime tries for a library.
#[derive(Default)]
pub(super) struct TriedArchives<'a> {
    pub(super) paths: Vec<&'a Path>,
    /// An existing one that does not fit.
    pub(super) unfit: Option<&'a Path>,
}

impl TriedArchives<'_> {
    /// Whether the RECORD of a package in `site` names one of them.
    fn are_of(&self, package: &InstalledDistribution, site: &Path) -> bool {
        let below = |path: &&Path| resolve(&EntryPath::root(), path.strip_prefix(site).ok()?.to_str()?);
        self.paths.iter().filter_map(below).any(|path| package.names(&path))
    }
}

/// Why a library has no archive that fits; `None` if packages do not explain it.
pub(super) fn cause(
    file: &LibraryFile,
    device: &TargetId,
    archives: &TriedArchives<'_>,
    lookup: &mut Lookup,
) -> Option<Cause> {
    // uv may install symlinks into its cache, where there is an unpacked wheel.
    let link = file.links.iter().find(|link| is_installed(link)).filter(|_| !is_installed(&file.path));
    let path = link.unwrap_or(&file.path);
    let site = site_of(path)?;
    let distributions: Vec<_> = distributions(&site).collect();
    let library = InstalledLibrary { path, is_linked: link.is_some(), site: &site, distributions: &distributions };
    library.cause(device, archives, lookup)
}

/// A library in a directory of packages.
struct InstalledLibrary<'a> {
    path: &'a Path,
    /// Whether this is a symlink into a cache.
    is_linked: bool,
    site: &'a Path,
    /// All distributions of the directory.
    distributions: &'a [InstalledDistribution],
}

impl InstalledLibrary<'_> {
    fn cause(&self, device: &TargetId, archives: &TriedArchives<'_>, lookup: &mut Lookup) -> Option<Cause> {
        let &Self { path, is_linked, site, distributions } = self;
        let relative = below(path, site)?;
        let hosts: Vec<_> = distributions.iter().filter(|it| it.names(&relative)).collect();
        let Some(host) = owner(&hosts, path, &relative, lookup) else {
            let of_archive = || {
                let package = distributions.iter().find(|it| archives.are_of(it, site))?;
                Some(cause_of_archive(archives.unfit, package.installer().has_installed, package.renew()))
            };
            return copy(path, site, distributions, lookup).or_else(of_archive);
        };
        let name = normalise(&host.metadata.name);
        let version = &host.metadata.version;
        lookup.evidence.saw(format!("{} {version} installed the library", host.metadata.name));
        let wanted = WantedPackages::of(&host.metadata, device);
        if wanted.packages.is_empty() {
            return wanted.lacking(&name, version, device);
        }
        if is_linked {
            lookup.evidence.saw(format!("{} leads to the library", path.display()));
            lookup.evidence.follows(NEXT_TO_FILE);
        }
        Some(PackageCheck { host, name, is_linked, wanted, distributions }.cause(archives, lookup))
    }
}

/// The cause if the device package has another version than the package of the library.
pub(super) fn version(file: &LibraryFile, device: &TargetId) -> Option<Cause> {
    let cause = cause(file, device, &TriedArchives::default(), &mut Lookup::default())?;
    (cause.kind == CauseKind::PackageVersion).then_some(cause)
}

/// Directories of packages in which a host package has device packages of other versions. Each is read once for all libraries and GPUs.
#[derive(Default)]
pub(super) struct MixedPackages {
    /// By the directories of libraries.
    sites: BTreeMap<PathBuf, Option<PathBuf>>,
    /// By directories of packages; `None` if all in it fit.
    mixed: BTreeMap<PathBuf, Option<MixedSite>>,
}

/// A directory of packages that do not fit.
struct MixedSite {
    distributions: Vec<InstalledDistribution>,
    /// The host packages among them with device packages of other versions only.
    hosts: Vec<usize>,
}

impl MixedPackages {
    /// The cause if the code that a library has is that of another version.
    pub(super) fn version(&mut self, file: &LibraryFile, device: &TargetId) -> Option<Cause> {
        file.paths().find_map(|path| {
            let site = self.sites.entry(path.parent()?.to_owned()).or_insert_with(|| site_of(path)).clone()?;
            let mixed = self.mixed.entry(site.clone()).or_insert_with_key(|site| MixedSite::of(site));
            let MixedSite { distributions, hosts } = mixed.as_ref()?;
            let library = InstalledLibrary { path, is_linked: *path != file.path, site: &site, distributions };
            let relative = below(path, &site)?;
            let mut hosts = hosts.iter().filter_map(|&host| distributions.get(host));
            let cause = || library.cause(device, &TriedArchives::default(), &mut Lookup::default());
            let cause = hosts.any(|it| it.names(&relative)).then(cause);
            cause?.filter(|cause| cause.kind == CauseKind::PackageVersion)
        })
    }
}

impl MixedSite {
    /// `None` if all fit. RECORDs are read only otherwise.
    fn of(site: &Path) -> Option<Self> {
        let all: Vec<_> = dist_infos(site).iter().filter_map(|info| metadata(info)).collect();
        if !all.iter().any(|host| has_others(host, &all)) {
            return None;
        }
        let distributions: Vec<_> = distributions(site).collect();
        let hosts =
            (0..).zip(&distributions).filter(|(_, it)| has_others(&it.metadata, &all)).map(|(number, _)| number);
        Some(Self { hosts: hosts.collect(), distributions })
    }
}

/// Whether device packages of a host package are there in other versions only.
fn has_others(host: &Metadata, all: &[Metadata]) -> bool {
    let is_other = |(name, wanted): &(String, String)| {
        let mut found = all.iter().filter(|it| normalise(&it.name) == *name).peekable();
        found.peek().is_some() && !found.any(|it| accepts(wanted, &it.version))
    };
    devices_of(host).values().flatten().any(is_other)
}

/// Whether an installer put a library where it is.
fn is_installed(library: &Path) -> bool {
    let Some(site) = site_of(library) else { return false };
    let is_owner = |it: &InstalledDistribution| below(library, &site).is_some_and(|path| it.names(&path));
    distributions(&site).any(|it| it.info.join("INSTALLER").exists() && is_owner(&it))
}

/// The path of a file in a directory of packages.
pub(super) fn below(file: &Path, site: &Path) -> Option<EntryPath> {
    EntryPath::new(file.strip_prefix(site).ok()?.as_os_str().as_encoded_bytes()).ok()
}

/// The packages that a library needs, and those that are there.
struct PackageCheck<'a> {
    host: &'a InstalledDistribution,
    name: String,
    /// Whether the library is a symlink into a cache.
    is_linked: bool,
    wanted: WantedPackages,
    distributions: &'a [InstalledDistribution],
}

impl PackageCheck<'_> {
    fn cause(&self, archives: &TriedArchives<'_>, lookup: &mut Lookup) -> Cause {
        let (name, version) = (&self.name, &self.host.metadata.version);
        let linked = self.is_linked.then(|| (name.clone(), version.clone()));
        let installer = Installer::of(&self.host.info, linked);
        let add = || installer.add(&self.wanted, &self.host.info, name);
        let mut existing = BTreeMap::<String, Vec<&InstalledDistribution>>::new();
        for it in self.distributions {
            existing.entry(normalise(&it.metadata.name)).or_default().push(it);
        }
        let mut several: Vec<_> = existing.get(name).filter(|all| all.len() > 1).map(|_| name).into_iter().collect();
        // A symlink into a cache has its archives elsewhere.
        let (mut source, mut has_archive) = ((&self.host.info, name), archives.unfit.is_some() || self.is_linked);
        for (device, wanted) in &self.wanted.packages {
            let Some(found) = existing.get(device) else {
                let extra = self.wanted.extra.as_ref();
                let extra = extra.map(|it| format!("; the extra {it} of {name} requires it")).unwrap_or_default();
                let kind = if installer.has_installed { CauseKind::PackageMissing } else { CauseKind::NotInstalled };
                return with(kind, format!("the package {device} {wanted} is not installed{extra}"), add());
            };
            let Some(fitting) = found.iter().find(|it| accepts(wanted, &it.metadata.version)) else {
                let found = found.iter().map(|it| it.metadata.version.as_str()).collect::<Vec<_>>().join(", ");
                let reason = format!("the package {device} is installed in version {found}, and {name} in {version}");
                return with(CauseKind::PackageVersion, reason, add());
            };
            lookup.evidence.saw(format!("{device} {} is installed", fitting.metadata.version));
            several.extend((found.len() > 1).then_some(device));
            source = (&fitting.info, device);
            // Without a RECORD nothing says what it installed.
            has_archive |= fitting.record.rows().next().is_none() || archives.are_of(fitting, &installer.site);
        }
        let renewed = installer.renew(&self.wanted.packages, source.0, source.1);
        if let Some(several) = several.first() {
            let reason = format!(
                "{several} has several dist-info directories in {}, as after an upgrade that was interrupted, and its \
                 files are not those of one version",
                installer.site.display()
            );
            return with(CauseKind::SeveralVersions, reason, renewed);
        }
        if !has_archive {
            let names: Vec<_> = self.wanted.packages.iter().map(|(name, _)| name.as_str()).collect();
            let reason = format!("no archive for it is among the files of {}", names.join(" and "));
            return Cause::new(CauseKind::ArchivesNone, reason, None);
        }
        cause_of_archive(archives.unfit, installer.has_installed, renewed)
    }
}

/// The cause if an archive that a package installed is gone, or is there and does not fit.
fn cause_of_archive(unfit: Option<&Path>, is_installed: bool, renewed: Remedy) -> Cause {
    let (kind, reason) = match unfit {
        Some(archive) => (
            CauseKind::ArchiveReplaced,
            format!("{} is not what its package installed, or is damaged", archive.display()),
        ),
        None if is_installed => {
            (CauseKind::ArchiveGone, "its archive is gone, although its package is installed".to_owned())
        }
        None => (CauseKind::ArchiveGone, "its archive is gone, although its dist-info is there".to_owned()),
    };
    with(kind, reason, renewed)
}

fn with(kind: CauseKind, reason: String, remedy: Remedy) -> Cause {
    Cause::new(kind, reason + &remedy.advice, remedy.command)
}

/// The distribution that installed a library. Of several `*.dist-info` directories of one distribution, it is the one
/// whose RECORD has the library's digest.
fn owner<'a>(
    hosts: &[&'a InstalledDistribution],
    library: &Path,
    path: &EntryPath,
    lookup: &mut Lookup,
) -> Option<&'a InstalledDistribution> {
    let [_, _, ..] = hosts else { return hosts.first().copied() };
    let names: Vec<_> = hosts.iter().map(|it| format!("{} {}", it.metadata.name, it.metadata.version)).collect();
    let digest = sha256(library).ok();
    let is_of = |it: &&&InstalledDistribution| it.record.get(path).map(|claim| claim.sha256) == digest;
    let found = hosts.iter().filter(|_| digest.is_some()).find(is_of);
    let how = found.map_or_else(String::new, |it| format!("; by its SHA-256 it is that of {}", it.metadata.version));
    lookup.evidence.saw(format!("the RECORD of each of {} names the library{how}", names.join(", ")));
    found.or(hosts.last()).copied()
}

/// Whether two parts are of one split; `None` unless both state its ID.
pub(super) fn are_of_one(one: Option<&str>, other: Option<&str>) -> Option<bool> {
    Some(one? == other?)
}

pub(super) fn sha256(path: &Path) -> io::Result<[u8; 32]> {
    let (mut file, mut sum, mut piece) = (disk::open(path)?.0, Sha256::default(), vec![0; PIECE]);
    while let length @ 1.. = file.read(&mut piece)? {
        sum.update(head_mut(&mut piece, length));
    }
    Ok(sum.finish())
}

/// A library that no package installed. It is probably a copy, which looks for archives relative to its own path.
fn copy(library: &Path, site: &Path, distributions: &[InstalledDistribution], lookup: &mut Lookup) -> Option<Cause> {
    let name = library.file_name()?.as_encoded_bytes();
    let mut rows = distributions.iter().flat_map(|it| it.record.rows()).map(|(path, _)| path);
    let original = rows.find(|path| path.rsplit(|&byte| byte == b'/').next() == Some(name))?;
    let original = site.join(EntryPath::new(original).ok()?.as_path());
    lookup.evidence.saw(format!("no package installed the library, but {} is installed", original.display()));
    lookup.evidence.follows(NEXT_TO_FILE);
    let maker = if library.components().any(|it| it.as_os_str() == DEVELOPMENT) { "that rocm-sdk made " } else { "" };
    let reason = format!("it is a copy {maker}of {}, and the archives are where that is", original.display());
    let can_link = !library.parent().is_some_and(is_read_only);
    let command = can_link.then(|| format!("ln -sf {} {}", quoted(&original), quoted(library)));
    Some(Cause::new(CauseKind::CopiedLibrary, reason, command))
}

fn metadata(info: &Path) -> Option<Metadata> {
    let name = EntryPath::new(b"METADATA").ok()?;
    let metadata = disk::read(&info.join("METADATA"), Parser::Metadata).ok()?.into_bytes();
    Metadata::parse(metadata, &name).ok()
}

fn open(info: &Path) -> Option<InstalledDistribution> {
    let metadata = metadata(info)?;
    let record = disk::read(&info.join("RECORD"), Parser::Record);
    let record = record.map_or_else(|_| Claims::default(), |bytes| Claims::parse(&bytes));
    Some(InstalledDistribution { info: info.to_owned(), metadata, record })
}
