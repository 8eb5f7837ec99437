//! The directories that `split` writes and a mount shows.

use std::path::{Path, PathBuf};

use super::error::OpenedError;
use super::mounted;
use super::site::{Site, is_environment, is_prefix, sites_of};
use super::statement::LocatedStatement;
use super::wheels::WheelDirectory;
use crate::gpu::{BundleKey, GpuSet};
use crate::source::{DirectoryListing, ListedKind, SourceError};
use crate::split::{HOST, MERGED, RESERVED, SIMPLE, THIN, THIN_WHEELS, WHEELS};
use crate::view::REPORTS;

/// The directories that `split` writes and a mount shows.
#[derive(Debug)]
pub struct SplitDirectory {
    /// Its path.
    pub path: PathBuf,
    /// Whether it has a host part.
    pub has_host: bool,
    /// Names of device parts.
    pub devices: Vec<String>,
    /// Names of merged views, below `merged/`.
    pub merged: Vec<String>,
    /// Names of thin views, below `thin/`.
    pub thin: Vec<String>,
    /// Wheels in `wheels/`, and next to the views.
    pub wheels: Vec<PathBuf>,
    /// Thin wheels, each in a directory for its GPUs.
    pub thin_wheels: Vec<PathBuf>,
    /// The statement of the split.
    pub statement: Option<LocatedStatement>,
    /// Whether it is a mount, whose views show the same files several times.
    pub is_mount: bool,
    /// The splits in a mount of several wheels, with their paths below it.
    pub splits: Vec<(String, Self)>,
    /// The directories of packages, if it is an environment as well.
    pub sites: Vec<Site>,
    /// Names of directories that are none of these: an index and, next to nothing but whole trees and wheels, any other.
    pub others: Vec<String>,
}

impl SplitDirectory {
    /// Recognises views by the names in a directory. `None` if there is no view among them. In an environment, only a
    /// statement proves that these directories are views.
    pub(super) fn of(listing: &DirectoryListing) -> Result<Option<Self>, OpenedError> {
        let Some(split) = Self::among(listing)? else { return Ok(None) };
        if is_prefix(listing)? && split.statement.is_none() {
            return Ok(None);
        }
        let sites = if is_environment(listing) { sites_of(listing)? } else { Vec::new() };
        Ok(Some(Self { sites, ..split }))
    }

    fn among(listing: &DirectoryListing) -> Result<Option<Self>, OpenedError> {
        let names = listing.own_directories();
        let has = |name: &str| names.iter().any(|it| it == name);
        let below = |name: &str| {
            let place = has(name).then(|| DirectoryListing::read(&listing.path.join(name)));
            place.transpose().map(Option::unwrap_or_default)
        };
        let statement = LocatedStatement::of_split(&listing.path)?;
        // Most directories have neither.
        let is_any = |name: &String| RESERVED.contains(&name.as_str()) || is_set(name) || is_key(name);
        if statement.is_none() && !names.iter().any(is_any) {
            return Ok(None);
        }
        let (has_host, is_mount) = (has(HOST), mounted::is_mount(&listing.path));
        let (merged, of_wheels) = (below(MERGED)?.own_directories(), below(WHEELS)?);
        let thin: Vec<_> = below(THIN)?.own_directories().into_iter().filter(|name| is_set(name)).collect();
        let thin_wheels = if is_mount { Vec::new() } else { thin_wheels_in(listing)? };
        let devices = devices(&names, statement.as_ref(), (has_host, &listing.path), &thin_wheels)?;
        let is_installation = names.iter().any(|name| name.ends_with(".dist-info"));
        let has_wheels = WheelDirectory::of(&of_wheels).is_some();
        // A package of an installation may have the name of a view.
        let is_view = (has_host || has_wheels || !thin.is_empty() || !thin_wheels.is_empty() || !devices.is_empty())
            || !merged.is_empty() && merged.iter().all(|name| is_key(name));
        if is_installation || !is_view && statement.is_none() {
            return Ok(None);
        }
        // Another run of `split` may have written wheels next to the views.
        let wheels = of_wheels.files("whl").chain(listing.files("whl")).collect();
        let splits = if is_mount && !has_host { mounted::splits_in(&listing.path)? } else { Vec::new() };
        let splits = splits.into_iter().map(|(name, place)| {
            Ok::<_, OpenedError>(Self::among(&DirectoryListing::read(&place)?)?.map(|split| (name, split)))
        });
        let splits = splits.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        let is_alone = !has_host && devices.is_empty() && statement.is_none();
        let is_other = |name: &String| !RESERVED.contains(&name.as_str()) && !is_around(&thin_wheels, listing, name);
        let mut others = listing.directory_names();
        others.retain(|name| name == SIMPLE || is_alone && is_other(name));
        let (path, sites) = (listing.path.clone(), Vec::new());
        Ok(Some(Self {
            path,
            has_host,
            devices,
            merged,
            thin,
            wheels,
            thin_wheels,
            statement,
            is_mount,
            splits,
            sites,
            others,
        }))
    }

