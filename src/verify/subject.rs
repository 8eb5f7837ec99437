//! What is checked: which paths are parts of one split, and which stand for themselves.

use std::collections::{HashMap, HashSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::arrange::Named;
use super::installed::{DataDirectories, follow_links_to_caches, install};
use super::lookup::is_archive;
use super::report::{Check, Findings};
use super::{VerifyError, arrange, artifacts, distributions};
use crate::database::Databases;
use crate::gpu::BundleKey;
use crate::kpack;
use crate::resources::Resources;
use crate::rope::{Content, equal};
use crate::source::{Entry, EntryKind, EntryPath, Input, SourceError, open_file};
use crate::split::{Packaging, STATEMENT, Statement};
use crate::view::{DEVICE, HOST, MERGED, REPORTS, WHEELS};
use crate::wheel::normalise;

/// The longest statement of a split's restrictions.
const MOST_STATED: u64 = 1 << 20;

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
    /// The file in which the split says what it was restricted to, if that is not in a wheel.
    pub(super) said: Option<PathBuf>,
    /// The host part, or the whole installation, is the first.
    pub(super) all: Vec<Arc<Part>>,
}

/// How architectures are kept apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A host part and device parts.
    Split,
    /// A host part and some of its device parts.
    Partial,
    /// The host part or device parts of an artifact, without the others. What needs both is not checked.
    Fragment,
    /// Everything in one place, as it is installed.
    Installation,
}

/// A directory or wheel.
#[derive(Debug)]
pub(super) struct Part {
    /// The bundle key of a device wheel, the name of its directory, or the family in an artifact's name.
    pub(super) name: String,
    /// What its files are called in findings: this, a slash, the path.
    pub(super) label: String,
    pub(super) input: Input,
    /// Where files are in a wheel or an artifact, if that is not where they are installed.
    pub(super) origins: HashMap<EntryPath, EntryPath>,
    /// What a wheel installs from.
    pub(super) data: DataDirectories,
}

/// A file in one of the parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartFile<'a> {
    pub(super) part: usize,
    pub(super) path: &'a EntryPath,
    pub(super) content: &'a Arc<dyn Content>,
}

impl Part {
    pub(super) fn open(
        path: &Path,
        label: String,
        resources: &Arc<Resources>,
        findings: &Findings,
    ) -> Result<Self, VerifyError> {
        let mut input = Input::open(path, resources)?;
        follow_links_to_caches(&mut input, resources);
        let data = DataDirectories::of(&input);
        let of_path = |path: &EntryPath| if label.is_empty() { path.to_string() } else { format!("{label}/{path}") };
        let say = |path: &EntryPath, reason| findings.add(Check::Separation, of_path(path), reason);
        let origins = install(&mut input, |path| data.installed(path), say);
        let of_wheel = input.dist_info().map(|path| path.to_text().split('-').next().unwrap_or_default().to_owned());
        let of_wheel = of_wheel.and_then(|name| Some(distributions::key(&normalise(&name))?.to_string()));
        let of_path = input.location.file_name().map(|name| name.to_string_lossy().into_owned());
        let is_key = |name: &String| name.parse().is_ok_and(|key: BundleKey| key.is_known());
        let name = of_path.clone().filter(is_key).or(of_wheel).or(of_path).unwrap_or_default();
        Ok(Self { name, label, input, origins, data })
    }

