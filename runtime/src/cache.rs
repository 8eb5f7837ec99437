//! Finds the code object of a wrapper.

use std::collections::HashMap;
use std::env;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::archive::Archive;
use crate::error::Error;
use crate::file::ArchiveFile;
use crate::format::toc_key;
use crate::log;
use crate::marker::Marker;
use crate::object::Object;
use crate::search;
use crate::toc::TocEntry;

/// What the environment variables say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment {
    /// `ROCM_KPACK_PATH`: archives that are searched instead of those of markers.
    pub path: Vec<PathBuf>,
    /// `ROCM_KPACK_PATH_PREFIX`: archives that are searched before those of markers.
    pub path_prefix: Vec<PathBuf>,
    /// `ROCM_KPACK_DISABLE`: nothing is loaded.
    pub is_disabled: bool,
    /// `ROCM_KPACK_DEBUG`: every step of a search is printed to stderr.
    pub is_verbose: bool,
}

impl Environment {
    /// Reads the variables of this process.
    pub fn read() -> Self {
        Self::of(|name| env::var_os(name))
    }

    /// Takes the variables from elsewhere, such as another process.
    pub fn of(value: impl Fn(&str) -> Option<OsString>) -> Self {
        // A variable that is empty or begins with 0 counts as not set.
        let is_on = |name| value(name).is_some_and(|text| text.as_bytes().first().is_some_and(|&first| first != b'0'));
        let paths = |name| {
            let text = value(name).unwrap_or_default().into_vec();
            let parts = text.split(|&byte| byte == b':').filter(|part| !part.is_empty());
            parts.map(|part| PathBuf::from(OsString::from_vec(part.to_vec()))).collect()
        };
        Self {
            path: paths("ROCM_KPACK_PATH"),
            path_prefix: paths("ROCM_KPACK_PATH_PREFIX"),
            is_disabled: is_on("ROCM_KPACK_DISABLE"),
            is_verbose: is_on("ROCM_KPACK_DEBUG"),
        }
    }

    /// The archives to search for a marker of `binary` with these search paths, in order.
    pub fn archive_paths(&self, search_paths: &[String], binary: &Path, candidates: &[String]) -> Vec<PathBuf> {
        if !self.path.is_empty() {
            return self.path.clone();
        }
        let directory = binary.parent().unwrap_or(Path::new(""));
        let named = search::archive_paths(search_paths, candidates);
        // An absolute path replaces the directory.
        self.path_prefix.iter().cloned().chain(named.into_iter().map(|path| directory.join(path))).collect()
    }
}

/// Open archives by path, and the environment. Any number of threads can load at once. They share only the list of
/// archives, and lock it only to look one up.
#[derive(Debug)]
pub struct Cache {
    environment: Environment,
    slots: Mutex<HashMap<PathBuf, Arc<Slot>>>,
}

/// A place for an archive. One thread opens it while others wait. If it cannot be opened, the next load tries again,
/// since it may be installed later.
#[derive(Debug, Default)]
struct Slot {
    archive: OnceLock<Arc<Archive<ArchiveFile>>>,
    opening: Mutex<()>,
}

/// A code object that was found.
pub(crate) struct FoundObject {
    archive: Arc<Archive<ArchiveFile>>,
    entry: TocEntry,
}

impl FoundObject {
    pub(crate) fn object(&self) -> Result<Object<'_, ArchiveFile>, Error> {
        self.archive.object(&self.entry)
    }
}

impl Cache {
    /// An empty cache.
    pub fn new(environment: Environment) -> Self {
        Self { environment, slots: Mutex::default() }
    }

    /// The code object of a wrapper. `marker` is what the wrapper points at, `index` its number, `binary` the path of
    /// the file that contains it. `targets` are the targets that the device supports, in order of priority.
    ///
    /// ```no_run
    /// use std::path::Path;
    ///
    /// use rocm_kpack::{Cache, Environment, Marker};
    ///
    /// let cache = Cache::new(Environment::read());
    /// let marker = Marker {
    ///     kernel_name: "lib/libx.so".to_owned(),
    ///     kpack_search_paths: vec!["../.kpack/x_@GFXARCH@.kpack".to_owned()],
    /// };
    /// let code = cache.load(&marker, Path::new("/opt/rocm/lib/libx.so"), 0, &["gfx942:sramecc+:xnack-"])?;
    /// # Ok::<(), rocm_kpack::Error>(())
    /// ```
    pub fn load(&self, marker: &Marker, binary: &Path, index: u32, targets: &[&str]) -> Result<Vec<u8>, Error> {
        self.load_with(marker, binary, index, targets, |found| found.archive.read(&found.entry))
    }

