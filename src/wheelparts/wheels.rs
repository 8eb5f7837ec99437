//! The wheels of a split, and the dist-info that makes each part's directory the unpacked form of its wheel.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;

use super::assemble::StatedSplit;
use super::digest::DigestPass;
use super::nearby;
use super::part_manifest::wrapper_counts;
use super::payload::{Payload, database_entries, device_payload, fat_payload, host_payload};
use super::wheel_part::WheelPart;
use super::{AssemblyOptions, Digest, DosTime, FatWheel, SplitWheel, WheelEntry, Wheels};
use crate::gpu::{BundleKey, GpuSet};
use crate::kpack::{dropped_size, make_archives, read_together, unmade_size};
use crate::metrics::Progress;
use crate::resources::Resources;
use crate::rope::{Content, Identity, ReadError};
use crate::source::{Attributes, Entry, EntryKind, EntryPath, Input, InputKind};
use crate::split::{Destination, Plan, SplitFacts, SplitId, Statement};
use crate::text::more;
use crate::wheel::{Paths, Requirements, VariantLabel, WheelError, normalise};

/// The user's choices about wheels.
#[derive(Clone, Debug, Default)]
pub struct WheelOptions {
    /// How device wheels are named, and what they require.
    pub names: AssemblyOptions,
    /// The label of the variant wheel, if one is wanted.
    pub variant: Option<VariantLabel>,
    /// The time of all files in the wheels.
    pub stamp: DosTime,
    /// Identifies everything that wheels depend on except the input and files next to it. What is known about their bytes is
    /// recorded under it.
    pub identity: Option<Identity>,
}

/// All wheels of a split.
#[derive(Debug)]
pub struct WheelSet {
    /// The host wheel, and the variant wheel if there is one.
    pub hosts: Vec<Arc<WheelPart>>,
    /// The device wheels.
    pub devices: BTreeMap<BundleKey, Arc<WheelPart>>,
    /// The wheel before the split, if the input is split.
    pub fat: Option<Arc<WheelPart>>,
    /// The name and text of the file that has to be next to a variant wheel.
    pub variants_index: Option<(String, String)>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// Remarks for the user of `split`.
    pub notes: Vec<String>,
    /// Whether the input has symlinks that the wheels lack. `warnings` name them.
    pub has_symlinks: bool,
    /// Whether the versions of thin wheels name the GPUs, which they do not unless this is set.
    pub has_local_versions: bool,
    /// Identifies everything that the wheels depend on except the input: the options, and what files next to it state.
    pub options: Option<Identity>,
    pub(crate) statement: Statement,
    /// The ID of the split.
    pub split_id: SplitId,
    /// Identifies everything that the wheels depend on.
    identity: Option<Identity>,
    wheels: Arc<Wheels>,
    /// The attributes of wheels and of other files that those can read who can read all of the input.
    pub(crate) readers: Attributes,
    /// The original binaries that are rewritten.
    originals: Vec<(EntryPath, Arc<dyn Content>)>,
}

