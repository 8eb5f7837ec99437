//! Directories and wheels that belong together, and their files.

use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::installed::{DataDirectories, follow_links_to_caches};
use super::linked::{LinkedDirectories, dangling, normal};
use super::outer::OuterArchives;
use super::report::{Finding, Findings, Tools};
use super::rules::Rule;
use crate::database::Databases;
use crate::gpu::{BundleKey, GpuSet};
use crate::join;
use crate::loader::is_archive;
use crate::memory::{Parser, WholeFile};
use crate::opened::{InnerSplits, LocatedStatement, Site, is_apart};
use crate::resources::Resources;
use crate::rope::{Content, ReadError};
use crate::source::{EntryKind, EntryPath, Input, InputKind, Origins, SourceError, open_file};
use crate::split::{HOST, Packaging};
use crate::view::REPORTS;
use crate::wheel::{self, Metadata, is_elsewhere, normalise, part_in};

/// Directories or wheels that belong together.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) kind: PartsKind,
    /// The component, if these are the parts of an artifact.
    pub(super) component: Option<String>,
    /// Whether they were named together with others, or a mount shows them with others, so that they may be of no split.
    pub(super) is_optional: bool,
    /// Whether they are what an environment has outside of its directories of packages.
    pub(super) is_rest: bool,
    /// Whether they are the root file system of an image.
    pub(super) is_image: bool,
    /// The real path of the environment that was named and holds them.
    pub(super) environment: Option<PathBuf>,
    /// The archives of that environment, if this is a directory of packages in it.
    pub(super) outer: Option<OuterArchives>,
    /// The statement of the split, if it is not in a wheel.
    pub(super) statement: Option<LocatedStatement>,
    /// The GPUs, if all binaries are thin.
    pub(super) thin: Option<GpuSet>,
    /// The parts. The host part, or the whole installation, comes first.
    pub(super) all: Vec<Arc<Part>>,
}

/// How architectures are separated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum PartsKind {
    /// A host part and device parts.
    Split,
    /// A host part and some of its device parts.
    Partial,
    /// The host part or device parts of an artifact, without the others. Checks that need both are skipped.
    Fragment,
    /// Everything in one tree, as installed.
    #[default]
    Installation,
}

/// A directory or wheel.
#[derive(Debug)]
pub(super) struct Part {
    /// The bundle key of a device wheel, the name of the directory, or the family in an artifact's name.
    pub(super) name: String,
    /// The prefix of its files in findings, to which a slash and the path are added.
    pub(super) label: String,
    pub(super) input: Input,
    /// Paths in a wheel or an artifact, by installed path, for files that are installed elsewhere.
    pub(super) origins: HashMap<EntryPath, EntryPath>,
    /// The data directories of a wheel.
    pub(super) data: DataDirectories,
    /// The splits that were left out of it.
    pub(super) splits: InnerSplits,
    /// Directories outside of the input that belong to it.
    pub(super) links: LinkedDirectories,
    /// All handlers of databases, for its files.
    pub(super) databases: Databases,
    /// What is odd about it. These are findings if it is checked.
    pub(super) oddities: Vec<Finding>,
}

/// A file of one of the parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartFile<'a> {
    pub(super) part: usize,
    pub(super) path: &'a EntryPath,
    pub(super) content: &'a Arc<dyn Content>,
}

impl PartsKind {
    /// The kind of host and device parts next to each other. Views that were chosen need not have all GPUs.
    pub(super) fn of_split(statement: Option<&LocatedStatement>) -> Self {
        let has_all = statement.is_none_or(|located| located.statement.views.is_empty());
        if has_all { Self::Split } else { Self::Partial }
    }

    /// Whether host and device code are separate.
    pub(super) fn is_separate(self) -> bool {
        matches!(self, Self::Split | Self::Partial)
    }

    /// Whether device code for some GPUs may be missing.
    pub(super) fn is_partial(self) -> bool {
        matches!(self, Self::Partial | Self::Installation)
    }
}

impl Part {
    pub(super) fn open(path: &Path, label: String, resources: &Arc<Resources>) -> anyhow::Result<Self> {
        Self::of_input(Input::open(path, resources)?, label, resources)
    }

    /// What an environment has outside of its directories of packages.
    pub(super) fn open_rest(prefix: &Path, sites: &[Site], tools: Tools<'_>) -> anyhow::Result<Self> {
        let sites: BTreeSet<_> = sites.iter().filter_map(|site| site.path.canonicalize().ok()).collect();
        let note = |place: &Path| {
            let what = "an environment, or a cache of packages, in another is not checked with it; name it to check it";
            tools.findings.note(format!("{}: {what}", place.display()));
        };
        let is_left_out = |place: &Path| sites.contains(place) || is_apart(place).then(|| note(place)).is_some();
        let input = Input::open_without(prefix, &is_left_out, tools.resources)?;
        Self::of_input(input, String::new(), tools.resources)
    }

