//! What of the parts was made of the fat input: in an installation, there may be other distributions next to it.

use std::collections::HashSet;
use std::iter::successors;
use std::sync::Arc;

use super::against::Comparison;
use super::context::Context;
use super::distributions::{Distribution, Role, named_by, present_keys};
use super::lookup::OverlaidArchive;
use super::parts::{Part, PartsKind};
use crate::database::Databases;
use crate::gpu::BundleKey;
use crate::loader::DOT_KPACK;
use crate::opened::statement_in;
use crate::source::{Entry, EntryKind, EntryPath, Input, InputKind};
use crate::split::HOST;
use crate::wheel::{PART_MANIFEST, PYCACHE, STATEMENT, is_compiled, part_in};

/// What an installer leaves in a dist-info directory (Recording installed projects), so that it is none of an unpacked
/// wheel.
const OF_INSTALLERS: [&[u8]; 3] = [b"INSTALLER", b"REQUESTED", b"direct_url.json"];

/// The files of the parts that were made of the fat input, and those of other distributions.
pub(super) struct OwnFiles {
    /// The keys of an installation; `None` for a split, which has all of them.
    present: Option<HashSet<BundleKey>>,
    /// The top-level directories of an installation that the fat input has as well; `None` if it is no installation.
    packages: Option<HashSet<Vec<u8>>>,
    /// Whether compiled files may be others than those of the fat input, or missing.
    compiles: bool,
    /// The files that RECORDs of other distributions name, possibly in the same directories.
    of_others: NamedFiles,
}

/// Files that RECORDs name, and the directories of these.
struct NamedFiles {
    files: HashSet<EntryPath>,
    directories: HashSet<EntryPath>,
}

impl OwnFiles {
    /// `fat_name` is the normalised name of the fat input's distribution, if it is a wheel.
    pub(super) fn of(context: &Context<'_>, fats: &[Input], fat_name: Option<&str>, databases: &Databases) -> Self {
        let (own, others): (Vec<_>, Vec<_>) =
            context.distributions.iter().partition(|it| !is_of_other(it, context.distributions, fat_name));
        let (named, of_others) = (NamedFiles::of(&own), NamedFiles::of(&others));
        let is_own =
            |path: &EntryPath| fat_name.is_none() || !of_others.files.contains(path) || named.files.contains(path);
        let present = context.parts.kind.is_partial().then(|| present(context, &own, databases, is_own));
        let is_in_fat = |path: &EntryPath| fats.iter().any(|fat| fat.entry(path).is_some());
        // Installers put scripts into directories that the fat input does not have.
        let packages = named.files.iter().filter(|path| path.depth() > 1).map(first);
        let packages = packages.filter(|first| EntryPath::new(first).is_ok_and(|first| is_in_fat(&first)));
        let is_installation = is_installation(context) && own.iter().any(|it| it.is_of_split());
        let packages = is_installation.then(|| packages.collect());
        let compiles = is_compiled_again(context) || fats.iter().any(has_installer);
        Self { present, packages, compiles, of_others }
    }

    /// Whether it is what Python made of a source that `exists`, possibly at another time, in another version or not at
    /// all; or a directory of that.
    pub(super) fn is_compiled(&self, path: &EntryPath, exists: impl Fn(&EntryPath) -> bool) -> bool {
        self.compiles && (path.name() == PYCACHE || is_compiled(path, exists))
    }

    /// Whether the part for this key must exist.
    pub(super) fn has_part(&self, key: &BundleKey) -> bool {
        self.present.as_ref().is_none_or(|present| present.contains(key))
    }

    /// Whether a file or directory of an installation may be there although the fat input does not have it.
    pub(super) fn is_beside(&self, path: &EntryPath) -> bool {
        let is_in_cache = || path.components().any(|name| name == PYCACHE);
        self.packages
            .as_ref()
            .is_some_and(|packages| !packages.contains(&first(path)) || self.of_others.has(path) || is_in_cache())
    }
}

