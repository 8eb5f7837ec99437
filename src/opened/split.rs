//! The directories that `split` writes and a mount shows.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::mounted::{is_mount, splits_in};
use super::site::{Site, is_environment, is_prefix, sites_of};
use super::statement::LocatedStatement;
use super::wheels::WheelDirectory;
use crate::gpu::{BundleKey, GpuSet, TargetId, UNKNOWN, begins_device_part};
use crate::source::{DirectoryListing, ListedEntry, ListedKind, SourceError};
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
    /// Whether it is a split for certain: by its statement, or since it has nothing but views. Source trees have directories
    /// with such names.
    pub is_proved: bool,
    /// Whether it is a mount, whose views show the same files several times.
    pub is_mount: bool,
    /// The splits in a mount of several wheels, with their paths below it.
    pub splits: Vec<(String, Self)>,
    /// The directories of packages, if it is an environment as well.
    pub sites: Vec<Site>,
    /// Names of directories that are none of these, such as an index. Those of an environment are its own.
    pub others: Vec<String>,
}

impl SplitDirectory {
    /// Whether a directory has the name of a part or of views. Only then what it is in is looked at, which nobody named.
    pub fn may_have(part: &Path) -> bool {
        let name = part.file_name().unwrap_or_default();
        RESERVED.iter().any(|reserved| name == *reserved) || begins_device_part(name.as_encoded_bytes())
    }

    /// Recognises views by the names in a directory. `None` if there is no view among them. In an environment, only a
    /// statement proves that these directories are views. A view has the directories of its input, whatever their names are.
    pub(super) fn of(listing: &DirectoryListing) -> anyhow::Result<Option<Self>> {
        let Some(split) = Self::among(listing)? else { return Ok(None) };
        let is_other =
            || Ok::<_, anyhow::Error>(is_prefix(listing)? || LocatedStatement::of_part(&listing.path)?.is_some());
        if split.statement.is_none() && is_other()? {
            return Ok(None);
        }
        if !is_environment(listing) {
            return Ok(Some(split));
        }
        Ok(Some(Self { sites: sites_of(listing)?, others: Vec::new(), ..split }))
    }

