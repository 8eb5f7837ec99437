//! The wheels of a split, and the dist-info that makes each part's directory the unpacked form of its wheel.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use once_cell::sync::OnceCell;
use rayon::prelude::*;

use super::payload::{Payload, device_payload, fat_payload, host_payload};
use super::spliced::spliced;
use crate::gpu::{BundleKey, GpuSet};
use crate::kpack::{Archive, make_archives};
use crate::resources::Resources;
use crate::rope::{Content, Make, ReadError};
use crate::source::{Entry, EntryKind, EntryPath, Input, InputKind};
use crate::split::{Place, Plan, Statement, ThinBinary};
use crate::wheel::{Assembled, Digest, FatWheel, File, Label, Options, Part, Stamp, WheelError, Wheels, normalise};

/// What a user can choose about wheels.
#[derive(Clone, Debug, Default)]
pub struct WheelOptions {
    /// How device wheels are called and what they require.
    pub names: Options,
    /// The label of the variant wheel, if there is to be one.
    pub variant: Option<Label>,
    /// What host wheels say of the split's restrictions, if there are any. Thin wheels name their GPUs as well.
    pub statement: Statement,
    /// Whether the versions of thin wheels name the GPUs.
    pub has_local_versions: bool,
    /// The time that all files in the wheels have.
    pub stamp: Stamp,
    /// Differs when options differ that the wheels depend on. It becomes a part of their time of change, because uv takes
    /// a wheel of the same path and time for the same wheel.
    pub fingerprint: u32,
}

/// All wheels of a split.
#[derive(Debug)]
pub struct WheelSet {
    /// The host wheel, and the variant wheel if there is one.
    pub hosts: Vec<Arc<WheelPart>>,
    /// The device wheels.
    pub devices: BTreeMap<BundleKey, Arc<WheelPart>>,
    /// The wheel as it was before it was split, if the input is split.
    pub fat: Option<Arc<WheelPart>>,
    /// The name and text of the file that has to lie beside a variant wheel.
    pub variants_index: Option<(String, String)>,
    /// What the user should know.
    pub warnings: Vec<String>,
    /// Whether the wheels lack symlinks that the input has; `warnings` name them.
    pub has_symlinks: bool,
    /// See [`WheelOptions::has_local_versions`].
    pub has_local_versions: bool,
    /// See [`WheelOptions::fingerprint`].
    pub fingerprint: u32,
    pub(super) statement: Statement,
    wheels: Arc<Wheels>,
    /// Of the rewritten binaries as the input has them.
    originals: Vec<Digest>,
}

/// One wheel. What it consists of is known; what has to be made is made when it is asked for.
#[derive(Debug)]
pub struct WheelPart {
    part: Part,
    wheels: Arc<Wheels>,
    payload: Vec<Payload>,
    dist_info: Vec<File>,
    stamp: Stamp,
    resources: Arc<Resources>,
    /// Another cell takes its place when RECORD has to be made once more.
    assembled: Mutex<Arc<OnceCell<Arc<Assembled>>>>,
    wheel: OnceCell<Arc<dyn Content>>,
}

