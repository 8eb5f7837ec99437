//! Python environments: the directories where their packages are.

use std::fs;
use std::path::{Path, PathBuf};

use super::directory::read_directory;
use crate::memory::Parser;
use crate::source::SourceError;

/// A directory with installed packages.
pub(super) struct Site {
    pub(super) path: PathBuf,
    /// The prefix of its files in findings.
    pub(super) label: String,
    /// Whether a `.pth` file adds it.
    pub(super) is_added: bool,
}

/// What is in the prefix of a virtual environment (docs.python.org/3/library/venv.html), and of one of conda
/// (docs.conda.io, "conda environments").
const MARKS: [&str; 2] = ["pyvenv.cfg", "conda-meta"];

/// Whether a directory is the prefix of an environment, whose packages are checked.
pub(super) fn is_environment(path: &Path) -> bool {
    MARKS.iter().any(|mark| path.join(mark).exists())
}

/// Whether Python packages are installed below a directory: an environment, or what `pip --prefix` fills. Such a directory
/// may contain others that have the names of views.
pub(super) fn is_prefix(path: &Path) -> Result<bool, SourceError> {
    let lib = path.join("lib");
    let is_site = |python: &PathBuf| {
        let name = python.file_name().unwrap_or_default();
        name.as_encoded_bytes().starts_with(b"python3") && python.join("site-packages").is_dir()
    };
    Ok(is_environment(path) || lib.is_dir() && read_directory(&lib)?.iter().any(is_site))
}

/// The directories of packages that are checked in place of `path`: those of an environment, and those that `.pth` files
/// in them add, if packages are installed there (docs.python.org/3/library/site.html). Empty if that is `path` alone.
pub(super) fn sites_of(path: &Path) -> Result<Vec<Site>, SourceError> {
    let mut own = Vec::new();
    if is_environment(path) {
        for directory in ["lib", "lib64"].map(|name| path.join(name)).iter().filter(|it| it.is_dir()) {
            own.extend(read_directory(directory)?.into_iter().map(|python| python.join("site-packages")));
        }
        own.push(path.join("Lib").join("site-packages"));
    } else if path.is_dir() {
        own.push(path.to_owned());
    }
    let mut sites = Vec::<Site>::new();
    let mut known = Vec::new();
    for (site, is_own) in own.iter().map(|site| (site, true)).chain(&mut added(&own)?.iter().map(|site| (site, false)))
    {
        // `lib64` is a symlink to `lib`, or the file system does not distinguish `Lib` from `lib`.
        let Ok(real) = site.canonicalize() else { continue };
        if real.is_dir() && !known.contains(&real) {
            let shown = if is_own { site.strip_prefix(path).unwrap_or(site) } else { site };
            sites.push(Site { path: site.clone(), label: shown.display().to_string(), is_added: !is_own });
            known.push(real);
        }
    }
    // Of a further version of Python, a site may be left that has nothing in it.
    if sites.iter().any(|site| !is_empty(&site.path)) {
        sites.retain(|site| !is_empty(&site.path));
    }
    let is_itself = matches!(sites.as_slice(), [site] if site.path == path);
    Ok(if is_itself { Vec::new() } else { sites })
}

/// The directories with packages that `.pth` files add. Lines that Python runs (`import …`) and comments name none.
fn added(sites: &[PathBuf]) -> Result<Vec<PathBuf>, SourceError> {
    let mut added = Vec::new();
    for site in sites.iter().filter(|site| site.is_dir()) {
        for file in read_directory(site)?.into_iter().filter(|file| file.extension().is_some_and(|it| it == "pth")) {
            // Python ignores a file that it cannot read.
            let Ok(text) = crate::disk::read(&file, Parser::Text) else { continue };
            let text = String::from_utf8_lossy(&text).into_owned();
            let names_none = |line: &str| {
                line.is_empty() || ["#", "import ", "import\t"].iter().any(|start| line.starts_with(start))
            };
            let named = text.lines().map(str::trim_end).filter(|line| !names_none(line)).map(|line| site.join(line));
            added.extend(named.filter(|place| has_packages(place)));
        }
    }
    Ok(added)
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

/// Whether packages are installed in a directory. That of an editable installation is a source tree.
pub(super) fn has_packages(directory: &Path) -> bool {
    let Ok(entries) = fs::read_dir(directory) else { return false };
    entries.flatten().any(|entry| entry.file_name().as_encoded_bytes().ends_with(b".dist-info"))
}
