//! Whether an archive for a GPU, and the library that it has no code for, are as packages installed them.

use std::path::{Path, PathBuf};

use super::cause::Cause;
use super::installed::are_of_one;
use super::sites::{InstalledDistribution, InstalledFiles, PackageSite};
use crate::coverage::CauseKind;
use crate::wheel::Claim;

/// A file, and the packages whose RECORDs name it, with what they state.
struct ClaimedFile<'a> {
    path: PathBuf,
    size: u64,
    claims: Vec<(&'a InstalledDistribution, Claim)>,
}

impl InstalledFiles {
    /// Why an archive for the GPU has nothing under the `key` of a library. `command` installs its package again.
    pub(super) fn lacking_key(&self, library: &Path, archive: &Path, key: &str, command: Option<String>) -> Cause {
        let unknown = || (CauseKind::ArchiveReplaced, "it is of another build or was replaced".to_owned());
        let (kind, why) = self.origin(library, archive).unwrap_or_else(unknown);
        let command = command.filter(|_| kind == CauseKind::ArchiveReplaced);
        Cause::new(kind, format!("{} has nothing called {key}; {why}", archive.display()), command)
    }

    /// `None` if packages do not show it. Archives may be large, so sizes and IDs are compared before digests.
    fn origin(&self, library: &Path, archive: &Path) -> Option<(CauseKind, String)> {
        let site = self.site_of(library)?;
        let archive = ClaimedFile::of(archive, &site)?;
        let (first, _) = archive.claims.first()?;
        let replaced = || {
            let why = format!("it was replaced: its SHA-256 is not the one in the RECORD of {}", first.label());
            Some((CauseKind::ArchiveReplaced, why))
        };
        if archive.of_its_size().next().is_none() {
            return replaced();
        }
        let library = ClaimedFile::of(library, &site)?;
        let is_of = |host: &InstalledDistribution, package: &InstalledDistribution| {
            are_of_one(host.split_id(), package.split_id()) == Some(true)
        };
        if !library.of_its_size().any(|(host, _)| archive.of_its_size().any(|(package, _)| is_of(host, package))) {
            return None;
        }
        let Some(package) = self.owner(&archive) else { return replaced() };
        is_of(self.owner(&library)?, package).then(|| {
            let label = package.label();
            (
                CauseKind::ArchivesNone,
                format!("it is as {label} installed it, so the library is not built for this GPU"),
            )
        })
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