impl WheelSet {
    /// The wheels that a wheel is split into; `None` if the input is no wheel.
    pub fn new(
        input: &Input,
        plan: &Plan,
        options: &WheelOptions,
        resources: &Arc<Resources>,
    ) -> Result<Option<Self>, WheelError> {
        if input.dist_info().is_none() {
            return Ok(None);
        }
        let is_split = matches!(input.kind, InputKind::Wheels(_)) || !plan.joined.is_empty();
        let fat = FatWheel::joined(input, is_split.then_some(&plan.joined), resources)?;
        let wheels = Wheels::new(fat, plan.keys.iter().cloned(), &options.names)?;
        let statement = options.statement.is_restricted().then(|| options.statement.to_json());
        let wheels = Arc::new(wheels.with_statement(statement));
        let part = |part: Part, payload: Vec<Payload>| -> Result<Arc<WheelPart>, WheelError> {
            let paths = payload.iter().map(|payload| match payload {
                Payload::Unchanged(file, _) | Payload::Rewritten(file, ..) => &file.path,
                Payload::Archive(path, ..) | Payload::Thin(path, ..) => path,
            });
            Ok(Arc::new(WheelPart {
                dist_info: wheels.dist_info(&part, paths)?,
                part,
                wheels: Arc::clone(&wheels),
                payload,
                stamp: options.stamp,
                resources: Arc::clone(resources),
                assembled: Mutex::default(),
                wheel: OnceCell::new(),
            }))
        };
        let host = host_payload(input, plan, &wheels)?;
        let mut hosts = vec![part(Part::Host, host.clone())?];
        let mut variants_index = None;
        if let Some(label) = &options.variant {
            hosts.push(part(Part::Variant(label.clone()), host)?);
            variants_index = Some(wheels.variants_index(label)?);
        }
        let mut devices = BTreeMap::new();
        for key in &plan.keys {
            let payload = device_payload(input, plan, &wheels, key)?;
            devices.insert(key.clone(), part(Part::Device(key.clone()), payload)?);
        }
        let fat = is_split.then(|| part(Part::Fat, fat_payload(input, plan, &wheels)?)).transpose()?;
        let mut warnings = wheels.warnings();
        if let Some(host) = hosts.first() {
            warnings.extend(host.assembled().map_or_else(|_| Vec::new(), |assembled| assembled.warnings()));
        }
        let links = symlinks(input);
        let has_symlinks = !links.is_empty();
        warnings.extend(links.into_iter().map(|link| {
            format!("{link}: in no wheel, which cannot hold symlinks; it leads to no file of the input to put a copy of there")
        }));
        let fingerprint = options.fingerprint;
        let places = input.entries.iter().zip(&plan.places);
        let rewritten = places.filter(|(_, place)| matches!(place, Place::Rewritten { .. }));
        let originals = rewritten.filter_map(|(entry, _)| wheels.claimed(entry)).collect();
        let has_local_versions = options.has_local_versions;
        Ok(Some(Self {
            hosts,
            devices,
            fat,
            variants_index,
            warnings,
            has_symlinks,
            has_local_versions,
            fingerprint,
            statement: options.statement.clone(),
            wheels,
            originals,
        }))
    }

    /// Compares all files of the input with what its RECORD claims of them. What differs is said in the log, and not passed
    /// on. Fails if one of those that are taken over cannot be read: the bytes of a member are copied as they are stored, so
    /// nothing else would notice. Adds the bytes that are compared to `done`.
    pub fn check_claims(&self, done: &AtomicU64) -> Result<(), ReadError> {
        let parts = self.hosts.iter().take(1).chain(self.devices.values());
        let taken_over = parts.flat_map(|part| {
            let payload = part.payload.iter().filter_map(|payload| match payload {
                Payload::Unchanged(file, _) => Some(file),
                Payload::Rewritten(..) | Payload::Archive(..) | Payload::Thin(..) => None,
            });
            payload.chain(&part.dist_info).map(|file| &*file.digest)
        });
        let mut digests: Vec<_> = self.originals.iter().chain(taken_over).collect();
        digests.sort_by_key(|digest| Reverse(digest.content().size()));
        digests.par_iter().with_max_len(1).try_for_each(|digest| {
            digest.check_claim()?;
            done.fetch_add(digest.content().size(), Ordering::Relaxed);
            Ok(())
        })?;
        for part in self.hosts.iter().chain(self.devices.values()) {
            part.forget_record();
        }
        Ok(())
    }

    /// The device distributions that the METADATA of a wheel which was split names, and that are none of these wheels.
    pub fn missing_devices(&self) -> Vec<&str> {
        let there: Vec<_> = self.wheels.devices().all().into_iter().map(normalise).collect();
        self.wheels.named_devices().filter(|&name| !there.iter().any(|there| there == name)).collect()
    }

