//! What is checked: which paths are parts of one split, and which stand for themselves.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::report::Findings;
use super::{VerifyError, artifacts};
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
    pub(super) all: Vec<Part>,
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
    fn open(path: &Path, label: String, resources: &Arc<Resources>) -> Result<Self, VerifyError> {
        let input = Input::open(path, resources)?;
        let name = input.location.file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(Self { name: name.unwrap_or_default(), label, input, origins: HashMap::new() })
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
    fn new(kind: Kind, parts: Vec<Part>) -> Self {
        Self { kind, component: None, all: parts }
    }

    /// How device code is cut.
    pub(super) fn packaging(&self) -> Packaging {
        if self.component.is_some() { Packaging::Processors } else { Packaging::Bundles }
    }

    /// The files of all parts.
    pub(super) fn files(&self) -> impl Iterator<Item = PartFile<'_>> {
        let numbered = self.all.iter().enumerate();
        numbered.flat_map(|(part, at)| {
            at.input.entries.iter().filter_map(move |entry| match &entry.kind {
                EntryKind::File { content, .. } => Some(PartFile { part, path: &entry.path, content }),
                EntryKind::Directory | EntryKind::Symlink(_) => None,
            })
        })
    }

    /// What a finding calls a file.
    pub(super) fn label(&self, part: usize, path: &EntryPath) -> String {
        self.all.get(part).map_or_else(|| path.to_string(), |part| part.label(path))
    }
}

/// Sorts the paths: artifacts are told by their manifests; a directory that holds `host/` is a split; of several other
/// directories or wheels the first is the host part of the others; everything else stands for itself.
pub(super) fn open(
    paths: &[PathBuf],
    resources: &Arc<Resources>,
    findings: &Findings,
) -> Result<Vec<Subject>, VerifyError> {
    if let Some(artifacts) = artifacts::open(paths, resources, findings)? {
        return Ok(artifacts.into_iter().map(Subject::Parts).collect());
    }
    let is_part = |path: &PathBuf| (path.is_dir() && !is_split(path)) || is_wheel(path);
    if paths.len() > 1 && paths.iter().all(is_part) {
        let open = |path: &PathBuf| Part::open(path, path.display().to_string(), resources);
        let parts = paths.iter().map(open).collect::<Result<_, _>>()?;
        return Ok(vec![Subject::Parts(Parts::new(Kind::Split, parts))]);
    }
    if paths.is_empty() {
        return Err(VerifyError::Nothing);
    }
    paths.iter().map(|path| open_one(path, resources)).collect()
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
        let parts = vec![Part::open(path, String::new(), resources)?];
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
    } else if magic == object::elf::ELFMAG || magic.starts_with(b"MZ") {
        Ok(Subject::Binary(file))
    } else {
        Err(VerifyError::UnknownKind(path.to_owned()))
    }
}

fn open_split(path: &Path, resources: &Arc<Resources>) -> Result<Vec<Part>, VerifyError> {
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
    names.into_iter().map(|name| Part::open(&path.join(&name), name, resources)).collect()
}
