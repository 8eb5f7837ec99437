//! What is checked: which paths are parts of one split, and which stand for themselves.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::lookup::is_archive;
use super::report::Findings;
use super::{VerifyError, arrange, artifacts};
use crate::database::Databases;
use crate::index::Resources;
use crate::kpack;
use crate::rope::Content;
use crate::source::{EntryKind, EntryPath, Input, SourceError, open_file};
use crate::split::Packaging;
use crate::view::{DEVICE, HOST, MERGED, REPORTS, WHEELS};

/// Something to check.
#[derive(Debug)]
pub(super) enum Subject {
    /// Directories or wheels.
    Parts(Parts),
    /// A single binary.
    Binary(SingleFile),
    /// A single archive.
    Archive(SingleFile),
}

/// A file by itself.
#[derive(Debug)]
pub(super) struct SingleFile {
    pub(super) path: PathBuf,
    pub(super) content: Arc<dyn Content>,
}

/// Directories or wheels that belong together.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) kind: Kind,
    /// The component, if these are the parts of an artifact.
    pub(super) component: Option<String>,
    /// The host part, or the whole installation, is the first.
    pub(super) all: Vec<Arc<Part>>,
}

/// How architectures are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A host part and device parts.
    Split,
    /// The host part or device parts of an artifact, without the others. What needs both is not checked.
    Fragment,
    /// Everything in one place, as it is installed.
    Installation,
}

/// A directory or wheel.
#[derive(Debug)]
pub(super) struct Part {
    /// The name of its directory, or the family in an artifact's name.
    pub(super) name: String,
    /// What its files are called in findings: this, a slash, the path.
    pub(super) label: String,
    pub(super) input: Input,
    /// Where files are in an artifact, if that is not where they are installed.
    pub(super) origins: HashMap<EntryPath, EntryPath>,
}

/// A file in one of the parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartFile<'a> {
    pub(super) part: usize,
    pub(super) path: &'a EntryPath,
    pub(super) content: &'a Arc<dyn Content>,
}

impl Part {
    pub(super) fn open(path: &Path, label: String, resources: &Arc<Resources>) -> Result<Self, VerifyError> {
        let input = Input::open(path, resources)?;
        let name = input.location.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(Self { name: name.unwrap_or_default(), label, input, origins: HashMap::new() })
    }

    /// Its files.
    pub(super) fn files(&self) -> impl Iterator<Item = (&EntryPath, &Arc<dyn Content>)> {
        self.input.entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::File { content, .. } => Some((&entry.path, content)),
            EntryKind::Directory | EntryKind::Symlink(_) => None,
        })
    }

    /// What a finding calls a file of this part.
    pub(super) fn label(&self, path: &EntryPath) -> String {
        let path = self.origins.get(path).unwrap_or(path);
        if self.label.is_empty() { path.to_string() } else { format!("{}/{path}", self.label) }
    }

    /// Whether a wheel's own description of itself is there, which differs from part to part.
    pub(super) fn is_metadata(path: &EntryPath) -> bool {
        let first = path.components().next().unwrap_or_default();
        first.ends_with(b".dist-info") || first == REPORTS.as_bytes()
    }
}

impl Parts {
    pub(super) fn new(kind: Kind, parts: Vec<Arc<Part>>) -> Self {
        Self { kind, component: None, all: parts }
    }

    /// How device code is cut.
    pub(super) fn packaging(&self) -> Packaging {
        if self.component.is_some() { Packaging::Processors } else { Packaging::Bundles }
    }

    /// The files of all parts.
    pub(super) fn files(&self) -> impl Iterator<Item = PartFile<'_>> {
        let numbered = self.all.iter().enumerate();
        numbered.flat_map(|(part, at)| at.files().map(move |(path, content)| PartFile { part, path, content }))
    }

    /// Whether these can be parts of a split, even if no binary among them is split: by their form, or because there are
    /// wheels, archives or databases among them.
    pub(super) fn is_split(&self) -> bool {
        let databases = Databases::all();
        let is_device =
            |file: PartFile<'_>| is_archive(file.path, file.content) || databases.classify(file.path).is_some();
        let is_wheel = |part: &Arc<Part>| part.input.dist_info().is_some();
        (self.kind != Kind::Installation && self.files().next().is_some())
            || self.all.iter().any(is_wheel)
            || self.files().any(is_device)
    }

    /// What a finding calls a file.
    pub(super) fn label(&self, part: usize, path: &EntryPath) -> String {
        self.all.get(part).map_or_else(|| path.to_string(), |part| part.label(path))
    }
}