    /// The file name of the thin wheel for some GPUs.
    pub fn thin_file_name(&self, gpus: &GpuSet) -> Result<String, WheelError> {
        let part = Part::Thin { gpus: gpus.clone(), has_local_version: self.has_local_versions };
        Ok(self.wheels.name(&part)?.to_string())
    }

    /// Makes on all cores what reading these wheels needs: archives, for which each bundle is decompressed once, and
    /// digests. Adds the bytes that are compressed to `done`.
    pub fn make(parts: &[Arc<WheelPart>], done: &AtomicU64) -> Result<(), ReadError> {
        make_archives(&parts.iter().flat_map(|part| part.archives()).collect::<Vec<_>>(), done)?;
        let mut digests = Vec::new();
        for part in parts {
            digests.extend(part.assembled()?.unknown_digests());
        }
        digests.sort_by_cached_key(|digest| Reverse(digest.content().size()));
        digests.par_iter().with_max_len(1).try_for_each(|digest| digest.sums().map(drop))
    }

    /// Where a path of the input is in a part; `None` if the part has its own file there or none.
    pub(super) fn path(&self, part: &Part, path: &EntryPath) -> Result<Option<EntryPath>, WheelError> {
        self.wheels.path(part, path)
    }
}

/// The symlinks of the input, with what they lead to.
fn symlinks(input: &Input) -> Vec<String> {
    let link = |entry: &Entry| match &entry.kind {
        EntryKind::Symlink(target) => Some(format!("{:?} -> {:?}", entry.path, String::from_utf8_lossy(target))),
        EntryKind::Directory | EntryKind::File { .. } => None,
    };
    input.entries.iter().filter_map(link).collect()
}

impl WheelPart {
    /// A wheel of the files of `host` and those of `devices` that are no archives, but for those that are cut down: `binary`
    /// gives these for paths of the input.
    pub(super) fn thin(
        part: Part,
        host: &Self,
        devices: &[&Self],
        statement: String,
        binary: &dyn Fn(&EntryPath) -> Option<Arc<ThinBinary>>,
    ) -> Result<Self, WheelError> {
        let wheels = &host.wheels;
        let mut payload = Vec::with_capacity(host.payload.len());
        for from in std::iter::once(host).chain(devices.iter().copied()) {
            for file in &from.payload {
                match file {
                    Payload::Unchanged(file, entry) => {
                        let path = wheels.renamed(&from.part, &part, &file.path)?;
                        payload.push(match binary(entry) {
                            Some(binary) => Payload::Thin(path, file.executable, binary),
                            None => Payload::Unchanged(File { path, ..file.clone() }, entry.clone()),
                        });
                    }
                    Payload::Rewritten(file, _, entry) => {
                        let path = wheels.renamed(&from.part, &part, &file.path)?;
                        let binary = binary(entry).ok_or_else(|| WheelError::NoSuchPart(entry.to_string()))?;
                        payload.push(Payload::Thin(path, file.executable, binary));
                    }
                    Payload::Archive(..) | Payload::Thin(..) => {}
                }
            }
        }
        let mut dist_info = wheels.dist_info(&part, std::iter::empty())?;
        dist_info.push(wheels.thin_statement(&wheels.name(&part)?, statement)?);
        Ok(Self {
            dist_info,
            part,
            wheels: Arc::clone(wheels),
            payload,
            stamp: host.stamp,
            resources: Arc::clone(&host.resources),
            assembled: Mutex::default(),
            wheel: OnceCell::new(),
        })
    }

    /// The dist-info files of thin wheels with the version of this one, without RECORD.
    pub(super) fn thin_dist_info(&self) -> Result<Vec<File>, WheelError> {
        self.wheels.whole_dist_info(&self.wheels.name(&self.part)?)
    }

