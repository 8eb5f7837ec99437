//! What the packages of a Python environment state about a library and its archives.

use std::collections::BTreeMap;
use std::path::Path;

use super::cause::Cause;
use super::installer::{Installer, Remedy, is_read_only};
use super::libraries::LibraryFile;
use super::sites::{InstalledDistribution, InstalledFiles, PackageSite};
use super::wanted::WantedPackages;
use crate::coverage::{CauseKind, Trail};
use crate::gpu::TargetId;
use crate::loader::resolve;
use crate::source::EntryPath;
use crate::text::quoted;
use crate::wheel::{accepts, normalise};

/// The directory in which `rocm-sdk init` makes hard links to installed files (ROCm/TheRock#5778).
const DEVELOPMENT: &str = "_rocm_sdk_devel";

/// Where a runtime looks for archives.
pub(super) const NEXT_TO_FILE: &str = "archives are looked for next to the file that is loaded, symlinks resolved";

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
        self.paths.iter().filter_map(below).any(|path| package.record().names(&path))
    }
}

impl InstalledFiles {
    /// Why a library has no archive that fits; `None` if packages do not explain it.
    pub(super) fn cause(
        &self,
        file: &LibraryFile,
        device: &TargetId,
        archives: &TriedArchives<'_>,
        evidence: &mut Trail,
    ) -> Option<Cause> {
        // uv may install symlinks into its cache, where there is an unpacked wheel.
        let link = file.links.iter().find(|link| self.has_installed(link)).filter(|_| !self.has_installed(&file.path));
        let path = link.unwrap_or(&file.path);
        let site = self.site_of(path)?;
        let library = InstalledLibrary { path, is_linked: link.is_some(), site: &site, files: self };
        library.cause(device, archives, evidence)
    }

    /// The cause if the device package has another version than the package of the library. RECORDs are read only if there is
    /// such a package.
    pub(super) fn version(&self, file: &LibraryFile, device: &TargetId) -> Option<Cause> {
        let may_be = file.paths().any(|path| self.site_of(path).is_some_and(|site| site.has_other_versions()));
        let cause = || self.cause(file, device, &TriedArchives::default(), &mut Trail::default());
        may_be.then(cause)?.filter(|cause| cause.kind == CauseKind::PackageVersion)
    }

    /// Whether an installer put a library where it is.
    fn has_installed(&self, library: &Path) -> bool {
        self.site_of(library).is_some_and(|site| {
            let is_owner =
                |it: &&InstalledDistribution| site.below(library).is_some_and(|path| it.record().names(&path));
            site.distributions.iter().filter(is_owner).any(|it| it.info.join("INSTALLER").exists())
        })
    }
}

/// A library in a directory of packages.
struct InstalledLibrary<'a> {
    path: &'a Path,
    /// Whether this is a symlink into a cache.
    is_linked: bool,
    site: &'a PackageSite,
    files: &'a InstalledFiles,
}

