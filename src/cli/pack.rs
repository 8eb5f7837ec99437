//! `kpackfs kpack create` and `kpackfs kpack bundle`: archives and offload bundles from code objects.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as Slot;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::{Context, bail, ensure};
use clap::Args;

use super::options::CompressionOptions;
use super::progress::show_bytes;
use super::replacing::Replacing;
use super::said::{SaidOptions, WrittenOutput};
use super::terminal::warn;
use crate::export::{self, Inputs, NewFiles};
use crate::fatbin::{CODE_HEADER, CodeObject, bundle_of, code_problem, code_target};
use crate::gpu::TargetId;
use crate::kpack::{ArchiveEntry, ArchiveRope, BundleJobs, Frame, make_archives, unmade_size};
use crate::metrics::Progress;
use crate::resources::Resources;
use crate::rope::{Content, Materialize};
use crate::source::{EntryKind, EntryPath, Input, open_file};
use crate::split::{self, Plan};

/// The default group of archives.
const GROUP: &str = "kernels";

/// Files with their names in archives and their paths.
type Contents = Vec<(String, PathBuf, Arc<dyn Content>)>;

#[derive(Debug, Args)]
#[command(after_long_help = "Example:\n  kpackfs kpack create --from-binary libtorch_hip.so -o archives")]
pub(super) struct Create {
    /// Code objects, and directories of them
    ///
    /// Their names in archives are the paths below the directory, or the paths as given.
    #[arg(required_unless_present = "from_binary")]
    file: Vec<PathBuf>,

    /// Directory to write to, or a file that ends in .kpack
    ///
    /// The directory gets `GROUP_TARGET.kpack` for each target. A file is for one target.
    #[arg(short, long, value_name = "OUT")]
    pub(super) output: PathBuf,

    /// Target of the code [default: the one in its ELF header]
    #[arg(long, value_name = "TARGET", value_parser = TargetId::typed)]
    target: Option<TargetId>,

    /// Take the code of this fat binary
    ///
    /// Its names are those that its wrappers look up after `split`.
    #[arg(long, value_name = "BINARY", conflicts_with = "file")]
    from_binary: Option<PathBuf>,

    /// Name of the archives
    ///
    /// The default is the name of the only directory or of the binary, or "kernels".
    #[arg(long, value_name = "NAME")]
    group: Option<String>,

    #[command(flatten)]
    compression: CompressionOptions,

    #[command(flatten)]
    replacing: Replacing,

    #[command(flatten)]
    said: SaidOptions,
}

impl Create {
    /// What is read.
    pub(super) fn inputs(&self) -> Vec<PathBuf> {
        self.file.iter().chain(&self.from_binary).cloned().collect()
    }

    pub(super) fn run(&self, memory: u64) -> anyhow::Result<()> {
        let resources = Resources::new(memory);
        let archives = match &self.from_binary {
            Some(binary) => self.of_binary(binary, &resources)?,
            None => self.of_files(&resources)?,
        };
        let is_file = self.output.extension().is_some_and(|extension| extension == "kpack");
        if is_file && archives.len() > 1 {
            let targets: Vec<_> = archives.iter().map(|(_, archive)| archive.target().to_string()).collect();
            let output = self.output.display();
            bail!("{output}: there is code for {}; name a directory, or one of them (--target)", targets.join(", "));
        }
        let made: Vec<_> = archives.iter().map(|(_, archive)| Arc::clone(archive)).collect();
        show_bytes("Writing", |progress| {
            let made: Vec<_> = made.iter().map(|archive| &**archive).collect();
            progress.expect(unmade_size(&made));
            make_archives(&made, &progress.done)
        })?;
        let mut new = NewFiles::new(self.replacing.force);
        for (name, archive) in archives {
            let path = if is_file { self.output.clone() } else { self.output.join(name) };
            new.add(path, format!("the archive for {}", archive.target()), archive)?;
        }
        let inputs = Inputs::of_files(&self.inputs());
        let places = new.write(&inputs, warn, |archive, file, path| copy(&*archive.make()?, file, path))?;
        let written = WrittenOutput::at(("archive", "archives"), &self.output, &places)?;
        self.said.say(&written.next("kpackfs kpack list", places.first()))
    }