    /// Its files.
    pub(super) fn files(&self) -> impl Iterator<Item = (&EntryPath, &Arc<dyn Content>)> {
        self.input.entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::File { content, .. } => Some((&entry.path, content)),
            EntryKind::Directory | EntryKind::Symlink(_) => None,
        })
    }

    /// Where a file is that a RECORD names.
    pub(super) fn recorded(&self, path: &EntryPath) -> Option<EntryPath> {
        let is_there = self.input.entry(path).is_some();
        if is_there { Some(path.clone()) } else { self.data.outside_of_data(path) }
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
        Self { kind, component: None, said: None, all: parts }
    }

    /// What the split says of its restrictions, and where: in its directory or mount, or in the host wheel.
    pub(super) fn statement(&self) -> Result<Option<(String, Statement)>, VerifyError> {
        let bytes = match &self.said {
            Some(file) => Some((file.display().to_string(), read_small(file)?)),
            None => self.statement_of_wheel(),
        };
        let Some((path, bytes)) = bytes else { return Ok(None) };
        match Statement::parse(&bytes) {
            Ok(statement) => Ok(Some((path, statement))),
            Err(source) => Err(VerifyError::Statement { path, source }),
        }
    }

    /// The statement in a `*.dist-info` directory of the host part, if there is exactly one.
    fn statement_of_wheel(&self) -> Option<(String, Vec<u8>)> {
        let host = self.all.first()?;
        let is_it = |path: &EntryPath| {
            path.depth() == 2 && Part::is_metadata(path) && path.name() == crate::wheel::STATEMENT.as_bytes()
        };
        let mut found = host.files().filter(|(path, content)| is_it(path) && content.size() <= MOST_STATED);
        let (path, content) = found.next()?;
        let mut bytes = vec![0; usize::try_from(content.size()).ok()?];
        content.read_at(0, &mut bytes).ok()?;
        found.next().is_none().then(|| (host.label(path), bytes))
    }

    /// Whether binaries of a part are looked at: device parts have none.
    pub(super) fn is_checked(&self, part: usize) -> bool {
        part == 0 || self.kind == Kind::Installation
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

/// Sorts the paths: artifacts are told by their manifests; what `split` and `mount` write and show is told by the names of
/// its directories; a directory of wheels stands for its wheels; several other directories or wheels are arranged by what
/// they hold; everything else stands for itself.
pub(super) fn open(
    paths: &[PathBuf],
    resources: &Arc<Resources>,
    findings: &Findings,
) -> Result<Vec<Subject>, VerifyError> {
    if let Some(artifacts) = artifacts::open(paths, resources, findings)? {
        return Ok(artifacts.into_iter().map(Subject::Parts).collect());
    }
    let mut parts = Vec::new();
    let mut others = Vec::new();
    let mut subjects = Vec::new();
    for path in paths {
        let wheels = wheels_in(path)?;
        if !wheels.is_empty() {
            parts.extend(wheels.into_iter().map(|path| Named { path, is_listed: true }));
        } else if let Some(views) = Views::of(path)? {
            subjects.extend(views.open(resources, findings)?);
        } else if path.is_dir() || is_wheel(path) {
            parts.push(Named { path: path.clone(), is_listed: false });
        } else {
            others.push(path.clone());
        }
    }
    match parts.as_slice() {
        [Named { path, is_listed: false }] => others.push(path.clone()),
        parts => subjects.extend(arrange::arrange(parts, resources, findings)?.into_iter().map(Subject::Parts)),
    }
    for path in others {
        subjects.push(open_one(&path, resources, findings)?);
    }
    Ok(subjects)
}

/// The wheels in a directory that holds wheels and no other directory, so that it is neither a split nor an installation.
fn wheels_in(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let mut wheels = Vec::new();
    if !path.is_dir() {
        return Ok(wheels);
    }
    for entry in read_directory(path)? {
        let is_hidden = entry.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        if entry.is_dir() && !is_hidden {
            return Ok(Vec::new());
        }
        if entry.is_file() && is_wheel(&entry) {
            wheels.push(entry);
        }
    }
    Ok(wheels)
}

/// What a directory holds, sorted.
fn read_directory(path: &Path) -> Result<Vec<PathBuf>, SourceError> {
    let io = |source| SourceError::Io { path: path.to_owned(), source };
    let entries = std::fs::read_dir(path).map_err(io)?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>().map_err(io)?;
    paths.sort();
    Ok(paths)
}

fn is_wheel(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "whl")
}

fn read_small(path: &Path) -> Result<Vec<u8>, SourceError> {
    let io = |source| SourceError::Io { path: path.to_owned(), source };
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(io)?;
    std::io::Read::take(file, MOST_STATED).read_to_end(&mut bytes).map_err(io)?;
    Ok(bytes)
}