    /// A directory or wheel, with files at their installed paths, without the splits in it.
    pub(super) fn of_input(mut input: Input, label: String, resources: &Arc<Resources>) -> anyhow::Result<Self> {
        let outside = join::outside(&input, resources);
        let links = LinkedDirectories::follow(&mut input, resources)?;
        let splits = InnerSplits::of(&input);
        splits.leave_out_of(&mut input);
        follow_links_to_caches(&mut input, resources);
        let is_followed =
            |path: &EntryPath| input.entry(path).is_some_and(|entry| !matches!(entry.kind, EntryKind::Symlink(_)));
        let outside = outside.into_iter().filter(|file| !file.is_fat && !splits.hold(&file.link));
        let outside = outside.filter(|file| file.lacks_archives || !is_followed(&file.link));
        let odd = |rule, path: &EntryPath, reason: &str| Finding::new(rule, labelled(&label, path), reason);
        let mut oddities: Vec<_> = outside.map(|file| odd(Rule::OutsideLink, &file.link, &file.problem)).collect();
        let nothing = "it is a symlink to archives that leads to nothing";
        oddities.extend(dangling(&input).iter().map(|link| odd(Rule::DanglingLink, link, nothing)));
        let data = DataDirectories::of(&input);
        let origins = input.install(|path| data.installed(path));
        oddities.extend(conflicts(&origins, &label));
        let of_wheel = input.dist_info().map(|path| path.to_text().split('-').next().unwrap_or_default().to_owned());
        let of_wheel = of_wheel.and_then(|name| Some(part_in(&normalise(&name))?.to_string()));
        let of_path = input.location.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = of_path.clone().filter(|name| BundleKey::is_name(name)).or(of_wheel).or(of_path).unwrap_or_default();
        let (origins, databases) = (origins.moved, Databases::all());
        Ok(Self { name, label, input, origins, data, splits, links, databases, oddities }.with_databases(resources))
    }

    /// A part of an artifact, with files at their installed paths.
    pub(super) fn of_artifact(
        name: String,
        label: String,
        input: Input,
        origins: Origins,
        resources: &Arc<Resources>,
    ) -> Self {
        let (data, splits, links) = (DataDirectories::default(), InnerSplits::default(), LinkedDirectories::default());
        let (oddities, databases) = (conflicts(&origins, &label).collect(), Databases::all());
        let origins = origins.moved;
        Self { name, label, input, origins, data, splits, links, databases, oddities }.with_databases(resources)
    }

    fn with_databases(self, resources: &Arc<Resources>) -> Self {
        Self { databases: self.databases.of(self.files(), resources), ..self }
    }

    /// Its files.
    pub(super) fn files(&self) -> impl Iterator<Item = (&EntryPath, &Arc<dyn Content>)> {
        self.input.files()
    }

    /// Whether a file of this part is an archive or belongs to a database.
    pub(super) fn is_device_file(&self, path: &EntryPath, content: &Arc<dyn Content>) -> bool {
        is_archive(path, content) || self.databases.classify(path).is_some()
    }

    /// Whether scripts, headers and data are in the tree as well, as in a merged view. Installers put them elsewhere.
    pub(super) fn holds_all(&self) -> bool {
        self.files().any(|(path, _)| is_elsewhere(path))
    }

    /// Whether a file that RECORD or a manifest names is installed elsewhere, or is in a split that was left out.
    pub(super) fn is_elsewhere(&self, path: &EntryPath) -> bool {
        let is_packed = matches!(self.input.kind, InputKind::Wheel(_));
        self.splits.hold(path)
            || !is_packed && !self.holds_all() && self.recorded(path).is_some_and(|path| is_elsewhere(&path))
    }

    /// The content of a file, as far as the parser may read it; `None` if there is no such file.
    pub(super) fn read(&self, path: &EntryPath, parser: Parser) -> Result<Option<WholeFile>, ReadError> {
        self.input.content(path).map(|content| WholeFile::of(parser, &**content)).transpose()
    }