    /// The archives that `split` would make for a binary, with their names.
    fn of_binary(&self, binary: &Path, resources: &Arc<Resources>) -> anyhow::Result<Vec<(String, Arc<ArchiveRope>)>> {
        let options = split::PlanOptions {
            group: self.group.clone(),
            compression: self.compression.compression(),
            ..split::PlanOptions::default()
        };
        let plan =
            Plan::make(&Input::open(binary, resources)?, &options, &BundleJobs::new(resources), &Progress::default())?;
        plan.warnings.iter().for_each(|warning| warn(warning));
        let is_wanted = |archive: &ArchiveRope| self.target.as_ref().is_none_or(|target| target == archive.target());
        let archives = plan.archives.iter().filter(|planned| is_wanted(&planned.archive));
        let named = archives.map(|it| (String::from_utf8_lossy(it.path.name()).into_owned(), Arc::clone(&it.archive)));
        let named: Vec<_> = named.collect();
        let existing: Vec<_> = plan.archives.iter().map(|planned| planned.archive.target().to_string()).collect();
        match &self.target {
            _ if existing.is_empty() => bail!("{}: no code objects in it", binary.display()),
            Some(target) if named.is_empty() => {
                bail!("{}: no code objects for {target}, but for {}", binary.display(), existing.join(", "))
            }
            _ => Ok(named),
        }
    }

    /// An archive for each target of some files.
    fn of_files(&self, resources: &Arc<Resources>) -> anyhow::Result<Vec<(String, Arc<ArchiveRope>)>> {
        let mut objects = BTreeMap::<TargetId, BTreeMap<String, CodeObject>>::new();
        for (name, path, content) in self.contents(resources)? {
            let Some(object) = self.object(&path, content)? else { continue };
            match objects.entry(object.target.clone()).or_default().entry(name) {
                Slot::Vacant(slot) => drop(slot.insert(object)),
                Slot::Occupied(slot) => {
                    let (path, name) = (path.display(), slot.key());
                    bail!("{path}: there is another code object for {} that is called {name}", object.target)
                }
            }
        }
        ensure!(!objects.is_empty(), "there are no code objects in what was named");
        let jobs = BundleJobs::new(resources);
        let group = self.group()?;
        let entry = |(binary, (name, object)): (usize, (String, CodeObject))| {
            let frame = Arc::new(Frame::new(object, self.compression.compression().level(), resources));
            ArchiveEntry { binary, kernel_name: name.into(), wrapper: None, frame }
        };
        let archive = |(target, objects): (TargetId, BTreeMap<String, CodeObject>)| {
            let name = format!("{group}_{target}.kpack");
            let entries = objects.into_iter().enumerate().map(entry).collect();
            (name, Arc::new(ArchiveRope::new(&group, target, self.compression.compression(), entries, &jobs)))
        };
        Ok(objects.into_iter().map(archive).collect())
    }

    /// All files that were named, and all files in directories that were named.
    fn contents(&self, resources: &Arc<Resources>) -> anyhow::Result<Contents> {
        let mut contents = Vec::new();
        for place in &self.file {
            if !place.is_dir() {
                contents.push((text(place, &name_of(place)?)?, place.clone(), open_file(place, resources)?));
                continue;
            }
            for entry in Input::open(place, resources)?.entries {
                if let EntryKind::File { content, .. } = entry.kind {
                    let path = place.join(entry.path.as_path());
                    contents.push((text(&path, &entry.path)?, path, content));
                }
            }
        }
        Ok(contents)
    }

    /// A file as a code object. Other files are skipped, unless they were named.
    fn object(&self, path: &Path, content: Arc<dyn Content>) -> anyhow::Result<Option<CodeObject>> {
        let otherwise = "needs --target; --from-binary takes the code of a fat binary";
        let object = code_object(path, content, self.target.as_ref(), otherwise);
        match object {
            Err(_) if !self.file.iter().any(|named| named == path) => Ok(None),
            object => object.map(Some),
        }
    }