fn open_one(path: &Path, resources: &Arc<Resources>, findings: &Findings) -> Result<Subject, VerifyError> {
    if path.is_dir() || is_wheel(path) {
        return Ok(Subject::Parts(open_installation(path, String::new(), resources, findings)?));
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

fn open_installation(
    path: &Path,
    label: String,
    resources: &Arc<Resources>,
    findings: &Findings,
) -> Result<Parts, VerifyError> {
    let part = Part::open(path, label, resources, findings)?;
    Ok(Parts::new(Kind::Installation, vec![Arc::new(part)]))
}

/// What `split` writes into a directory, and what a mount shows.
struct Views {
    path: PathBuf,
    has_host: bool,
    /// Names of device parts.
    devices: Vec<String>,
    /// What installations look like.
    merged: Vec<String>,
    wheels: Vec<PathBuf>,
    /// Whether it is a mount, whose views show one and the same file in several places.
    is_mount: bool,
}

impl Views {
    /// Looks at the names in a directory; `None` if there is no view among them.
    fn of(path: &Path) -> Result<Option<Self>, VerifyError> {
        if !path.is_dir() {
            return Ok(None);
        }
        let directories = |path: &Path| -> Result<Vec<String>, SourceError> {
            let directories = read_directory(path)?.into_iter().filter(|path| path.is_dir() && !path.is_symlink());
            Ok(directories.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned())).collect())
        };
        let names = directories(path)?;
        let has = |name: &str| names.iter().any(|it| it == name);
        let has_host = has(HOST);
        let is_key = |name: &String| name.parse().is_ok_and(|key: BundleKey| key.is_known());
        let is_device = |name: &String| {
            let is_reserved = [HOST, DEVICE, MERGED, WHEELS, REPORTS].contains(&name.as_str());
            !is_reserved && (has_host || is_key(name))
        };
        let merged = if has(MERGED) { directories(&path.join(MERGED))? } else { Vec::new() };
        let wheels = if has(WHEELS) { wheels_in(&path.join(WHEELS))? } else { Vec::new() };
        let devices: Vec<_> = names.iter().filter(|name| is_device(name)).cloned().collect();
        let is_installation = names.iter().any(|name| name.ends_with(".dist-info"));
        // A package of an installation can be called as a view is.
        if is_installation || !has_host && devices.is_empty() && !merged.iter().all(is_key) && wheels.is_empty() {
            return Ok(None);
        }
        if !has_host && devices.is_empty() && merged.is_empty() && wheels.is_empty() {
            return Ok(None);
        }
        let is_mount = path.join(REPORTS).join("status.json").exists();
        Ok(Some(Self { path: path.to_owned(), has_host, devices, merged, wheels, is_mount }))
    }

    fn open(&self, resources: &Arc<Resources>, findings: &Findings) -> Result<Vec<Subject>, VerifyError> {
        let mut subjects = Vec::new();
        if self.has_host {
            subjects.push(self.open_split(resources, findings)?);
        } else {
            for name in &self.devices {
                subjects.push(open_installation(&self.path.join(name), name.clone(), resources, findings)?);
            }
        }
        if self.is_mount {
            if !self.merged.is_empty() || !self.wheels.is_empty() {
                findings.note(format!(
                    "{MERGED}/ and {WHEELS}/ of a mount show what {HOST}/ and the device parts are made of; name them to \
                     check them as well"
                ));
            }
        } else {
            for name in self.merged.iter().map(|name| format!("{MERGED}/{name}")) {
                subjects.push(open_installation(&self.path.join(&name), name, resources, findings)?);
            }
            let wheels: Vec<_> = self.wheels.iter().map(|path| Named { path: path.clone(), is_listed: true }).collect();
            subjects.extend(arrange::arrange(&wheels, resources, findings)?);
        }
        Ok(subjects.into_iter().map(Subject::Parts).collect())
    }

    fn open_split(&self, resources: &Arc<Resources>, findings: &Findings) -> Result<Parts, VerifyError> {
        let names = std::iter::once(HOST).chain(self.devices.iter().map(String::as_str));
        let open = |name: &str| Part::open(&self.path.join(name), name.to_owned(), resources, findings);
        let mut parts = names.map(open).collect::<Result<Vec<_>, _>>()?;
        let said = Some(self.path.join(REPORTS).join(STATEMENT)).filter(|file| file.is_file());
        let said = Parts { said, ..Parts::new(Kind::Split, Vec::new()) };
        let statement = said.statement()?.map(|(_, statement)| statement).unwrap_or_default();
        if let Some((host, devices)) = parts.split_first_mut() {
            let of_statement = |source: crate::gpu::TargetIdError| VerifyError::Statement {
                path: STATEMENT.to_owned(),
                source: source.into(),
            };
            take_off(host, devices, &statement.arch().map_err(of_statement)?, findings);
        }
        let kind = if statement.views().is_empty() { Kind::Split } else { Kind::Partial };
        let parts = Parts { kind, all: parts.into_iter().map(Arc::new).collect(), ..said };
        arrange::check_complete(&parts, findings);
        Ok(parts)
    }
}

/// Takes what was overlaid on the host part off it.
fn take_off(host: &mut Part, devices: &[Part], arch: &[BundleKey], findings: &Findings) {
    let chain: Vec<_> = arch.iter().flat_map(BundleKey::packaging_chain).collect();
    let is_overlaid = |device: &&Part| chain.iter().any(|key| key.as_str() == device.name);
    for device in devices.iter().filter(is_overlaid) {
        let files: HashMap<_, _> = device.files().collect();
        let is_of_device = |path: &EntryPath, content: &Arc<dyn Content>| {
            files.get(path).map(|other| equal(&**content, &***other).unwrap_or(false))
        };
        let differs: Vec<_> =
            host.files().filter(|(path, content)| is_of_device(path, content) == Some(false)).collect();
        for (path, _) in differs {
            let reason = format!("it is not the same as {}", device.label(path));
            findings.add(Check::Separation, host.label(path), reason);
        }
        let mut directories: HashSet<EntryPath> = HashSet::new();
        let own = host.input.entries.iter().filter(|entry| !files.contains_key(&entry.path));
        for entry in own.filter(|entry| !matches!(entry.kind, EntryKind::Directory)) {
            directories.extend(std::iter::successors(entry.path.parent(), EntryPath::parent));
        }
        let is_left = |entry: &Entry| match entry.kind {
            EntryKind::Directory => directories.contains(&entry.path) || device.input.entry(&entry.path).is_none(),
            EntryKind::File { .. } | EntryKind::Symlink(_) => !files.contains_key(&entry.path),
        };
        let left = host.input.entries.iter().filter(|entry| is_left(entry)).cloned().collect();
        host.input.entries = left;
    }
}

/// Whether an ELF or PE file begins like this.
pub(super) fn begins_binary(magic: [u8; 4]) -> bool {
    magic == object::elf::ELFMAG || magic.starts_with(b"MZ")
}
