//! Assembles the wheels of a split from dist-info and payload.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::digest::Digest;
use super::entry::WheelEntry;
use super::fat::FatWheel;
use super::record::record;
use super::unchanged::{InputDigests, Unchanged};
use super::zip::{DosTime, archive};
use crate::deflate::DeflateLevel;
use crate::gpu::{BundleKey, GpuSet, TargetId};
use crate::rope::{Content, Rope};
use crate::source::EntryPath;
use crate::split::{SplitId, Statement};
use crate::text::more;
use crate::wheel::{
    Devices, Paths, Requirements, STATEMENT, VariantLabel, WheelError, WheelName, has_property, installed_with,
    variant_json,
};

/// The user's choices.
#[derive(Clone, Debug, Default)]
pub struct AssemblyOptions {
    /// The prefix of the device distributions' names; `amd-<name>-device` if `None`.
    pub device_prefix: Option<String>,
    /// Additional requirements of the device wheels. `@GFXARCH@` is replaced by the bundle key.
    pub device_requires: Vec<String>,
    /// How requirements with extras for GPUs appear in the wheels.
    pub requirements: Requirements,
    /// The level with which members are deflated that have no deflate stream. `None` stores them.
    pub deflate: Option<DeflateLevel>,
}

/// One of the wheels of a split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SplitWheel {
    /// Everything except device code.
    Host,
    /// A copy of the host wheel with markers that choose the device wheels.
    Variant(VariantLabel),
    /// The device code of a bundle key.
    Device(BundleKey),
    /// Everything, as before the split.
    Fat,
    /// Everything, with device code for some GPUs in binaries.
    Thin {
        /// The GPUs.
        gpus: GpuSet,
        /// Whether the version names them. Such a version sorts above the plain one (PEP 440).
        has_local_version: bool,
    },
}

/// The split that wheels are of.
#[derive(Clone, Debug)]
pub(super) struct StatedSplit {
    pub(super) id: SplitId,
    /// The restrictions of the split, which host wheels state.
    pub(super) statement: Statement,
}

/// The wheels of a split.
#[derive(Clone, Debug)]
pub struct Wheels {
    pub(crate) fat: FatWheel,
    pub(crate) devices: Devices,
    pub(super) options: AssemblyOptions,
    /// The split that the wheels are of.
    pub(super) split: Option<StatedSplit>,
    /// What the device wheels of the input require of other distributions.
    pub(super) required: BTreeMap<BundleKey, Vec<String>>,
    /// Whether members that the input stores are deflated: only those of wheels that are split.
    pub(super) deflates_stored: bool,
    /// Those of the files of the fat wheel.
    pub digests: Arc<InputDigests>,
}

impl Wheels {
    /// The wheels for these bundle keys.
    pub fn new(
        fat: FatWheel,
        keys: impl IntoIterator<Item = BundleKey>,
        options: &AssemblyOptions,
    ) -> Result<Self, WheelError> {
        let default = || Devices::default_prefix(&fat.metadata.name);
        let prefix = options.device_prefix.clone().or_else(|| fat.added.prefix()).unwrap_or_else(default);
        let devices = Devices::new(&prefix, keys)?;
        let digests = InputDigests::new(&fat.record, &fat.resources);
        let (options, split, required) = (options.clone(), None, BTreeMap::new());
        Ok(Self { fat, devices, options, split, required, deflates_stored: false, digests })
    }