    /// The file at a path. In a directory also what is at `written`: there may be symlinks on the way, and installers that
    /// save space install symlinks to their caches.
    pub(super) fn file(
        &self,
        path: Option<&EntryPath>,
        written: &Path,
        resources: &Arc<Resources>,
    ) -> Result<Option<Arc<dyn Content>>, SourceError> {
        if let Some(content) = path.and_then(|path| self.input.content(path)) {
            return Ok(Some(Arc::clone(content)));
        }
        let place = self.input.location.join(written);
        let is_there = !matches!(self.input.kind, InputKind::Wheel(_)) && place.is_file();
        is_there.then(|| open_file(&place, resources)).transpose()
    }

    /// The path of a file that a RECORD names.
    pub(super) fn recorded(&self, path: &EntryPath) -> Option<EntryPath> {
        let exists = self.input.entry(path).is_some();
        if exists { Some(path.clone()) } else { self.data.installed(path) }
    }

    /// The name of a file of this part in findings.
    pub(super) fn label(&self, path: &EntryPath) -> String {
        labelled(&self.label, self.origins.get(path).unwrap_or(path))
    }

    /// Its own name in findings.
    pub(super) fn label_or_name(&self) -> String {
        if self.label.is_empty() { self.name.clone() } else { self.label.clone() }
    }

    /// The statement in a `*.dist-info` directory, if there is exactly one that is not of a device part. Those have no
    /// restrictions.
    fn statement(&self) -> Option<LocatedStatement> {
        let mut found = self.statements();
        found.retain(|it| it.statement.part.as_deref().is_none_or(|part| part == HOST));
        found.pop().filter(|_| found.is_empty())
    }

    /// The statements in `*.dist-info` directories. Those that cannot be read are reported with their distributions.
    pub(super) fn statements(&self) -> Vec<LocatedStatement> {
        let is_it = |path: &EntryPath| {
            path.depth() == 2 && Self::is_metadata(path) && path.name() == wheel::STATEMENT.as_bytes()
        };
        let parse = |(path, content): (&EntryPath, &Arc<dyn Content>)| {
            let bytes = WholeFile::of(Parser::Statement, &**content).ok()?;
            LocatedStatement::parse(self.label(path), &bytes).ok()
        };
        self.files().filter(|(path, _)| is_it(path)).filter_map(parse).collect()
    }

    /// Whether this is a tree with an installed host distribution, so that a split of the tree is one of an installation
    /// that was split before.
    fn has_installed_host(&self) -> bool {
        let is_host = |metadata: Metadata| !metadata.devices().is_empty();
        self.input.dist_info().is_none() && Metadata::installed(&self.input).any(is_host)
    }

    /// Whether an installer installed a distribution, which leaves an INSTALLER (`PyPA`, "Recording installed projects").
    pub(super) fn is_installed(&self, dist_info: &EntryPath) -> bool {
        self.input.entry(&dist_info.child(b"INSTALLER")).is_some()
    }

    /// Whether a path belongs to a wheel's own metadata, which differs between parts.
    pub(super) fn is_metadata(path: &EntryPath) -> bool {
        path.is_in_dist_info() || path.components().next() == Some(REPORTS.as_bytes())
    }
}

fn labelled(label: &str, path: &EntryPath) -> String {
    if label.is_empty() { path.to_string() } else { format!("{label}/{path}") }
}

/// Files of a part that are in the way of each other.
fn conflicts<'a>(origins: &'a Origins, label: &'a str) -> impl Iterator<Item = Finding> + 'a {
    let reason = |other: &EntryPath| format!("{other} is installed at the same place");
    let conflicts = origins.conflicts.iter();
    conflicts.map(move |(path, other)| Finding::new(Rule::InstallConflict, labelled(label, path), reason(other)))
}

impl Parts {
    pub(super) fn new(kind: PartsKind, parts: Vec<Arc<Part>>) -> Self {
        // A split of an installation has code for the installed GPUs only.
        let is_of_installation = || parts.first().is_some_and(|host| host.has_installed_host());
        let kind = if kind == PartsKind::Split && is_of_installation() { PartsKind::Partial } else { kind };
        Self { kind, all: parts, ..Self::default() }
    }

    /// The same as what the environment with this prefix holds. It may be of no split.
    pub(super) fn of_environment(self, prefix: &Path) -> Self {
        Self { is_optional: true, environment: prefix.canonicalize().ok(), ..self }
    }

    /// What an environment has outside of its directories of packages, if there are files. It may be one of these itself, with
    /// `.pth` files.
    pub(super) fn open_rest(prefix: &Path, sites: &[Site], tools: Tools<'_>) -> anyhow::Result<Option<Self>> {
        if sites.iter().any(|site| site.path == prefix) {
            return Ok(None);
        }
        let rest = Self::of_one(Part::open_rest(prefix, sites, tools)?);
        let statement = LocatedStatement::of_part(prefix)?;
        let rest = Self { statement, is_rest: true, ..rest }.of_environment(prefix);
        let has_any = rest.files().next().is_some();
        Ok(has_any.then_some(rest))
    }