    /// Plans the binaries that are cut down, on all cores.
    fn plan_thin(&self) -> Result<(), ReadError> {
        self.payload.par_iter().with_max_len(1).try_for_each(|payload| match payload {
            Payload::Thin(_, _, binary) => binary.rewritten().map(drop),
            Payload::Unchanged(..) | Payload::Rewritten(..) | Payload::Archive(..) => Ok(()),
        })
    }

    /// The wheel's file name.
    pub fn file_name(&self) -> Result<String, WheelError> {
        Ok(self.wheels.name(&self.part)?.to_string())
    }

    /// Which wheel it is.
    pub fn part(&self) -> &Part {
        &self.part
    }

    /// The dist-info files that the part has instead of the input's, without RECORD.
    pub fn dist_info(&self) -> &[File] {
        &self.dist_info
    }

    /// The archives in it, which have to be made before sizes are known.
    pub fn archives(&self) -> impl Iterator<Item = &Archive> {
        self.payload.iter().filter_map(|payload| match payload {
            Payload::Archive(_, _, archive) => Some(&**archive),
            Payload::Unchanged(..) | Payload::Rewritten(..) | Payload::Thin(..) => None,
        })
    }

    /// All files of the part, RECORD last. Makes archives.
    pub fn assembled(&self) -> Result<Arc<Assembled>, ReadError> {
        let cell = Arc::clone(&self.assembled_cell());
        cell.get_or_try_init(|| self.assemble().map(Arc::new)).cloned()
    }

    /// The list of all files as it is now, or will be.
    fn assembled_cell(&self) -> MutexGuard<'_, Arc<OnceCell<Arc<Assembled>>>> {
        self.assembled.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn assemble(&self) -> Result<Assembled, ReadError> {
        self.plan_thin()?;
        let mut files = Vec::with_capacity(self.payload.len());
        for payload in &self.payload {
            match payload {
                Payload::Unchanged(file, _) | Payload::Rewritten(file, ..) => files.push(file.clone()),
                Payload::Archive(path, mode, archive) => {
                    let file = self.wheels.made(&self.part, path, *mode, archive.make()?, None);
                    files.extend(file.map_err(|error| self.failed(&error))?);
                }
                Payload::Thin(path, executable, binary) => {
                    files.push(self.wheels.file(path.clone(), *executable, binary.make()?));
                }
            }
        }
        files.extend(self.dist_info.iter().cloned());
        self.wheels.assemble(&self.part, files).map_err(|error| self.failed(&error))
    }

    /// Has RECORD made once more, which may state claims that were found to be wrong since.
    fn forget_record(&self) {
        *self.assembled_cell() = Arc::default();
    }

    /// Where an installation of all parts has a file of this one.
    pub(super) fn installed(&self, path: &EntryPath) -> EntryPath {
        self.wheels.installed(path)
    }

    /// The RECORD that an installation of the part has. Makes archives.
    pub(super) fn installed_record(&self) -> Result<Arc<dyn Content>, ReadError> {
        let record = self.wheels.installed_record(&*self.assembled()?).map_err(|error| self.failed(&error))?;
        Ok(Arc::new(record))
    }

    /// Where the part's RECORD is.
    pub fn record_path(&self) -> Result<EntryPath, WheelError> {
        let directory = format!("{}.dist-info", self.wheels.name(&self.part)?.stem());
        Ok(EntryPath::root().child(directory.as_bytes()).child(b"RECORD"))
    }

    /// The wheel's size, if it takes no work to know it.
    pub fn known_size(&self) -> Option<u64> {
        if let Some(wheel) = self.wheel.get() {
            return Some(wheel.size());
        }
        let is_known = |payload: &Payload| match payload {
            Payload::Unchanged(..) => true,
            Payload::Rewritten(_, rewritten, _) => rewritten.original().packed().is_none_or(|packed| !packed.deflated),
            Payload::Thin(..) => false,
            Payload::Archive(_, _, make) => make.made().is_some(),
        };
        self.payload.iter().all(is_known).then(|| self.wheel().ok().map(|wheel| wheel.size()))?
    }