    fn group(&self) -> anyhow::Result<String> {
        let of_directory = match self.file.as_slice() {
            [only] if only.is_dir() => only.canonicalize()?.file_name().map(|it| it.to_string_lossy().into_owned()),
            _ => None,
        };
        let group = self.group.clone().or(of_directory).unwrap_or_else(|| GROUP.to_owned());
        if group.is_empty() || group.starts_with('.') || group.contains('/') {
            bail!("--group {group:?}: it cannot be a part of a file name");
        }
        Ok(group)
    }
}

/// Writes the code objects `files` as one offload bundle.
pub(super) fn bundle(files: &[PathBuf], output: &Path, replacing: Replacing) -> anyhow::Result<WrittenOutput> {
    let resources = Resources::new(0);
    let mut objects = Vec::<CodeObject>::new();
    for path in files {
        let otherwise = "has several; `kpackfs kpack unbundle` takes them out of a binary or a bundle";
        let object = code_object(path, open_file(path, &resources)?, None, otherwise)?;
        if objects.iter().any(|other| other.target == object.target) {
            bail!("{}: there is another code object for {}", path.display(), object.target);
        }
        if let Some(other) = objects.iter().find(|other| other.target.conflicts_with(&object.target)) {
            bail!(
                "{}: its code for {} and that for {} fit one GPU, and compilers refuse such pairs in a bundle; make two bundles, or \
                 give code objects of which all or none name a feature",
                path.display(),
                object.target,
                other.target
            );
        }
        objects.push(object);
    }
    objects.sort_by(|one, other| one.target.cmp(&other.target));
    let mut new = NewFiles::new(replacing.force);
    new.add(output.to_owned(), "the bundle".to_owned(), bundle_of(&objects)?)?;
    let places = new.write(&Inputs::of_files(files), warn, |bundle, file, path| copy(bundle, file, path))?;
    let written = WrittenOutput::at(("bundle", "bundles"), output, &places)?;
    let target = objects.first().map(|object| object.target.to_string()).unwrap_or_default();
    Ok(written.next("kpackfs why --target", [target.as_ref(), output.as_os_str()]))
}

/// A code object for `target`, or else for the target in its header. `otherwise` is what to do if that has none.
fn code_object(
    path: &Path,
    content: Arc<dyn Content>,
    target: Option<&TargetId>,
    otherwise: &str,
) -> anyhow::Result<CodeObject> {
    let header = content.beginning(CODE_HEADER)?;
    let target = match (target, code_target(&header)) {
        (Some(target), _) => target.clone(),
        (None, Some(target)) => target,
        (None, None) => {
            bail!("{}: its header names no target; it is no code object, or {otherwise}", path.display())
        }
    };
    if let Some(problem) = code_problem(&header, &target) {
        bail!("{}: not taken as code for {target}: {problem}", path.display());
    }
    Ok(CodeObject::new(target, content))
}

/// The name of a file in archives: its path as it was given, or its base name if that path leads out of the directory.
fn name_of(path: &Path) -> anyhow::Result<EntryPath> {
    let named = path.strip_prefix(".").unwrap_or(path);
    let of = |path: &Path| EntryPath::new(path.as_os_str().as_encoded_bytes());
    of(named)
        .or_else(|_| of(Path::new(named.file_name().unwrap_or_default())))
        .with_context(|| path.display().to_string())
}

/// A name for archives.
fn text(path: &Path, name: &EntryPath) -> anyhow::Result<String> {
    let name = std::str::from_utf8(name.as_bytes());
    Ok(name.with_context(|| format!("{}: archives need names in UTF-8", path.display()))?.to_owned())
}

fn copy(content: &dyn Content, file: &File, path: &Path) -> anyhow::Result<()> {
    Ok(export::copy(content, file, path, &AtomicU64::new(0))?)
}