impl WheelSet {
    /// The wheels of a split; `None` if the input is not a wheel.
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
        let fat = FatWheel::joined(input, is_split.then_some(&plan.joined), resources)?.with_true_sboms(input, plan)?;
        let added = fat.metadata.added();
        let not_given: Vec<_> =
            added.devices().filter(|_| !is_split && plan.keys.is_empty()).map(str::to_owned).collect();
        let (names, unread) = with_nearby_extras(input, &fat, &options.names);
        let wheels = Wheels::new(fat, plan.keys.iter().cloned(), &names)?;
        let statement =
            Statement { replaced_requirements: wheels.replaced_requirements(), ..Statement::of(&plan.options) };
        let split_id = wheels.split_id(SplitFacts::of_names(input, plan), input, plan);
        let split = StatedSplit { id: split_id.clone(), statement: statement.clone() };
        let wheels = Wheels { split: Some(split), required: required(input), deflates_stored: is_split, ..wheels };
        let wrappers = wrapper_counts(input, plan);
        let variants_index = options.variant.as_ref().map(|label| wheels.variants_index(label)).transpose()?;
        let contents = wheel_files(input, plan, &wheels, options, is_split)?;
        // They are read again on demand, and take more memory than everything else that is kept about a member.
        wheels.fat.record.forget();
        let wheels = Arc::new(wheels);
        let (mut hosts, mut devices, mut fat) = (Vec::new(), BTreeMap::new(), None);
        for WheelFiles { part, payload, mut dist_info } in contents {
            let payload = payload.into();
            if plan.options.manifests.is_some() {
                dist_info.extend(wheels.manifest_of(&part, &payload, &wrappers)?);
            }
            let part = WheelPart::new(part, &wheels, payload, dist_info, options.stamp, resources);
            match &part.part {
                SplitWheel::Device(key) => drop(devices.insert(key.clone(), part)),
                SplitWheel::Fat => fat = Some(part),
                SplitWheel::Host | SplitWheel::Variant(_) | SplitWheel::Thin { .. } => hosts.push(part),
            }
        }
        let (mut warnings, links) = (wheels.warnings(), warnings_of_symlinks(input));
        warnings.extend(unread);
        warnings.extend(warning_of_missing(&not_given));
        if let Some(host) = hosts.first() {
            warnings.extend(host.warnings()?);
        }
        let has_symlinks = !links.is_empty();
        warnings.extend(links);
        let of_options = identity_of_options(options, &names);
        let identity = of_options.and_then(|options| identity_of(input, &options));
        Ok(Some(Self {
            hosts,
            devices,
            fat,
            variants_index,
            warnings,
            notes: wheels.requirement_notes(),
            has_symlinks,
            has_local_versions: false,
            options: of_options,
            statement,
            split_id,
            identity,
            wheels,
            readers: input.readers(),
            originals: originals(input, plan),
        }))
    }

    /// Compares all files of the input with its RECORD. Wrong claims are logged and not copied. Fails if an unchanged
    /// file cannot be read: its stored bytes are copied, so nothing else would notice. Adds the bytes compared to
    /// `done`.
    pub fn check_claims(&self, done: &AtomicU64) -> Result<(), ReadError> {
        let parts = self.hosts.iter().take(1).chain(self.devices.values());
        let taken_over: Vec<_> = parts.flat_map(|part| part.taken_over()).collect();
        let originals: Vec<_> =
            self.originals.iter().map(|(path, content)| self.wheels.digests.original(path, content, false)).collect();
        let mut digests: Vec<&Digest> = originals.iter().chain(taken_over.iter().map(|digest| &**digest)).collect();
        digests.sort_by_key(|digest| Reverse(digest.content.size()));
        digests.par_iter().with_max_len(1).try_for_each(|digest| {
            digest.check_claim()?;
            done.fetch_add(digest.content.size(), Ordering::Relaxed);
            Ok::<_, ReadError>(())
        })?;
        for part in self.hosts.iter().chain(self.devices.values()) {
            part.forget_record();
        }
        Ok(())
    }

    /// The device distributions that the METADATA of a split wheel names and that are not among these wheels.
    pub fn missing_devices(&self) -> Vec<&str> {
        let existing: Vec<_> = self.wheels.devices.all().into_iter().map(normalise).collect();
        self.wheels.fat.added.devices().filter(|&name| !existing.iter().any(|existing| existing == name)).collect()
    }

    /// The identity of the bytes of the wheel called `name`.
    pub(crate) fn identity(&self, name: &str) -> Option<Identity> {
        Some(Identity::describe("wheel").add(&self.identity?.0).add(name.as_bytes()).finish())
    }

    /// The file name of the thin wheel for some GPUs.
    pub fn thin_file_name(&self, gpus: &GpuSet) -> Result<String, WheelError> {
        let part = SplitWheel::Thin { gpus: gpus.clone(), has_local_version: self.has_local_versions };
        Ok(self.wheels.name(&part)?.to_string())
    }

    /// The bytes that [`WheelSet::make`] compresses, and those whose streams it splices.
    pub(crate) fn unmade_size(parts: &[Arc<WheelPart>], as_wheels: bool) -> u64 {
        let unmade = parts.iter().filter(|part| as_wheels && part.known_wheel().is_none());
        let rewritten = unmade.map(|part| part.rewritten_size());
        unmade_size(&parts.iter().flat_map(|part| part.archives()).collect::<Vec<_>>()) + rewritten.sum::<u64>()
    }

    /// Does the work for reading these wheels on all cores: archives, for which each bundle is decompressed once, and
    /// digests. If they are read `as_wheels`, the pass that splices their streams computes digests as well. Adds to what
    /// is done the uncompressed bytes of the code objects that are compressed, and the packed ones of streams that are spliced.
    pub fn make(parts: &[Arc<WheelPart>], as_wheels: bool, progress: &Progress) -> Result<(), ReadError> {
        make_archives(&parts.iter().flat_map(|part| part.archives()).collect::<Vec<_>>(), &progress.done)?;
        Self::hash_archives(parts)?;
        if as_wheels {
            parts.iter().try_for_each(|part| part.wheel_with(&progress.done).map(drop))?;
        }
        let mut digests = Vec::new();
        for part in parts {
            digests.extend(part.assembled()?.unknown_digests());
        }
        digests.sort_by_cached_key(|digest| Reverse(digest.content.size()));
        digests.par_iter().with_max_len(1).try_for_each(|digest| digest.sums().map(drop))?;
        // A thread of rayon that waited for a digest might run the job that computes it.
        let manifests: Vec<_> = parts.iter().filter_map(|part| part.manifest()).collect();
        manifests.par_iter().with_max_len(1).try_for_each(|digest| digest.sums().map(drop))
    }

    /// Computes the digests of archives that were made and not kept, all in one pass. Those that are known are not computed again.
    pub(crate) fn hash_archives<'a>(parts: impl IntoIterator<Item = &'a Arc<WheelPart>>) -> Result<(), ReadError> {
        let files = parts.into_iter().flat_map(|part| part.hashed_archives());
        let hashed = files.map(|(file, wheels)| Ok((&*file.archive, file.digest(wheels)?)));
        let mut hashed = hashed.collect::<Result<Vec<_>, ReadError>>()?;
        hashed.retain(|(_, digest)| digest.known().or_else(|| digest.settle_recalled()).is_none());
        let (archives, digests): (Vec<_>, Vec<_>) = hashed.into_iter().unzip();
        if dropped_size(&archives) == 0 {
            return Ok(());
        }
        let mut passes: Vec<_> = digests.iter().map(|digest| digest.pass()).collect();
        read_together(&archives, |number, piece| {
            if let Some(pass) = passes.get_mut(number) {
                pass.take(piece);
            }
        })?;
        passes.into_iter().for_each(DigestPass::set);
        Ok(())
    }

    /// Maps paths of the input to paths of a part.
    pub(crate) fn paths(&self, part: &SplitWheel) -> Result<Paths<'_>, WheelError> {
        self.wheels.paths(part)
    }
}