impl NamedFiles {
    fn of(distributions: &[&Distribution<'_>]) -> Self {
        let files: HashSet<_> = distributions.iter().flat_map(|it| it.named()).collect();
        let mut directories = HashSet::new();
        for file in &files {
            // Those above a known directory are known.
            let mut above = std::iter::successors(file.parent(), EntryPath::parent);
            while above.next().is_some_and(|directory| directories.insert(directory)) {}
        }
        Self { files, directories }
    }

    fn has(&self, path: &EntryPath) -> bool {
        self.files.contains(path) || self.directories.contains(path)
    }
}

impl Comparison<'_> {
    /// Whether a file in the dist-info of an earlier split is left out of a split of an image, or made again: distributions of GPUs
    /// that it is not for, and what a host part states, if its code is joined to its libraries.
    pub(super) fn is_of_earlier_split(&self, path: &EntryPath) -> bool {
        if !self.context.parts.is_image {
            return false;
        }
        let mut above = successors(path.parent(), EntryPath::parent);
        let Some(directory) = above.find(|it| it.name().ends_with(b".dist-info")) else { return false };
        let stated = |input: &Input| statement_in(input, &directory);
        let named = || Some(part_in(&named_by(&directory)?.0)?.to_string());
        let Some(key) = self.fats.iter().find_map(stated).map_or_else(named, |it| it.part) else { return false };
        let Context { parts, thin, .. } = *self.context;
        if key == HOST {
            let is_replaced = [STATEMENT, PART_MANIFEST].iter().any(|name| path.name() == name.as_bytes());
            let is_thin = |part: &Arc<Part>| stated(&part.input).is_some_and(|it| it.thin().is_some());
            return is_replaced && parts.all.iter().any(is_thin);
        }
        let is_here = parts.all.iter().any(|part| part.input.entry(&directory).is_some());
        !is_here && (thin.is_whole() || key.parse().is_ok_and(|key| !self.is_expected(&key)))
    }

    /// Whether this is a directory that thin libraries leave without archives. An image has it in the layer of all GPUs.
    pub(super) fn is_left_empty(&self, entry: &Entry) -> bool {
        let is_of_archives = entry.path.name() == DOT_KPACK.as_bytes() && matches!(entry.kind, EntryKind::Directory);
        is_of_archives && self.context.parts.is_image && self.context.thin.is_whole()
    }
}

/// Whether a distribution was not made of the fat input. Without the name of that, it is what belongs to no split.
fn is_of_other(it: &Distribution<'_>, all: &[Distribution<'_>], fat_name: Option<&str>) -> bool {
    let Some(fat) = fat_name else { return !it.is_of_split() };
    if !it.is_of_split() {
        return it.name().is_none_or(|(name, _)| name != fat);
    }
    let is_made_of_other = || {
        let others = all.iter().filter(|other| matches!(other.role, Role::Host | Role::Thin) && !other.is_made_of(fat));
        others.filter_map(Distribution::name).any(|(other, _)| it.is_made_of(&other))
    };
    // If METADATA of a device distribution is damaged, its code must be found nevertheless.
    !it.is_made_of(fat) && (it.role != Role::Device || is_made_of_other())
}

/// The keys of the parts that exist.
fn present(
    context: &Context<'_>,
    own: &[&Distribution<'_>],
    databases: &Databases,
    is_own: impl Fn(&EntryPath) -> bool,
) -> HashSet<BundleKey> {
    let Context { parts, archives, thin, .. } = *context;
    let of_archives = archives.list.iter().filter(|archive| is_own(&archive.path)).flat_map(OverlaidArchive::targets);
    let of_databases = || {
        let files = parts.files().filter(|file| is_own(file.path));
        files.filter_map(|file| Some(databases.classify(file.path)?.arch.key())).collect()
    };
    // Thin parts state their GPUs.
    let others = thin.keys(&is_own).unwrap_or_else(of_databases);
    let of_distributions = (parts.kind == PartsKind::Installation).then(|| present_keys(own));
    let of_archives = of_archives.map(|target| BundleKey::of(&target));
    of_archives.chain(others).chain(of_distributions.into_iter().flatten()).collect()
}

/// Whether other files may be there: not in a wheel. A tree with a single distribution may be an unpacked wheel.
fn is_installation(context: &Context<'_>) -> bool {
    let is_site = |host: &Input| match host.kind {
        InputKind::Tree | InputKind::Wheels(None) => true,
        InputKind::UnpackedWheel(_) => has_installer(host),
        InputKind::Wheel(_) | InputKind::Wheels(Some(_)) | InputKind::Binary => false,
    };
    context.parts.kind.is_partial() && context.parts.all.first().is_some_and(|host| is_site(&host.input))
}

/// Whether installers or users may have compiled files: in a tree with distributions, which need not be an installation.
fn is_compiled_again(context: &Context<'_>) -> bool {
    let is_wheel = |host: &Input| matches!(host.kind, InputKind::Wheel(_) | InputKind::Wheels(Some(_)));
    let is_tree = context.parts.all.first().is_some_and(|host| !is_wheel(&host.input));
    // The distributions of an environment that is compared as a whole are below its prefix.
    let has_distributions = !context.distributions.is_empty() || context.parts.environment.is_some();
    context.parts.kind == PartsKind::Installation && is_tree && has_distributions
}

/// Whether an installer left its files.
fn has_installer(input: &Input) -> bool {
    let is_dist_info = |path: &EntryPath| path.depth() == 2 && Part::is_metadata(path);
    input.entries.iter().any(|it| is_dist_info(&it.path) && OF_INSTALLERS.contains(&it.path.name()))
}

fn first(path: &EntryPath) -> Vec<u8> {
    path.components().next().unwrap_or_default().to_vec()
}
