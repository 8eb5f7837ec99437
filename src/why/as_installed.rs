//! Whether an archive for a GPU, and the library that it has no code for, are as packages installed them.

use std::path::{Path, PathBuf};

use super::cause::Cause;
use super::installed::are_of_one;
use super::sites::{InstalledDistribution, InstalledFiles, PackageSite};
use crate::coverage::CauseKind;
use crate::wheel::Claim;

/// What packages show of an archive without the code of a library.
enum ArchiveOrigin {
    /// It is not the one that this package installed, by the SHA-256 in its RECORD.
    Replaced(String),
    /// It and the library are as they were installed, and this package is of the library's split.
    Installed(String),
}

/// A file, and the packages whose RECORDs name it, with what they state.
struct ClaimedFile<'a> {
    path: PathBuf,
    size: u64,
    claims: Vec<(&'a InstalledDistribution, Claim)>,
}

impl InstalledFiles {
    /// Why an archive for the GPU has nothing under the `key` of a library. `command` installs its package again.
    pub(super) fn lacking_key(&self, library: &Path, archive: &Path, key: &str, command: Option<String>) -> Cause {
        let (kind, why, command) = match self.origin(library, archive) {
            Some(ArchiveOrigin::Installed(package)) => {
                let why = format!("it is as {package} installed it, so the library is not built for this GPU");
                (CauseKind::ArchivesNone, why, None)
            }
            Some(ArchiveOrigin::Replaced(package)) => {
                let why = format!("it was replaced: its SHA-256 is not the one in the RECORD of {package}");
                (CauseKind::ArchiveReplaced, why, command)
            }
            None => (CauseKind::ArchiveReplaced, "it is of another build or was replaced".to_owned(), command),
        };
        Cause::new(kind, format!("{} has nothing called {key}; {why}", archive.display()), command)
    }

    /// `None` if packages do not show it. Archives may be large, so sizes and IDs are compared before digests.
    fn origin(&self, library: &Path, archive: &Path) -> Option<ArchiveOrigin> {
        let site = self.site_of(library)?;
        let archive = ClaimedFile::of(archive, &site)?;
        let (first, _) = archive.claims.first()?;
        if archive.of_its_size().next().is_none() {
            return Some(ArchiveOrigin::Replaced(first.label()));
        }
        let library = ClaimedFile::of(library, &site)?;
        let is_of = |host: &InstalledDistribution, package: &InstalledDistribution| {
            are_of_one(host.split_id(), package.split_id()) == Some(true)
        };
        if !library.of_its_size().any(|(host, _)| archive.of_its_size().any(|(package, _)| is_of(host, package))) {
            return None;
        }
        let Some(package) = self.owner(&archive) else { return Some(ArchiveOrigin::Replaced(first.label())) };
        is_of(self.owner(&library)?, package).then(|| ArchiveOrigin::Installed(package.label()))
    }

    /// The package whose RECORD has the digest of a file.
    fn owner<'a>(&self, file: &ClaimedFile<'a>) -> Option<&'a InstalledDistribution> {
        let digest = self.digest(&file.path)?;
        file.of_its_size().find(|(_, claim)| claim.sha256 == digest).map(|(package, _)| *package)
    }
}

impl<'a> ClaimedFile<'a> {
    fn of(file: &Path, site: &'a PackageSite) -> Option<Self> {
        let path = file.canonicalize().ok()?;
        let relative = site.below(&path)?;
        let claims = site.distributions.iter().filter_map(|it| Some((it, it.record().get(&relative)?))).collect();
        Some(Self { size: path.metadata().ok()?.len(), path, claims })
    }

    /// The claims of the size that it has.
    fn of_its_size(&self) -> impl Iterator<Item = &(&'a InstalledDistribution, Claim)> {
        self.claims.iter().filter(|(_, claim)| claim.size == self.size)
    }
}