/// What device wheels of the input require of other distributions.
fn required(input: &Input) -> BTreeMap<BundleKey, Vec<String>> {
    let mut required = BTreeMap::<_, Vec<_>>::new();
    for device in input.host_wheel().iter().flat_map(|host| &host.devices) {
        let Ok(key) = device.part.parse::<BundleKey>() else { continue };
        required.entry(key).or_default().extend_from_slice(&device.requires);
    }
    required
}

/// Identifies the options. Files next to the input may have added to the requirements in `names`.
fn identity_of_options(options: &WheelOptions, names: &AssemblyOptions) -> Option<Identity> {
    let mut identity = Identity::describe("options of wheels, with requirements");
    Some(identity.add(&options.identity?.0).add(format!("{:?}", names.requirements).as_bytes()).finish())
}

/// Identifies everything that the wheels of an input depend on.
fn identity_of(input: &Input, options: &Identity) -> Option<Identity> {
    Some(Identity::describe("wheels").add(&options.0).add(&identity_of_input(input)?.0).finish())
}

/// Identifies all bytes of an input. A member of a wheel stands for its whole file.
fn identity_of_input(input: &Input) -> Option<Identity> {
    let mut identity = Identity::describe("input");
    if let InputKind::Wheel(_) = input.kind {
        let mut files = input.files().filter_map(|(_, content)| content.identity());
        return Some(identity.add(&files.next()?.0).finish());
    }
    let of_devices = input.host_wheel().into_iter().flat_map(|host| &host.devices).flat_map(|device| &device.files);
    for entry in input.entries.iter().chain(of_devices) {
        identity.add(entry.path.as_bytes()).number(entry.attributes.mode.into());
        match &entry.kind {
            EntryKind::Directory => identity.number(0),
            EntryKind::Symlink(target) => identity.number(1).add(target),
            EntryKind::File { content, .. } => identity.number(2).add(&content.identity()?.0),
        };
    }
    Some(identity.finish())
}