impl InstalledLibrary<'_> {
    fn cause(&self, device: &TargetId, archives: &TriedArchives<'_>, evidence: &mut Trail) -> Option<Cause> {
        let Some(host) = self.owner(&self.site.below(self.path)?, evidence) else {
            let of_archive = || {
                let package = self.site.distributions.iter().find(|it| archives.are_of(it, &self.site.path))?;
                Some(cause_of_archive(archives.unfit, package.installer().has_installed, package.renew()))
            };
            return copy(self.path, self.site, evidence).or_else(of_archive);
        };
        evidence.saw(format!("{} installed the library", host.label()));
        let wanted = WantedPackages::of(&host.metadata, device);
        if wanted.packages.is_empty() {
            return wanted.lacking(&normalise(&host.metadata.name), &host.metadata.version, device);
        }
        if self.is_linked {
            evidence.saw(format!("{} leads to the library", self.path.display()));
            evidence.follows(NEXT_TO_FILE);
        }
        Some(self.cause_of_packages(host, &wanted, archives, evidence))
    }

    /// The distribution that installed it. Of several `*.dist-info` directories of one distribution, it is the one whose RECORD
    /// has the library's digest.
    fn owner(&self, path: &EntryPath, evidence: &mut Trail) -> Option<&InstalledDistribution> {
        let hosts: Vec<_> = self.site.distributions.iter().filter(|it| it.record().names(path)).collect();
        let [_, _, ..] = &*hosts else { return hosts.first().copied() };
        let names: Vec<_> = hosts.iter().map(|it| it.label()).collect();
        let digest = self.files.digest(self.path);
        let is_of = |it: &&&InstalledDistribution| it.record().get(path).map(|claim| claim.sha256) == digest;
        let found = hosts.iter().filter(|_| digest.is_some()).find(is_of);
        let how =
            found.map_or_else(String::new, |it| format!("; by its SHA-256 it is that of {}", it.metadata.version));
        evidence.saw(format!("the RECORD of each of {} names the library{how}", names.join(", ")));
        found.or(hosts.last()).copied()
    }

    /// Why the packages that it needs are not there, or do not help.
    fn cause_of_packages(
        &self,
        host: &InstalledDistribution,
        wanted: &WantedPackages,
        archives: &TriedArchives<'_>,
        evidence: &mut Trail,
    ) -> Cause {
        let (name, version) = (&normalise(&host.metadata.name), &host.metadata.version);
        let linked = self.is_linked.then(|| (name.clone(), version.clone()));
        let installer = Installer::of(&host.info, linked);
        let add = || installer.add(wanted, &host.info, name);
        let mut existing = BTreeMap::<String, Vec<&InstalledDistribution>>::new();
        for it in &self.site.distributions {
            existing.entry(normalise(&it.metadata.name)).or_default().push(it);
        }
        let mut several: Vec<_> = existing.get(name).filter(|all| all.len() > 1).map(|_| name).into_iter().collect();
        // A symlink into a cache has its archives elsewhere.
        let (mut source, mut has_archive) = ((&host.info, name), archives.unfit.is_some() || self.is_linked);
        for (device, accepted) in &wanted.packages {
            let Some(found) = existing.get(device) else {
                let extra = wanted.extra.as_ref();
                let extra = extra.map(|it| format!("; the extra {it} of {name} requires it")).unwrap_or_default();
                let kind = if installer.has_installed { CauseKind::PackageMissing } else { CauseKind::NotInstalled };
                return with(kind, format!("the package {device} {accepted} is not installed{extra}"), add());
            };
            let Some(fitting) = found.iter().find(|it| accepts(accepted, &it.metadata.version)) else {
                let found = found.iter().map(|it| it.metadata.version.as_str()).collect::<Vec<_>>().join(", ");
                let reason = format!("the package {device} is installed in version {found}, and {name} in {version}");
                return with(CauseKind::PackageVersion, reason, add());
            };
            evidence.saw(format!("{device} {} is installed", fitting.metadata.version));
            several.extend((found.len() > 1).then_some(device));
            source = (&fitting.info, device);
            // Without a RECORD nothing says what it installed.
            has_archive |= fitting.record().rows().next().is_none() || archives.are_of(fitting, &installer.site);
        }
        let renewed = installer.renew(&wanted.packages, source.0, source.1);
        if let Some(several) = several.first() {
            let reason = format!(
                "{several} has several dist-info directories in {}, as after an upgrade that was interrupted, and its \
                 files are not those of one version",
                installer.site.display()
            );
            return with(CauseKind::SeveralVersions, reason, renewed);
        }
        if !has_archive {
            let names: Vec<_> = wanted.packages.iter().map(|(name, _)| name.as_str()).collect();
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

/// Whether two parts are of one split; `None` unless both state its ID.
pub(super) fn are_of_one(one: Option<&str>, other: Option<&str>) -> Option<bool> {
    Some(one? == other?)
}

/// A library that no package installed. It is probably a copy, which looks for archives relative to its own path.
fn copy(library: &Path, site: &PackageSite, evidence: &mut Trail) -> Option<Cause> {
    let name = library.file_name()?.as_encoded_bytes();
    let mut rows = site.distributions.iter().flat_map(|it| it.record().rows()).map(|(path, _)| path);
    let original = rows.find(|path| path.rsplit(|&byte| byte == b'/').next() == Some(name))?;
    let original = site.path.join(EntryPath::new(original).ok()?.as_path());
    evidence.saw(format!("no package installed the library, but {} is installed", original.display()));
    evidence.follows(NEXT_TO_FILE);
    let maker = if library.components().any(|it| it.as_os_str() == DEVELOPMENT) { "that rocm-sdk made " } else { "" };
    let reason = format!("it is a copy {maker}of {}, and the archives are where that is", original.display());
    let can_link = !library.parent().is_some_and(is_read_only);
    let command = can_link.then(|| format!("ln -sf {} {}", quoted(&original), quoted(library)));
    Some(Cause::new(CauseKind::CopiedLibrary, reason, command))
}