/// Sorts the paths: artifacts are told by their manifests; a directory that holds `host/` is a split; a directory of wheels
/// stands for its wheels; several other directories or wheels are arranged by what they hold; everything else stands for
/// itself.
pub(super) fn open(
    paths: &[PathBuf],
    resources: &Arc<Resources>,
    findings: &Findings,
) -> Result<Vec<Subject>, VerifyError> {
    if let Some(artifacts) = artifacts::open(paths, resources, findings)? {
        return Ok(artifacts.into_iter().map(Subject::Parts).collect());
    }
    let mut named = Vec::new();
    for path in paths {
        match wheels_in(path)? {
            wheels if wheels.is_empty() => named.push(path.clone()),
            wheels => named.extend(wheels),
        }
    }
    let is_part = |path: &PathBuf| (path.is_dir() && !is_split(path)) || is_wheel(path);
    let (parts, mut others): (Vec<_>, Vec<_>) = named.into_iter().partition(is_part);
    let mut subjects = Vec::new();
    if parts.len() > 1 {
        subjects.extend(arrange::arrange(&parts, resources, findings)?.into_iter().map(Subject::Parts));
    } else {
        others.extend(parts);
    }
    for path in others {
        subjects.push(open_one(&path, resources)?);
    }
    Ok(subjects)
}

/// The wheels in a directory that holds wheels and no other directory, so that it is neither a split nor an installation.
fn wheels_in(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let io = |source| SourceError::Io { path: path.to_owned(), source };
    let mut wheels = Vec::new();
    if !path.is_dir() {
        return Ok(wheels);
    }
    for entry in std::fs::read_dir(path).map_err(io)? {
        let path = entry.map_err(io)?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if path.is_dir() && !is_hidden {
            return Ok(Vec::new());
        }
        if path.is_file() && is_wheel(&path) {
            wheels.push(path);
        }
    }
    Ok(wheels)
}

fn is_split(path: &Path) -> bool {
    path.join(HOST).is_dir()
}

fn is_wheel(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "whl")
}

fn open_one(path: &Path, resources: &Arc<Resources>) -> Result<Subject, VerifyError> {
    if is_split(path) {
        return Ok(Subject::Parts(Parts::new(Kind::Split, open_split(path, resources)?)));
    }
    if path.is_dir() || is_wheel(path) {
        let parts = vec![Arc::new(Part::open(path, String::new(), resources)?)];
        return Ok(Subject::Parts(Parts::new(Kind::Installation, parts)));
    }
    let content = open_file(path, resources)?;
    let mut magic = [0; 4];
    if content.size() >= 4 {
        content.peek(&mut magic)?;
    }
    let file = SingleFile { path: path.to_owned(), content };
    if magic == *kpack::MAGIC || path.extension().is_some_and(|extension| extension == "kpack") {
        Ok(Subject::Archive(file))
    } else if begins_binary(magic) {
        Ok(Subject::Binary(file))
    } else {
        Err(VerifyError::UnknownKind(path.to_owned()))
    }
}

fn open_split(path: &Path, resources: &Arc<Resources>) -> Result<Vec<Arc<Part>>, VerifyError> {
    let io = |source| SourceError::Io { path: path.to_owned(), source };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(io)? {
        let entry = entry.map_err(io)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_device = ![HOST, DEVICE, MERGED, WHEELS, REPORTS].contains(&name.as_str());
        if is_device && entry.file_type().map_err(io)?.is_dir() {
            names.push(name);
        }
    }
    names.sort();
    names.insert(0, HOST.to_owned());
    names.into_iter().map(|name| Ok(Arc::new(Part::open(&path.join(&name), name, resources)?))).collect()
}

/// Whether an ELF or PE file begins like this.
pub(super) fn begins_binary(magic: [u8; 4]) -> bool {
    magic == object::elf::ELFMAG || magic.starts_with(b"MZ")
}