    /// Fails if `ROCM_KPACK_DISABLE` forbids loading.
    pub(crate) fn check_enabled(&self) -> Result<(), Error> {
        if self.environment.is_disabled { Err(Error::Disabled) } else { Ok(()) }
    }

    /// Tries each archive that offers one of the targets, until `take` gets the code object out of one.
    pub(crate) fn load_with<T>(
        &self,
        marker: &Marker,
        binary: &Path,
        index: u32,
        targets: &[&str],
        mut take: impl FnMut(&FoundObject) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.check_enabled()?;
        if marker.kpack_search_paths.is_empty() {
            return Err(Error::Metadata("it names no search path".to_owned()));
        }
        let key = toc_key(&marker.kernel_name, usize::try_from(index).unwrap_or(usize::MAX));
        let candidates = search::all_candidates(targets.iter().copied());
        let paths = self.paths(marker, binary, &candidates);
        self.say(|| format!("{key} for {candidates:?}"));
        let archives: Vec<_> = paths.iter().filter_map(|path| self.archive(path)).collect();
        if archives.is_empty() {
            return Err(Error::NoArchive(paths.len()));
        }
        let archives: Vec<&Arc<_>> = archives.iter().collect();
        let mut last = Error::NoTarget;
        for (archive, target) in search::steps(&candidates, &archives, |archive, target| archive.offers(target)) {
            let taken = match archive.find(&key, target) {
                Ok(Some(entry)) => take(&FoundObject { archive: Arc::clone(archive), entry }),
                Ok(None) => Err(Error::NoKernel(format!("{key} for {target}"))),
                Err(error) => Err(error),
            };
            match taken {
                Ok(taken) => {
                    self.say(|| format!("{key}: found for {target}"));
                    return Ok(taken);
                }
                Err(error) => {
                    self.say(|| format!("{key} for {target}: {error}; looking further"));
                    last = error;
                }
            }
        }
        Err(last)
    }

    /// The archives to search, in order.
    fn paths(&self, marker: &Marker, binary: &Path, candidates: &[String]) -> Vec<PathBuf> {
        self.environment.archive_paths(&marker.kpack_search_paths, binary, candidates)
    }

    /// The archive at a path; `None` if it is missing or cannot be used.
    fn archive(&self, path: &Path) -> Option<Arc<Archive<ArchiveFile>>> {
        let slot =
            Arc::clone(self.slots.lock().unwrap_or_else(PoisonError::into_inner).entry(path.to_owned()).or_default());
        if let Some(archive) = slot.archive.get() {
            return Some(Arc::clone(archive));
        }
        let _opening = slot.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(archive) = slot.archive.get() {
            return Some(Arc::clone(archive));
        }
        match ArchiveFile::open(path).and_then(Archive::open) {
            Ok(archive) => {
                self.say(|| format!("{}: open, for {:?}", path.display(), archive.targets()));
                Some(Arc::clone(slot.archive.get_or_init(|| Arc::new(archive))))
            }
            Err(error) => {
                self.say(|| format!("{}: {error}", path.display()));
                None
            }
        }
    }

    fn say(&self, message: impl FnOnce() -> String) {
        if self.environment.is_verbose {
            log::line(message());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_read() {
        let read = |variables: &[(&str, &str)]| {
            let of = |name: &str| variables.iter().find(|(of, _)| *of == name).map(|(_, value)| OsString::from(*value));
            Environment::of(of)
        };
        assert_eq!(read(&[]), Environment::default());
        let paths = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
        for (text, expected) in
            [("", &[][..]), (":", &[]), ("/a", &["/a"]), (":/a::/b c:", &["/a", "/b c"]), ("a;b", &["a;b"])]
        {
            assert_eq!(read(&[("ROCM_KPACK_PATH", text)]).path, paths(expected), "{text}");
            assert_eq!(read(&[("ROCM_KPACK_PATH_PREFIX", text)]).path_prefix, paths(expected), "{text}");
        }
        for (text, is_on) in [("", false), ("0", false), ("0x", false), ("1", true), ("no", true)] {
            assert_eq!(read(&[("ROCM_KPACK_DISABLE", text)]).is_disabled, is_on, "{text}");
            assert_eq!(read(&[("ROCM_KPACK_DEBUG", text)]).is_verbose, is_on, "{text}");
        }
    }
}