    /// Warnings about the input's dist-info and its use.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.fat.warnings.clone();
        warnings.extend(self.fat.metadata.host(&self.devices).warnings);
        warnings.extend(self.requirement_warnings());
        warnings
    }

    /// The file name of a part's wheel.
    pub fn name(&self, part: &SplitWheel) -> Result<WheelName, WheelError> {
        let name = &self.fat.name;
        match part {
            SplitWheel::Host | SplitWheel::Fat | SplitWheel::Thin { has_local_version: false, .. } => Ok(name.clone()),
            SplitWheel::Variant(label) => match &name.variant {
                Some(existing) => Err(WheelError::IsVariant(name.to_string(), existing.clone())),
                None => Ok(name.of_variant(label.as_str())),
            },
            SplitWheel::Device(key) => Ok(name.of_distribution(self.distribution(key)?)),
            SplitWheel::Thin { gpus, .. } => {
                Ok(WheelName { version: local_version(&name.version, gpus), ..name.clone() })
            }
        }
    }

    /// Maps paths of the input to paths in a part's wheel.
    pub fn paths(&self, part: &SplitWheel) -> Result<Paths<'_>, WheelError> {
        // A variant wheel has a variant.json of its own.
        let name = if let SplitWheel::Variant(_) = part { self.fat.name.clone() } else { self.name(part)? };
        Ok(self.fat.paths(&name))
    }

    /// The path in part `to` of a file of part `from`: dist-info and data directories have the part's own name.
    pub fn renamed(&self, from: &SplitWheel, to: &SplitWheel, path: &EntryPath) -> Result<EntryPath, WheelError> {
        let [from, to] = [self.name(from)?, self.name(to)?];
        let first = path.components().next().unwrap_or_default();
        let suffix =
            ["dist-info", "data"].into_iter().find(|suffix| first == format!("{}.{suffix}", from.stem()).as_bytes());
        let Some(suffix) = suffix else { return Ok(path.clone()) };
        let directory = EntryPath::root().child(format!("{}.{suffix}", to.stem()).as_bytes());
        Ok(path.components().skip(1).fold(directory, |path, component| path.child(component)))
    }

    /// A new file at its path in a wheel.
    pub fn file(&self, path: EntryPath, executable: bool, content: Arc<dyn Content>) -> WheelEntry {
        let digest = Arc::new(Digest::remembered(path.to_text(), content, None, &self.fat.resources));
        WheelEntry { path, executable, digest, deflated: None }
    }

    /// A new file, or one that replaces a file of the input, at its path in the input.
    pub fn made(
        &self,
        part: &SplitWheel,
        path: &EntryPath,
        mode: u16,
        content: Arc<dyn Content>,
    ) -> Result<Option<WheelEntry>, WheelError> {
        Ok(self.paths(part)?.of(path).map(|path| self.file(path, mode & 0o111 != 0, content)))
    }

    /// The dist-info files that replace the input's in a part, without RECORD. They depend on the paths of the payload
    /// (in the part's wheel), not on contents.
    pub fn dist_info(
        &self,
        part: &SplitWheel,
        payload: impl IntoIterator<Item = impl Borrow<EntryPath>>,
    ) -> Result<Vec<WheelEntry>, WheelError> {
        let name = self.name(part)?;
        let directory = name.dist_info();
        let mut files = Vec::new();
        let stated = match (&self.split, part) {
            (Some(split), SplitWheel::Host | SplitWheel::Variant(_)) => {
                Some(split.statement.clone().of_host().to_rope(&split.id)?)
            }
            (Some(split), SplitWheel::Device(key)) => Some(Statement::of_device(key).to_rope(&split.id)?),
            (None, _) | (Some(_), SplitWheel::Fat | SplitWheel::Thin { .. }) => None,
        };
        files.extend(stated.map(|text| WheelEntry::stored(directory.child(STATEMENT.as_bytes()), Arc::new(text))));
        let mut add = |file: &[u8], text: Vec<u8>| -> Result<(), WheelError> {
            files.push(WheelEntry::of_text(directory.child(file), text)?);
            Ok(())
        };
        match part {
            SplitWheel::Host => {
                add(b"METADATA", self.host_metadata()?.host(&self.devices).bytes)?;
                add(b"WHEEL", self.fat.wheel_file.host(&name))?;
            }
            SplitWheel::Fat => return self.whole_dist_info(&name, None),
            SplitWheel::Thin { gpus, .. } => return self.whole_dist_info(&name, Some(gpus)),
            SplitWheel::Variant(label) => {
                let targets = self.variant_targets()?;
                add(b"METADATA", self.host_metadata()?.variant(&self.devices, &targets).bytes)?;
                add(b"WHEEL", self.fat.wheel_file.host(&name))?;
                add(b"variant.json", variant_json(label, &targets).into_bytes())?;
            }
            SplitWheel::Device(key) => {
                let licences: Vec<_> = self.fat.licences.iter().map(|licence| licence.path.clone()).collect();
                let (requires, moved) = (&self.options.device_requires, self.requirements_of(key));
                let metadata = self.fat.metadata.device(&self.devices, key, requires, &moved, &licences)?;
                add(b"METADATA", metadata.into_bytes())?;
                add(b"WHEEL", self.fat.wheel_file.device(&name).into_bytes())?;
                let packages = top_level(payload);
                if !packages.is_empty() {
                    add(b"top_level.txt", packages.into_bytes())?;
                }
                for licence in &self.fat.licences {
                    let Some(unchanged) = Unchanged::of(&licence.entry) else { continue };
                    let path = directory.child(format!("licenses/{}", licence.path).as_bytes());
                    files.push(self.digests.file_unasked(path, &unchanged));
                }
            }
        }
        Ok(files)
    }

    /// The dist-info files of a self-contained wheel of this name for these GPUs or for all, without RECORD.
    pub fn whole_dist_info(&self, name: &WheelName, gpus: Option<&GpuSet>) -> Result<Vec<WheelEntry>, WheelError> {
        let directory = name.dist_info();
        let metadata = self.whole_metadata(gpus)?;
        let is_same = name.version == self.fat.name.version;
        let metadata = if is_same { metadata.bytes() } else { metadata.of_version(&name.version) };
        let metadata = WheelEntry::of_text(directory.child(b"METADATA"), metadata)?;
        Ok(vec![metadata, WheelEntry::of_text(directory.child(b"WHEEL"), self.fat.wheel_file.host(name))?])
    }

    /// A part with RECORD. `files` are payload and dist-info files.
    pub fn assemble(&self, part: &SplitWheel, mut files: Vec<WheelEntry>) -> Result<Assembled, WheelError> {
        let name = self.name(part)?;
        let directory = name.dist_info();
        // dist-info comes last, so that it can be changed at the end of the file (Binary distribution format).
        files.sort_by_cached_key(|file| (file.path.below(&directory).is_some(), file.path.as_bytes().to_vec()));
        if let Some((file, _)) = files.iter().zip(files.iter().skip(1)).find(|(file, next)| file.path == next.path) {
            return Err(WheelError::Twice(file.path.clone()));
        }
        let path = directory.child(b"RECORD");
        let record = record(&files, &path)?;
        files.push(WheelEntry::stored(path, Arc::new(record)));
        Ok(Assembled { name, files })
    }

    /// The path of a part's file in an installation of several parts. Files that are not installed next to packages
    /// stay in the host wheel's data directory.
    pub fn installed(&self, path: &EntryPath) -> EntryPath {
        installed_with(path, format!("{}.data", self.fat.name.stem()).as_bytes())
    }

    /// The RECORD of an installed part.
    pub fn installed_record(&self, part: &Assembled) -> Result<Rope, WheelError> {
        let Some((own, files)) = part.files.split_last() else { return Ok(Rope::default()) };
        let file = |file: &WheelEntry| WheelEntry { path: self.installed(&file.path), ..file.clone() };
        let mut files: Vec<_> = files.iter().map(file).collect();
        files.sort_by(|a, b| a.path.cmp(&b.path));
        files.dedup_by(|a, b| a.path == b.path);
        record(&files, &own.path)
    }

    /// The name and text of the index file that must be next to variant wheels. uv ignores variant wheels without it.
    pub fn variants_index(&self, label: &VariantLabel) -> Result<(String, String), WheelError> {
        let name = self.name(&SplitWheel::Variant(label.clone()))?;
        Ok((format!("{}-variants.json", name.stem()), variant_json(label, &self.variant_targets()?)))
    }

    fn distribution(&self, key: &BundleKey) -> Result<&str, WheelError> {
        self.devices.distribution(key).ok_or_else(|| WheelError::NoSuchPart(key.to_string()))
    }

    /// The targets by which a variant can be chosen.
    fn variant_targets(&self) -> Result<Vec<&BundleKey>, WheelError> {
        let targets: Vec<_> = self.devices.targets().filter(|key| has_property(key)).collect();
        if targets.is_empty() { Err(WheelError::NoVariant(self.fat.name.to_string())) } else { Ok(targets) }
    }
}