    fn among(listing: &DirectoryListing) -> anyhow::Result<Option<Self>> {
        let names = listing.own_directories();
        let has = |name: &str| names.iter().any(|it| it == name);
        let below = |name: &str| {
            let place = has(name).then(|| DirectoryListing::read(&listing.path.join(name)));
            place.transpose().map(Option::unwrap_or_default)
        };
        let statement = LocatedStatement::of_split(&listing.path)?;
        // Most directories have neither.
        let is_any = |name: &String| RESERVED.contains(&name.as_str()) || is_set(name) || BundleKey::is_name(name);
        if statement.is_none() && !names.iter().any(is_any) {
            return Ok(None);
        }
        let (has_host, is_mount) = (has(HOST), is_mount(&listing.path));
        let is_proved = statement.is_some() || is_mount || listing.entries.iter().all(may_be_in_split);
        let (merged, of_wheels) = (below(MERGED)?.own_directories(), below(WHEELS)?);
        let thin: Vec<_> = below(THIN)?.own_directories().into_iter().filter(|name| is_set(name)).collect();
        let thin_wheels = if is_mount { Vec::new() } else { thin_wheels_in(listing)? };
        let devices = devices(&names, statement.as_ref(), has_host, &listing.path, &thin_wheels)?;
        let is_installation = names.iter().any(|name| name.ends_with(".dist-info"));
        let has_wheels = WheelDirectory::of(&of_wheels).is_some();
        // A package of an installation may have the name of a view.
        let is_view = (has_host || has_wheels || !thin.is_empty() || !thin_wheels.is_empty() || !devices.is_empty())
            || !merged.is_empty() && merged.iter().all(|name| BundleKey::is_name(name));
        if is_installation || !is_view && statement.is_none() {
            return Ok(None);
        }
        // Another run of `split` may have written wheels next to the views.
        let wheels = of_wheels.files("whl").chain(listing.files("whl")).collect();
        let splits = if is_mount && !has_host { splits_in(&listing.path)? } else { Vec::new() };
        let splits = splits
            .into_iter()
            .map(|(name, place)| anyhow::Ok(Self::among(&DirectoryListing::read(&place)?)?.map(|split| (name, split))));
        let splits = splits.filter_map(Result::transpose).collect::<Result<_, _>>()?;
        let is_part = |name: &String| RESERVED.contains(&name.as_str()) || devices.contains(name);
        let mut others = listing.directory_names();
        others.retain(|name| name == SIMPLE || !is_part(name) && !is_around(&thin_wheels, &listing.path, name));
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
            is_proved,
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

    /// The device parts with code for a GPU: that of its processor, and those of its families.
    pub fn parts_for(&self, gpu: &TargetId) -> Vec<PathBuf> {
        let own = BundleKey::of_processor(gpu);
        let above = BundleKey::of(gpu).packaging_chain().into_iter().filter(|key| *key != own);
        let keys: Vec<_> = std::iter::once(own.clone()).chain(above).collect();
        let is_there = |key: &&BundleKey| self.devices.iter().any(|name| name == key.as_str());
        keys.iter().filter(is_there).map(|key| self.path.join(key.as_str())).collect()
    }

    /// The view that shows the whole tree for a GPU.
    pub fn view_for(&self, gpu: &TargetId) -> Option<PathBuf> {
        self.views_for(gpu).into_iter().next()
    }

    /// The merged view and the thin view for a GPU, as far as they are there.
    pub fn views_for(&self, gpu: &TargetId) -> Vec<PathBuf> {
        let chain = BundleKey::of(gpu).packaging_chain();
        let merged = chain.iter().find(|key| self.merged.iter().any(|name| name == key.as_str()));
        let merged = merged.map(|key| format!("{MERGED}/{key}"));
        let thin = sets_for(&self.thin, gpu).into_iter().next().map(|name| format!("{THIN}/{name}"));
        merged.into_iter().chain(thin).map(|name| self.path.join(name)).collect()
    }

    /// The thin wheels for a GPU.
    pub fn thin_wheels_for(&self, gpu: &TargetId) -> Vec<PathBuf> {
        let names: Vec<_> = self.thin_wheels.iter().map(|wheel| self.set_of(wheel)).collect();
        let sets = sets_for(&names, gpu);
        self.thin_wheels.iter().filter(|wheel| sets.contains(&&self.set_of(wheel))).cloned().collect()
    }

    /// The name of the set of GPUs that a thin wheel is for.
    fn set_of(&self, wheel: &Path) -> String {
        let below = wheel.strip_prefix(&self.path).unwrap_or(wheel);
        below.iter().map(|name| name.to_string_lossy().into_owned()).find(|name| is_set(name)).unwrap_or_default()
    }

    /// The names of the GPUs and families for which it has a part, a view or a thin wheel.
    pub fn gpus(&self) -> BTreeSet<String> {
        let views = self.devices.iter().chain(&self.merged).chain(&self.thin).cloned();
        views.chain(self.thin_wheels.iter().map(|wheel| self.set_of(wheel))).collect()
    }

    /// Its wheels, and the thin ones.
    pub fn all_wheels(&self) -> Vec<PathBuf> {
        self.wheels.iter().chain(&self.thin_wheels).cloned().collect()
    }

    /// Whether it has a statement alone: what it names is elsewhere.
    pub fn has_nothing(&self) -> bool {
        self.has_wheels_only() && self.all_wheels().is_empty()
    }

    /// Whether it is read as a tree, with all that is in it: without a host part, device parts are directories with names of
    /// GPUs.
    pub fn is_tree(&self) -> bool {
        !self.has_host && (!self.devices.is_empty() || self.has_nothing())
    }

    /// Whether it is `thin/` or `merged/` of a split, so that what looks like device parts are whole trees.
    pub fn is_in_views(&self) -> bool {
        let is_named = self.path.ends_with(THIN) || self.path.ends_with(MERGED);
        is_named && self.path.parent().is_some_and(|above| matches!(LocatedStatement::of_split(above), Ok(Some(_))))
    }

    /// Whether all that it has are wheels: those that `split --format thin-wheel` writes, or `wheels/` of a copied mount.
    pub fn has_wheels_only(&self) -> bool {
        !self.has_host && self.devices.is_empty() && self.wholes().next().is_none() && self.splits.is_empty()
    }
}

/// The names of the sets that have a GPU in a mode in which it can be, or else in another mode.
fn sets_for<'a>(names: &'a [String], gpu: &TargetId) -> Vec<&'a String> {
    let having = |is_it: &dyn Fn(&TargetId) -> bool| -> Vec<_> {
        let has = |name: &&String| name.parse::<GpuSet>().is_ok_and(|set| set.targets().iter().any(is_it));
        names.iter().filter(has).collect()
    };
    let is_same = |target: &TargetId| target.processor() == gpu.processor();
    let fitting = having(&|target| is_same(target) && !target.contradicts(gpu));
    if fitting.is_empty() { having(&is_same) } else { fitting }
}

/// Whether an entry may be in the directory of a split: a view, a wheel, or something hidden.
fn may_be_in_split(entry: &ListedEntry) -> bool {
    let name = entry.name.to_string_lossy();
    let is_view = || RESERVED.contains(&&*name) || name == UNKNOWN || is_set(&name) || BundleKey::is_name(&name);
    let is_known = match entry.kind {
        ListedKind::Directory => is_view(),
        ListedKind::File | ListedKind::Mount | ListedKind::Other => entry.has_extension("whl"),
    };
    name.starts_with('.') || is_known
}

/// The names of device parts: those that the statement names, or else those that are named after device code.
fn devices(
    names: &[String],
    statement: Option<&LocatedStatement>,
    has_host: bool,
    path: &Path,
    thin_wheels: &[PathBuf],
) -> anyhow::Result<Vec<String>> {
    let parts = statement.map(LocatedStatement::parts).transpose()?;
    let is_named = |name: &String| match &parts {
        // Other directories may be there if the split has a statement.
        Some(parts) => parts.iter().any(|part| part.as_bytes() == name.as_bytes()),
        None => has_host,
    };
    let is_reserved = |name: &String| name == REPORTS || RESERVED.contains(&name.as_str());
    // `split --format thin-wheel` writes directories with the names of device parts.
    let is_device = |name: &&String| {
        !is_reserved(name) && (BundleKey::is_name(name) || is_named(name)) && !is_around(thin_wheels, path, name)
    };
    Ok(names.iter().filter(is_device).cloned().collect())
}

fn is_around(wheels: &[PathBuf], path: &Path, name: &str) -> bool {
    wheels.iter().any(|wheel| wheel.starts_with(path.join(name)))
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
            let of_gpus = DirectoryListing::read(&place.path.join(name))?;
            // `simple-thin/` of a mount has an index for each set.
            let of_gpus = WheelDirectory::of_index(&of_gpus)?.or_else(|| WheelDirectory::of(&of_gpus));
            wheels.extend(of_gpus.unwrap_or_default().wheels);
        }
    }
    Ok(wheels)
}