/// The binaries of the input that are rewritten.
fn originals(input: &Input, plan: &Plan) -> Vec<(EntryPath, Arc<dyn Content>)> {
    let places = input.entries.iter().zip(&plan.places);
    let originals = places.filter(|(_, place)| matches!(place, Destination::Rewritten { .. }));
    originals.filter_map(|(entry, _)| Some((entry.path.clone(), Arc::clone(entry.content()?)))).collect()
}

/// A warning for each symlink of the input, with its target.
fn warnings_of_symlinks(input: &Input) -> Vec<String> {
    let what = "in no wheel, which cannot hold symlinks; it leads to no file of the input to put a copy of there";
    let link = |entry: &Entry| match &entry.kind {
        EntryKind::Symlink(target) => {
            Some(format!("{:?} -> {:?}: {what}", entry.path, String::from_utf8_lossy(target)))
        }
        EntryKind::Directory | EntryKind::File { .. } => None,
    };
    input.entries.iter().filter_map(link).collect()
}

/// What a wheel is made of.
struct WheelFiles {
    part: SplitWheel,
    payload: Vec<Payload>,
    dist_info: Vec<WheelEntry>,
}

/// The options with the extras that files next to the input state, and warnings about files that cannot be read.
fn with_nearby_extras(input: &Input, fat: &FatWheel, options: &AssemblyOptions) -> (AssemblyOptions, Vec<String>) {
    let mut names = options.clone();
    let unread = match &mut names.requirements {
        Requirements::Keep => Vec::new(),
        Requirements::Split(known) => nearby::add_extras(&input.location, &fat.metadata, known),
    };
    (names, unread)
}

/// The wheels to make.
fn wheel_files(
    input: &Input,
    plan: &Plan,
    wheels: &Wheels,
    options: &WheelOptions,
    is_split: bool,
) -> Result<Vec<WheelFiles>, WheelError> {
    let host = host_payload(input, plan, wheels)?;
    let variant = options.variant.as_ref().map(|label| (SplitWheel::Variant(label.clone()), host.clone()));
    let mut contents = vec![(SplitWheel::Host, host)];
    contents.extend(variant);
    let databases = database_entries(input, plan);
    for key in &plan.keys {
        let databases = databases.get(key).map_or(&[][..], Vec::as_slice);
        contents.push((SplitWheel::Device(key.clone()), device_payload(databases, plan, wheels, key)?));
    }
    if is_split {
        contents.push((SplitWheel::Fat, fat_payload(input, plan, wheels)?));
    }
    let contents = contents.into_iter().map(|(part, payload)| {
        let paths = wheels.paths(&part)?;
        let dist_info = wheels.dist_info(&part, payload.iter().filter_map(|payload| payload.path(&paths)))?;
        Ok(WheelFiles { part, payload, dist_info })
    });
    contents.collect()
}

/// The warning that device wheels of a host wheel are missing.
fn warning_of_missing(not_given: &[String]) -> Option<String> {
    let (first, rest) = not_given.split_first()?;
    let more = more(rest.len(), "");
    Some(format!("its device wheels were not given, which have its device code; name them, too: {first}{more}"))
}
