//! Directories and wheels that belong together, and their files.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use super::devices;
use super::error::VerifyError;
use super::installed::{DataDirectories, follow_links_to_caches, install};
use super::linked::{self, LinkedDirectories};
use super::report::Findings;
use super::rules::Rule;
use super::statement::LocatedStatement;
use crate::database::Databases;
use crate::gpu::BundleKey;
use crate::join;
use crate::loader::is_archive;
use crate::memory::{Parser, WholeFile};
use crate::resources::Resources;
use crate::rope::{Content, ReadError};
use crate::source::{EntryKind, EntryPath, Input, InputKind};
use crate::split::{HOST, Packaging};
use crate::view::REPORTS;
use crate::wheel::{self, Metadata, is_elsewhere, normalise};

/// Directories or wheels that belong together.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) kind: PartsKind,
    /// The component, if these are the parts of an artifact.
    pub(super) component: Option<String>,
    /// Whether these are packages next to those that were named, so that they may be no split.
    pub(super) is_added: bool,
    /// The statement of the split, if it is not in a wheel.
    pub(super) statement: Option<LocatedStatement>,
    /// The parts. The host part, or the whole installation, comes first.
    pub(super) all: Vec<Arc<Part>>,
}

/// How architectures are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PartsKind {
    /// A host part and device parts.
    Split,
    /// A host part and some of its device parts.
    Partial,
    /// The host part or device parts of an artifact, without the others. Checks that need both are skipped.
    Fragment,
    /// Everything in one tree, as installed.
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
    /// Directories outside of the input that belong to it.
    pub(super) links: LinkedDirectories,
    /// All handlers of databases, for its files.
    pub(super) databases: Databases,
}

/// A file of one of the parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartFile<'a> {
    pub(super) part: usize,
    pub(super) path: &'a EntryPath,
    pub(super) content: &'a Arc<dyn Content>,
}

impl PartsKind {
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
    pub(super) fn open(
        path: &Path,
        label: String,
        resources: &Arc<Resources>,
        findings: &Findings,
    ) -> Result<Self, VerifyError> {
        let mut input = Input::open(path, resources)?;
        let of_path = |path: &EntryPath| if label.is_empty() { path.to_string() } else { format!("{label}/{path}") };
        let outside = join::outside(&input, resources);
        let links = LinkedDirectories::follow(&mut input, resources)?;
        follow_links_to_caches(&mut input, resources);
        linked::check_dangling(&input, of_path, findings);
        let is_followed =
            |path: &EntryPath| input.entry(path).is_some_and(|entry| !matches!(entry.kind, EntryKind::Symlink(_)));
        for file in outside.into_iter().filter(|file| file.lacks_archives || !is_followed(&file.link)) {
            findings.add(Rule::OutsideLink, of_path(&file.link), file.problem);
        }
        let data = DataDirectories::of(&input);
        let say = |path: &EntryPath, reason| findings.add(Rule::InstallConflict, of_path(path), reason);
        let origins = install(&mut input, |path| data.installed(path), say);
        let of_wheel = input.dist_info().map(|path| path.to_text().split('-').next().unwrap_or_default().to_owned());
        let of_wheel = of_wheel.and_then(|name| Some(devices::key(&normalise(&name))?.to_string()));
        let of_path = input.location.file_name().map(|name| name.to_string_lossy().into_owned());
        let is_key = |name: &String| name.parse().is_ok_and(|key: BundleKey| key.is_known());
        let name = of_path.clone().filter(is_key).or(of_wheel).or(of_path).unwrap_or_default();
        Ok(Self { name, label, input, origins, data, links, databases: Databases::all() }.with_databases(resources))
    }

    /// A part of an artifact, with files at their installed paths.
    pub(super) fn of_artifact(
        name: String,
        label: String,
        input: Input,
        origins: HashMap<EntryPath, EntryPath>,
        resources: &Arc<Resources>,
    ) -> Self {
        let (data, links) = (DataDirectories::default(), LinkedDirectories::default());
        Self { name, label, input, origins, data, links, databases: Databases::all() }.with_databases(resources)
    }

    fn with_databases(self, resources: &Arc<Resources>) -> Self {
        Self { databases: self.databases.of(self.files(), resources), ..self }
    }

