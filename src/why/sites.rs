//! Directories of packages, and the distributions that are installed in them.

use std::cell::{OnceCell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use super::installer::{Installer, Remedy};
use crate::disk;
use crate::memory::Parser;
use crate::resources::Resources;
use crate::rope::Sha256;
use crate::source::{DirectoryListing, EntryPath, open_file};
use crate::split::Statement;
use crate::wheel::{self, Claims, Metadata, accepts, normalise};

/// Installed files: for all libraries and GPUs, each METADATA and RECORD is read once, and each file is hashed once.
#[derive(Debug)]
pub(crate) struct InstalledFiles {
    resources: Arc<Resources>,
    /// By directories in them; `None` of directories without packages above them.
    sites: RefCell<BTreeMap<PathBuf, Option<Rc<PackageSite>>>>,
    /// By paths; `None` of files that cannot be read.
    digests: RefCell<BTreeMap<PathBuf, Option<[u8; 32]>>>,
}

/// A directory of packages.
#[derive(Debug)]
pub(super) struct PackageSite {
    pub(super) path: PathBuf,
    pub(super) distributions: Vec<InstalledDistribution>,
    has_other_versions: OnceCell<bool>,
}

/// An installed distribution.
#[derive(Debug)]
pub(super) struct InstalledDistribution {
    /// Its `*.dist-info` directory.
    pub(super) info: PathBuf,
    pub(super) metadata: Metadata,
    record: OnceCell<Claims>,
    split_id: OnceCell<Option<String>>,
}

impl InstalledFiles {
    pub(crate) fn new(resources: &Arc<Resources>) -> Self {
        let (sites, digests) = (RefCell::default(), RefCell::default());
        Self { resources: Arc::clone(resources), sites, digests }
    }

    /// The directory of packages that contains a library: the nearest one above it with `*.dist-info` directories.
    pub(super) fn site_of(&self, library: &Path) -> Option<Rc<PackageSite>> {
        let directory = library.parent()?;
        let known = self.sites.borrow().get(directory).cloned();
        known.unwrap_or_else(|| {
            let site = PackageSite::read(directory).map(Rc::new).or_else(|| self.site_of(directory));
            self.sites.borrow_mut().insert(directory.to_owned(), site.clone());
            site
        })
    }

    /// The SHA-256 of a file.
    pub(super) fn digest(&self, file: &Path) -> Option<[u8; 32]> {
        let compute = |path: &PathBuf| Sha256::of_content(&*open_file(path, &self.resources).ok()?).ok();
        *self.digests.borrow_mut().entry(file.to_owned()).or_insert_with_key(compute)
    }
}

impl PackageSite {
    /// `None` of a directory without distributions.
    fn read(directory: &Path) -> Option<Self> {
        let listing = DirectoryListing::read(directory).ok()?;
        let mut infos = listing.dist_infos().map(|entry| directory.join(&entry.name)).peekable();
        infos.peek()?;
        let distributions = infos.filter_map(InstalledDistribution::read).collect();
        Some(Self { path: directory.to_owned(), distributions, has_other_versions: OnceCell::new() })
    }

    /// The path of a file in the directory.
    pub(super) fn below(&self, file: &Path) -> Option<EntryPath> {
        EntryPath::new(file.strip_prefix(&self.path).ok()?.as_os_str().as_encoded_bytes()).ok()
    }

    /// Whether a host package is there whose device packages are there in other versions only.
    pub(super) fn has_other_versions(&self) -> bool {
        let is_other = |(name, wanted): &(String, String)| {
            let all = self.distributions.iter().map(|it| &it.metadata);
            let mut found = all.filter(|it| normalise(&it.name) == *name).peekable();
            found.peek().is_some() && !found.any(|it| accepts(wanted, &it.version))
        };
        let has_others = |host: &InstalledDistribution| host.metadata.devices().values().flatten().any(is_other);
        *self.has_other_versions.get_or_init(|| self.distributions.iter().any(has_others))
    }
}

impl InstalledDistribution {
    fn read(info: PathBuf) -> Option<Self> {
        let name = EntryPath::new(b"METADATA").ok()?;
        let metadata = disk::read(&info.join("METADATA"), Parser::Metadata).ok()?.into_bytes();
        let metadata = Metadata::parse(metadata, &name).ok()?;
        Some(Self { info, metadata, record: OnceCell::new(), split_id: OnceCell::new() })
    }

    /// Its RECORD; empty if it cannot be read.
    pub(super) fn record(&self) -> &Claims {
        let read = || disk::read(&self.info.join("RECORD"), Parser::Record);
        self.record.get_or_init(|| read().map_or_else(|_| Claims::default(), |bytes| Claims::parse(&bytes)))
    }

    /// The ID of the split that it is a part of, if it states one.
    pub(super) fn split_id(&self) -> Option<&str> {
        let read = || disk::read(&self.info.join(wheel::STATEMENT), Parser::Statement).ok();
        self.split_id.get_or_init(|| Statement::parse(&read()?).ok()?.split_id).as_deref()
    }

    pub(super) fn label(&self) -> String {
        format!("{} {}", self.metadata.name, self.metadata.version)
    }

    /// As pip wants it: `amd-torch-device-gfx942==2.10.0`.
    pub(super) fn requirement(&self) -> String {
        format!("{}=={}", self.metadata.name, self.metadata.version)
    }

    pub(super) fn installer(&self) -> Installer {
        Installer::of(&self.info, None)
    }

    /// What installs it again.
    pub(super) fn renew(&self) -> Remedy {
        let name = normalise(&self.metadata.name);
        let packages = BTreeSet::from([(name.clone(), self.metadata.version.clone())]);
        self.installer().renew(&packages, &self.info, &name)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::InstalledFiles;
    use crate::coverage::Trail;
    use crate::resources::Resources;
    use crate::why::installed::TriedArchives;
    use crate::why::libraries::LibraryFile;

    const LIBRARIES: [&str; 3] = ["fat/a.so", "fat/b.so", "fat/lib/c.so"];
    const GPUS: [&str; 3] = ["gfx1030", "gfx90a", "gfx942"];

    /// Installs a package with the device packages of another version. Returns its `*.dist-info` directories.
    fn install(site: &Path) -> Vec<PathBuf> {
        let mut host = "Metadata-Version: 2.1\nName: fat\nVersion: 1.0\n".to_owned();
        let mut packages = Vec::new();
        for gpu in GPUS {
            let requires = format!("Requires-Dist: amd-fat-device-{gpu}==1.0; extra == \"device-{gpu}\"\n");
            host.extend([format!("Provides-Extra: device-{gpu}\n"), requires]);
            let metadata = format!("Metadata-Version: 2.1\nName: amd-fat-device-{gpu}\nVersion: 2.0\n");
            packages.push((format!("amd_fat_device_{gpu}-2.0.dist-info"), metadata, String::new()));
        }
        packages.push(("fat-1.0.dist-info".to_owned(), host, LIBRARIES.map(|path| format!("{path},,\n")).concat()));
        let put = |(info, metadata, record): (String, String, String)| {
            let info = site.join(info);
            fs::create_dir(&info).unwrap();
            fs::write(info.join("METADATA"), metadata).unwrap();
            fs::write(info.join("RECORD"), record).unwrap();
            info
        };
        packages.into_iter().map(put).collect()
    }

    #[test]
    fn packages_are_read_once_for_all_libraries_and_gpus() {
        let site = tempfile::tempdir().unwrap();
        let infos = install(site.path());
        let files = InstalledFiles::new(&Resources::new(0));
        let causes = |path: &str, gpu: &str| {
            let (library, device) = (LibraryFile::at(site.path().join(path)), gpu.parse().unwrap());
            let of_archives = files.cause(&library, &device, &TriedArchives::default(), &mut Trail::default());
            [of_archives, files.version(&library, &device)].map(|cause| cause.unwrap().reason)
        };
        causes(LIBRARIES[0], GPUS[0]);
        for info in &infos {
            fs::remove_dir_all(info).unwrap();
        }
        for (library, gpu) in LIBRARIES.iter().flat_map(|library| GPUS.map(|gpu| (library, gpu))) {
            for reason in causes(library, gpu) {
                let begin = format!("the package amd-fat-device-{gpu} is installed in version 2.0, and fat in 1.0");
                assert!(reason.starts_with(&begin), "{library}: {reason}");
            }
        }
    }

    #[test]
    fn records_are_read_for_other_versions_only() {
        let site = tempfile::tempdir().unwrap();
        let infos = install(site.path());
        for info in infos.iter().filter(|info| !info.ends_with("fat-1.0.dist-info")) {
            let metadata = fs::read_to_string(info.join("METADATA")).unwrap();
            fs::write(info.join("METADATA"), metadata.replace("Version: 2.0", "Version: 1.0")).unwrap();
        }
        let files = InstalledFiles::new(&Resources::new(0));
        let library = LibraryFile::at(site.path().join(LIBRARIES[0]));
        assert_eq!(files.version(&library, &GPUS[0].parse().unwrap()), None);
        let site = files.site_of(&library.path).unwrap();
        let count = || site.distributions.iter().filter(|it| it.record.get().is_some()).count();
        assert_eq!(count(), 0);
        files.cause(&library, &GPUS[0].parse().unwrap(), &TriedArchives::default(), &mut Trail::default()).unwrap();
        assert_eq!(count(), infos.len());
    }
}
