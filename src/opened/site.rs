//! Python environments: the directories where their packages are.

use std::path::{Path, PathBuf};

use crate::disk;
use crate::memory::Parser;
use crate::source::{DirectoryListing, ListedKind, SourceError};

/// A directory with installed packages.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its path.
    pub path: PathBuf,
    /// Its path in the environment, for messages.
    pub label: String,
    /// Whether a `.pth` file adds it.
    pub is_added: bool,
}

/// What is in the prefix of a virtual environment (docs.python.org/3/library/venv.html), and of one of conda
/// (docs.conda.io, "conda environments").
const MARKS: [(&str, ListedKind); 2] = [("pyvenv.cfg", ListedKind::File), ("conda-meta", ListedKind::Directory)];

/// Whether a directory is the prefix of an environment.
pub(crate) fn is_environment(listing: &DirectoryListing) -> bool {
    MARKS.iter().any(|(name, kind)| listing.has(name, *kind))
}

/// Whether a directory in an environment is another one, or conda's cache of packages, `pkgs` in its first environment
/// (its manual, `pkgs_dirs`).
pub(crate) fn is_apart(directory: &Path) -> bool {
    let is_cache = directory.ends_with("pkgs") && directory.with_file_name("conda-meta").is_dir();
    is_cache || DirectoryListing::read(directory).is_ok_and(|listing| is_environment(&listing))
}

/// Whether Python packages are installed below a directory: an environment, or what `pip --prefix` fills. Such a directory
/// may contain others that have the names of views.
pub(super) fn is_prefix(listing: &DirectoryListing) -> Result<bool, SourceError> {
    let has_site = |lib: &DirectoryListing| {
        let pythons = lib.directories().filter(|python| python.name.as_encoded_bytes().starts_with(b"python3"));
        pythons.into_iter().any(|python| lib.path.join(&python.name).join("site-packages").is_dir())
    };
    let has_lib = listing.has("lib", ListedKind::Directory);
    Ok(is_environment(listing) || has_lib && has_site(&DirectoryListing::read(&listing.path.join("lib"))?))
}

/// The directories of packages in place of a directory: those of an environment, and those that `.pth` files in them add, if
/// packages are installed there (docs.python.org/3/library/site.html). Empty if that is the directory alone.
pub(super) fn sites_of(listing: &DirectoryListing) -> Result<Vec<Site>, SourceError> {
    let path = &listing.path;
    let own = if is_environment(listing) { own_sites(listing)? } else { vec![path.clone()] };
    let mut sites = Vec::<Site>::new();
    let mut known = Vec::new();
    for (site, is_own) in own.iter().map(|site| (site, true)).chain(&mut added(&own)?.iter().map(|site| (site, false)))
    {
        // `lib64` is a symlink to `lib`, or the file system does not distinguish `Lib` from `lib`.
        let Ok(real) = disk::check_answers(site).and_then(|()| site.canonicalize()) else { continue };
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
    let is_itself = matches!(sites.as_slice(), [site] if site.path == *path);
    Ok(if is_itself { Vec::new() } else { sites })
}

/// The directories of packages of an environment that are not in its prefix.
pub fn outside(prefix: &Path, sites: &[Site]) -> Vec<PathBuf> {
    let root = prefix.canonicalize().unwrap_or_else(|_| prefix.to_owned());
    let is_inside = |site: &Site| site.path.canonicalize().is_ok_and(|real| real.starts_with(&root));
    sites.iter().filter(|site| !is_inside(site)).map(|site| site.path.clone()).collect()
}

/// The directories of packages of an environment, whether they exist or not.
fn own_sites(listing: &DirectoryListing) -> Result<Vec<PathBuf>, SourceError> {
    let mut own = Vec::new();
    for name in ["lib", "lib64"].iter().filter(|name| listing.has(name, ListedKind::Directory)) {
        let lib = DirectoryListing::read(&listing.path.join(name))?;
        own.extend(lib.entries.iter().map(|python| lib.path.join(&python.name).join("site-packages")));
    }
    own.push(listing.path.join("Lib").join("site-packages"));
    Ok(own)
}

/// The directories with packages that `.pth` files add. Lines that Python runs (`import …`) and comments name none.
fn added(sites: &[PathBuf]) -> Result<Vec<PathBuf>, SourceError> {
    let mut added = Vec::new();
    for site in sites.iter().filter(|site| !disk::leads_to_stopped(site) && site.is_dir()) {
        for file in DirectoryListing::read(site)?.files("pth") {
            // Python ignores a file that it cannot read.
            let Ok(text) = disk::read(&file, Parser::Text) else { continue };
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
    std::fs::read_dir(directory).is_ok_and(|mut entries| entries.next().is_none())
}

/// Whether packages are installed in a directory. That of an editable installation is a source tree.
fn has_packages(directory: &Path) -> bool {
    DirectoryListing::read(directory).is_ok_and(|listing| listing.dist_infos().next().is_some())
}