    /// Its files.
    pub(super) fn files(&self) -> impl Iterator<Item = (&EntryPath, &Arc<dyn Content>)> {
        self.input.entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::File { content, .. } => Some((&entry.path, content)),
            EntryKind::Directory | EntryKind::Symlink(_) => None,
        })
    }

    /// Whether a file of this part is an archive or belongs to a database.
    pub(super) fn is_device_file(&self, path: &EntryPath, content: &Arc<dyn Content>) -> bool {
        is_archive(path, content) || self.databases.classify(path).is_some()
    }

    /// Whether scripts, headers and data are in the tree as well, as in a merged view. Installers put them elsewhere.
    pub(super) fn holds_all(&self) -> bool {
        self.files().any(|(path, _)| is_elsewhere(path))
    }

    /// The content of a file, as far as the parser may read it; `None` if there is no such file.
    pub(super) fn read(&self, path: &EntryPath, parser: Parser) -> Result<Option<WholeFile>, ReadError> {
        let Some(EntryKind::File { content, .. }) = self.input.entry(path).map(|entry| &entry.kind) else {
            return Ok(None);
        };
        WholeFile::of(parser, &**content).map(Some)
    }

    /// The path of a file that a RECORD names.
    pub(super) fn recorded(&self, path: &EntryPath) -> Option<EntryPath> {
        let exists = self.input.entry(path).is_some();
        if exists { Some(path.clone()) } else { self.data.installed(path) }
    }

    /// The name of a file of this part in findings.
    pub(super) fn label(&self, path: &EntryPath) -> String {
        let path = self.origins.get(path).unwrap_or(path);
        if self.label.is_empty() { path.to_string() } else { format!("{}/{path}", self.label) }
    }

    /// Its own name in findings.
    pub(super) fn label_or_name(&self) -> String {
        if self.label.is_empty() { self.name.clone() } else { self.label.clone() }
    }

    /// The statement in a `*.dist-info` directory, if there is exactly one that is not of a device part. Those have no
    /// restrictions.
    fn statement(&self) -> Option<LocatedStatement> {
        let mut found = self.statements();
        found.retain(|it| it.statement.part().is_none_or(|part| part == HOST));
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
        let is_host = |(path, content): (&EntryPath, &Arc<dyn Content>)| {
            let is_text = path.depth() == 2 && path.name() == b"METADATA" && Self::is_metadata(path);
            let bytes = is_text.then(|| WholeFile::of(Parser::Metadata, &**content).ok()).flatten();
            let metadata = bytes.and_then(|bytes| Metadata::parse(bytes.into_bytes(), path).ok());
            metadata.is_some_and(|it| !devices::devices(&it).is_empty())
        };
        self.input.dist_info().is_none() && self.files().any(is_host)
    }

    /// Whether a path belongs to a wheel's own metadata, which differs between parts.
    pub(super) fn is_metadata(path: &EntryPath) -> bool {
        path.is_in_dist_info() || path.components().next() == Some(REPORTS.as_bytes())
    }
}

impl Parts {
    pub(super) fn new(kind: PartsKind, parts: Vec<Arc<Part>>) -> Self {
        // A split of an installation has code for the installed GPUs only.
        let is_of_installation = || parts.first().is_some_and(|host| host.has_installed_host());
        let kind = if kind == PartsKind::Split && is_of_installation() { PartsKind::Partial } else { kind };
        Self { kind, component: None, is_added: false, statement: None, all: parts }
    }

    /// A single tree or wheel, with everything as installed.
    pub(super) fn open_installation(
        path: &Path,
        label: String,
        resources: &Arc<Resources>,
        findings: &Findings,
    ) -> Result<Self, VerifyError> {
        let part = Part::open(path, label, resources, findings)?;
        let statement = LocatedStatement::of_part(path)?;
        Ok(Self { statement, ..Self::new(PartsKind::Installation, vec![Arc::new(part)]) })
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

    /// Whether these can be parts of a split even if none of their binaries is split: by their form, or because they
    /// contain wheels, archives or databases.
    pub(super) fn is_split(&self) -> bool {
        let is_device = |part: &Arc<Part>| part.files().any(|(path, content)| part.is_device_file(path, content));
        let is_wheel = |part: &Arc<Part>| matches!(part.input.kind, InputKind::Wheel(_));
        (self.kind != PartsKind::Installation && self.files().next().is_some())
            || self.all.iter().any(is_wheel)
            || self.all.iter().any(is_device)
    }

    /// The name of a file in findings.
    pub(super) fn label(&self, part: usize, path: &EntryPath) -> String {
        self.all.get(part).map_or_else(|| path.to_string(), |part| part.label(path))
    }
}