    /// The digests that RECORD states of payload files, by their paths in the wheel. Those of archives are not known before
    /// the archives are.
    pub(super) fn digests(&self) -> HashMap<&EntryPath, &Arc<Digest>> {
        let files = self.payload.iter().filter_map(|payload| match payload {
            Payload::Unchanged(file, _) | Payload::Rewritten(file, ..) => Some(file),
            Payload::Archive(..) | Payload::Thin(..) => None,
        });
        files.map(|file| (&file.path, &file.digest)).collect()
    }

    /// Bytes of the rewritten files, as they were: what has to be inflated once before the wheel's size is known.
    pub fn rewritten_size(&self) -> u64 {
        let size = |payload: &Payload| match payload {
            Payload::Rewritten(_, rewritten, _) => rewritten.original().size(),
            Payload::Unchanged(..) | Payload::Archive(..) | Payload::Thin(..) => 0,
        };
        self.payload.iter().map(size).sum()
    }

    /// The wheel. Makes archives, and the deflate streams of rewritten files.
    pub fn wheel(&self) -> Result<Arc<dyn Content>, ReadError> {
        self.wheel.get_or_try_init(|| self.zip()).cloned()
    }

    fn zip(&self) -> Result<Arc<dyn Content>, ReadError> {
        let mut assembled = Assembled::clone(&*self.assembled()?);
        let splice = |payload: &Payload| {
            let (path, rewritten) = match payload {
                Payload::Rewritten(file, rewritten, _) => (&file.path, Arc::clone(rewritten)),
                Payload::Thin(path, _, binary) => (path, binary.rewritten()?),
                Payload::Unchanged(..) | Payload::Archive(..) => return Ok(None),
            };
            let stream = spliced(&path.to_text(), &rewritten, &self.resources)?;
            Ok(stream.map(|stream| (path.clone(), stream)))
        };
        let streams = self.payload.par_iter().with_max_len(1).map(splice).collect::<Result<Vec<_>, ReadError>>()?;
        let mut streams: BTreeMap<_, _> = streams.into_iter().flatten().collect();
        for file in &mut assembled.files {
            if let Some((stream, crc32)) = streams.remove(&file.path) {
                file.digest.assume(None, Some(crc32));
                file.deflated = Some(stream);
            }
        }
        Ok(Arc::new(assembled.wheel(self.stamp).map_err(|error| self.failed(&error))?))
    }

    fn failed(&self, error: &WheelError) -> ReadError {
        let name = self.file_name().unwrap_or_else(|_| format!("{:?}", self.part));
        ReadError::damaged(&name.into(), error.to_string())
    }
}

/// A part's RECORD, as a file whose size is known when archives are made.
#[derive(Debug)]
pub(super) struct Record(pub(super) Arc<WheelPart>);

impl Make for Record {
    fn made(&self) -> Option<Arc<dyn Content>> {
        let cell = Arc::clone(&self.0.assembled_cell());
        Some(Arc::clone(cell.get()?.files.last()?.digest.content()))
    }

    fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
        let assembled = self.0.assembled()?;
        let record = assembled.files.last().map(|file| Arc::clone(file.digest.content()));
        record.ok_or_else(|| ReadError::damaged(&"RECORD".into(), "the part has no files"))
    }
}

/// A `.whl` file.
#[derive(Debug)]
pub(super) struct WheelBody(pub(super) Arc<WheelPart>);

impl Make for WheelBody {
    fn made(&self) -> Option<Arc<dyn Content>> {
        self.0.wheel.get().cloned()
    }

    fn make(&self) -> Result<Arc<dyn Content>, ReadError> {
        self.0.wheel()
    }
}