    /// The views that show a whole tree, by their paths below the directory.
    pub fn wholes(&self) -> impl Iterator<Item = String> {
        let merged = self.merged.iter().map(|name| format!("{MERGED}/{name}"));
        merged.chain(self.thin.iter().map(|name| format!("{THIN}/{name}")))
    }

    /// The paths of the host part and the device parts.
    pub fn parts(&self) -> impl Iterator<Item = PathBuf> {
        let host = self.has_host.then_some(HOST);
        host.into_iter().chain(self.devices.iter().map(String::as_str)).map(|name| self.path.join(name))
    }

    /// Its wheels, and the thin ones.
    pub fn all_wheels(&self) -> Vec<PathBuf> {
        self.wheels.iter().chain(&self.thin_wheels).cloned().collect()
    }

    /// Whether all that it has are wheels: those that `split --format thin-wheel` writes, or `wheels/` of a copied mount.
    pub fn has_wheels_only(&self) -> bool {
        !self.has_host && self.devices.is_empty() && self.wholes().next().is_none() && self.splits.is_empty()
    }
}

/// The names of device parts: those that the statement names, or else those that are named after device code.
fn devices(
    names: &[String],
    statement: Option<&LocatedStatement>,
    (has_host, path): (bool, &Path),
    thin_wheels: &[PathBuf],
) -> Result<Vec<String>, OpenedError> {
    let parts = statement.map(LocatedStatement::parts).transpose()?;
    let is_named = |name: &String| match &parts {
        // Other directories may be there if the split has a statement.
        Some(parts) => parts.iter().any(|part| part.as_bytes() == name.as_bytes()),
        None => has_host,
    };
    let is_reserved = |name: &String| name == REPORTS || RESERVED.contains(&name.as_str());
    // `split --format thin-wheel` writes directories with the names of device parts.
    let has_thin_wheel = |name: &String| thin_wheels.iter().any(|wheel| wheel.parent() == Some(&path.join(name)));
    let is_device = |name: &&String| !is_reserved(name) && (is_key(name) || is_named(name)) && !has_thin_wheel(name);
    Ok(names.iter().filter(is_device).cloned().collect())
}

fn is_around(wheels: &[PathBuf], listing: &DirectoryListing, name: &str) -> bool {
    wheels.iter().any(|wheel| wheel.starts_with(listing.path.join(name)))
}

fn is_key(name: &str) -> bool {
    name.parse().is_ok_and(|key: BundleKey| key.is_known())
}

fn is_set(name: &str) -> bool {
    // A processor may have any name, so that names of projects of an index can be read as sets.
    name.starts_with("gfx") && name.parse::<GpuSet>().is_ok()
}

/// The wheels in directories for their GPUs, as `split --format thin-wheel` writes them and as a copy of a mount has them.
fn thin_wheels_in(listing: &DirectoryListing) -> Result<Vec<PathBuf>, SourceError> {
    let below = listing.has(THIN_WHEELS, ListedKind::Directory);
    let below = below.then(|| DirectoryListing::read(&listing.path.join(THIN_WHEELS))).transpose()?;
    let mut wheels = Vec::new();
    for place in std::iter::once(listing).chain(&below) {
        for name in place.own_directories().iter().filter(|name| is_set(name)) {
            let of_gpus = WheelDirectory::of(&DirectoryListing::read(&place.path.join(name))?);
            wheels.extend(of_gpus.unwrap_or_default().wheels);
        }
    }
    Ok(wheels)
}