    /// The path in the environment of a file that a RECORD in one of its directories of packages names.
    pub(super) fn in_environment(&self, part: &Part, row: &[u8]) -> Option<PathBuf> {
        let place = normal(&part.input.location.join(OsStr::from_bytes(row)));
        place.strip_prefix(self.environment.as_ref()?).ok().map(Path::to_owned)
    }

    /// An installation, without what pip left there.
    pub(super) fn open_installation(path: &Path, name: String, resources: &Arc<Resources>) -> anyhow::Result<Self> {
        Self::open_whole(path, Part::of_input(Input::open_installed(path, resources)?, name, resources)?)
    }

    /// A single tree or wheel, with everything as installed.
    pub(super) fn open_whole(path: &Path, part: Part) -> anyhow::Result<Self> {
        Ok(Self { statement: LocatedStatement::of_part(path)?, ..Self::of_one(part) })
    }

    /// A part with everything as installed.
    pub(super) fn of_one(part: Part) -> Self {
        Self::new(PartsKind::Installation, vec![Arc::new(part)])
    }

    /// Reports what is odd about the parts, and says that a split was left out.
    pub(super) fn say_oddities(&self, findings: &Findings) {
        self.all.iter().flat_map(|part| &part.oddities).for_each(|odd| findings.push(odd.clone()));
        let left = self.all.iter().filter_map(|part| part.input.left_by_pip());
        left.for_each(|left| findings.note(format!("{left}; it is not checked")));
        let trees = self.all.iter().map(|part| &part.input).filter(|input| input.directory().is_some());
        trees.flat_map(|input| &input.warnings).for_each(|warning| findings.note(warning.clone()));
        if let Some((part, first)) = self.all.iter().find_map(|part| Some((part, part.splits.0.first()?))) {
            let first = if first.is_root() { part.label_or_name() } else { part.label(first) };
            findings.note(format!(
                "{first}: a split in a tree or an installation is not checked with it; name it to check it"
            ));
        }
    }

    /// Whether a file is in a split that was left out of one of the parts. Device parts have code of it, and no statement.
    pub(super) fn leave_out(&self, path: &EntryPath) -> bool {
        self.all.iter().any(|part| part.splits.hold(path))
    }

    /// The statement of the split, in its directory or mount, or in the host wheel.
    pub(super) fn find_statement(&self) -> Option<LocatedStatement> {
        self.statement.clone().or_else(|| self.all.first()?.statement())
    }

    /// Whether binaries of a part are checked. Device parts have none.
    pub(super) fn is_checked(&self, part: usize) -> bool {
        part == 0 || self.kind == PartsKind::Installation
    }

    /// How device code is divided.
    pub(super) fn packaging(&self) -> Packaging {
        if self.component.is_some() { Packaging::Processors } else { Packaging::Bundles }
    }

    /// The files of all parts.
    pub(super) fn files(&self) -> impl Iterator<Item = PartFile<'_>> {
        let numbered = self.all.iter().enumerate();
        numbered.flat_map(|(part, at)| at.files().map(move |(path, content)| PartFile { part, path, content }))
    }

    /// Whether they are of a split even if none of their binaries is split: by their form, or because of a statement or of
    /// archives. Databases are as they were before a split, and a single fat artifact has the name of a part.
    pub(super) fn is_split(&self) -> bool {
        let is_form = self.kind.is_separate() && (self.component.is_none() || self.all.len() > 1);
        is_form && self.files().next().is_some() || self.statement.is_some() || self.have_device_code()
    }

    /// Whether there are archives, or a device part.
    pub(super) fn have_device_code(&self) -> bool {
        let has_databases = |part: &Part| part.files().any(|(path, _)| part.databases.classify(path).is_some());
        let is_device_part = |part: &Arc<Part>| BundleKey::is_name(&part.name) && has_databases(part);
        self.all.iter().any(is_device_part) || self.files().any(|file| is_archive(file.path, file.content))
    }

    /// Whether these are wheels.
    pub(super) fn are_wheels(&self) -> bool {
        self.all.iter().any(|part| matches!(part.input.kind, InputKind::Wheel(_)))
    }

    /// Where they are.
    pub(super) fn location(&self) -> &Path {
        self.all.first().map_or(Path::new(""), |part| &part.input.location)
    }

    /// The name of a file in findings.
    pub(super) fn label(&self, part: usize, path: &EntryPath) -> String {
        self.all.get(part).map_or_else(|| path.to_string(), |part| part.label(path))
    }
}