/// The files of a part, in wheel order.
#[derive(Clone, Debug)]
pub struct Assembled {
    /// The wheel's file name.
    pub name: WheelName,
    /// All files: dist-info files last, and RECORD after them.
    pub files: Vec<WheelEntry>,
}

impl Assembled {
    /// The wheel. Building it reads no content.
    pub fn wheel(&self, stamp: DosTime) -> Result<Rope, WheelError> {
        archive(&self.files, stamp)
    }

    /// Digests to compute before the whole wheel can be read. Those of RECORD and of the manifest are not among them,
    /// because they need all others.
    pub fn unknown_digests(&self) -> Vec<Arc<Digest>> {
        let is_of_others = |file: &WheelEntry| file.is_manifest() || file.is_in_dist_info(b"RECORD");
        let unknown = |file: &&WheelEntry| file.digest.known().is_none() && !is_of_others(file);
        self.files.iter().filter(unknown).map(|file| Arc::clone(&file.digest)).collect()
    }
}

/// Reasons why a wheel with files at these paths cannot be used in some places.
pub fn warnings_of(name: &WheelName, paths: impl Iterator<Item = EntryPath>) -> Vec<String> {
    let directory = name.dist_info();
    // Control characters beyond ASCII begin with 0xC2.
    let is_odd =
        |byte: u8| matches!(byte, 0..=31 | 127 | 0xc2 | b'<' | b'>' | b':' | b'"' | b'|' | b'?' | b'*' | b'\\');
    let mut odd: Vec<_> = paths.filter(|path| path.as_bytes().iter().any(|&byte| is_odd(byte))).collect();
    odd.sort_by_cached_key(|path| (path.is_below(&directory), path.as_bytes().to_vec()));
    let find = |pattern: &dyn Fn(char) -> bool| {
        let mut found = odd.iter().filter(|path| path.to_text().contains(pattern)).map(ToString::to_string);
        found.next().map(|first| (first, found.count()))
    };
    let mut warnings = Vec::new();
    if let Some((first, rest)) = find(&|letter| r#"<>:"|?*\"#.contains(letter)) {
        warnings.push(format!("{name}: {first}{}: no such name can be installed on Windows", more(rest, "")));
    }
    if let Some((first, rest)) = find(&char::is_control) {
        warnings.push(format!("{name}: {first:?}{}: uv and PyPI refuse control characters in names", more(rest, "")));
    }
    warnings
}

/// A version with a local part that names GPUs. A local part consists of letters, digits and dots (PEP 440, "Local
/// version identifiers"): `2.10.0+rocm7.1` for `gfx90a:xnack-` becomes `2.10.0+rocm7.1.gfx90a.xnackoff`.
fn local_version(version: &str, gpus: &GpuSet) -> String {
    let part = |target: &TargetId| {
        target.to_string().replace('+', "on").replace(":sramecc-", ":srameccoff").replace(":xnack-", ":xnackoff")
    };
    let names: Vec<_> = gpus.targets().iter().map(|target| part(target).replace([':', '-', '_'], ".")).collect();
    let separator = if version.contains('+') { '.' } else { '+' };
    format!("{version}{separator}{}", names.join("."))
}

/// The packages of a payload, one on each line. Files in `*.data/platlib` or `purelib` are installed from there.
fn top_level(payload: impl IntoIterator<Item = impl Borrow<EntryPath>>) -> String {
    let mut packages = BTreeSet::new();
    for path in payload {
        let path: &EntryPath = path.borrow();
        let mut components = path.components();
        let mut first = components.next();
        if first.is_some_and(|first| first.ends_with(b".data")) && path.depth() > 2 {
            first = components.next().filter(|scheme| matches!(*scheme, b"platlib" | b"purelib"));
            first = first.and_then(|_| components.next());
        }
        let name = first.filter(|_| components.next().is_some()).and_then(|name| std::str::from_utf8(name).ok());
        if let Some(name) = name.filter(|name| is_identifier(name) && !packages.contains(*name)) {
            packages.insert(name.to_owned());
        }
    }
    packages.into_iter().flat_map(|package| [package, "\n".to_owned()]).collect()
}

fn is_identifier(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_alphanumeric() || letter == '_')
}
