//! Thin views, and installations of thin wheels: binaries that keep the device code of some GPUs.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use md5::{Digest, Md5};

use super::distributions::Distribution;
use super::parts::Parts;
use super::report::{Findings, enumerate};
use super::rules::Rule;
use crate::binary::{FatBinary, Wrapper};
use crate::collect::thin_gpus;
use crate::fatbin::{Bundle, CODE_HEADER, CodeObject, Compressed, FatbinError, code_problem};
use crate::gpu::{BundleKey, GpuSet, TargetId};
use crate::resources::Resources;
use crate::rope::{Content, ReadError, head, read_all};
use crate::source::EntryPath;
use crate::split::THIN;

/// Reports a problem of a binary.
pub(super) type Says<'a> = &'a dyn Fn(Rule, String);

/// Which files are thin, and for which GPUs.
#[derive(Debug, Default)]
pub(super) struct ThinFiles {
    /// The GPUs, if all files are thin.
    whole: Option<Arc<GpuSet>>,
    /// The GPUs of files of thin wheels.
    by_path: HashMap<EntryPath, Arc<GpuSet>>,
}

impl ThinFiles {
    /// Determines thin files by the location of a tree in a mount or a split, by wheels, or by the user's choice.
    pub(super) fn of(parts: &Parts, distributions: &[Distribution<'_>], given: Option<&GpuSet>) -> Self {
        let whole = given.cloned().or_else(|| of_place(parts)).map(Arc::new);
        let mut by_path = HashMap::new();
        for distribution in distributions {
            let Some(gpus) = distribution.thin().map(Arc::new) else { continue };
            let rows = distribution.rows.iter().flatten();
            let paths = rows.filter_map(|row| distribution.part.recorded(&EntryPath::new(&row.path).ok()?));
            by_path.extend(paths.map(|path| (path, Arc::clone(&gpus))));
        }
        Self { whole, by_path }
    }

    /// The GPUs of a file, if it is thin.
    pub(super) fn gpus(&self, path: &EntryPath) -> Option<&Arc<GpuSet>> {
        self.by_path.get(path).or(self.whole.as_ref())
    }

    /// The parts of an installation for these GPUs; `None` if nothing is thin.
    pub(super) fn keys(&self) -> Option<BTreeSet<BundleKey>> {
        let sets: BTreeSet<_> = self.by_path.values().chain(&self.whole).collect();
        (!sets.is_empty()).then(|| sets.iter().flat_map(|gpus| gpus.keys()).collect())
    }
}

/// The GPUs in the name of a thin view's directory, or in the statement of a collection.
fn of_place(parts: &Parts) -> Option<GpuSet> {
    let place = parts.all.first()?.input.location.canonicalize().ok()?;
    let is_view = place.is_dir() && place.parent()?.ends_with(THIN);
    let named = place.file_name().and_then(|name| name.to_str()?.parse().ok()).filter(|_| is_view);
    named.or_else(|| thin_gpus(&place))
}

/// Checks a binary that must have the code of these GPUs only.
pub(super) fn check(
    content: &Arc<dyn Content>,
    binary: &FatBinary,
    gpus: &GpuSet,
    (label, findings, say): (&str, &Findings, Says<'_>),
    resources: &Arc<Resources>,
) {
    let wrappers = binary.wrappers();
    findings.counts.thin_binaries.add(1);
    findings.counts.wrappers.add(wrappers.len() as u64);
    let mut without_code = Vec::new();
    // Wrappers may share a bundle. Its problems are reported once.
    let mut known = HashMap::new();
    for (position, wrapper) in wrappers.iter().enumerate() {
        let has_code = known.entry(wrapper.bundle).or_insert_with(|| {
            let say = |reason: String| say(Rule::ThinCode, format!("wrapper {position}: {reason}"));
            check_bundle(content, wrapper, gpus, findings, &say, resources).unwrap_or_else(|error| {
                say(error.to_string());
                true
            })
        });
        if !*has_code {
            without_code.push(position);
        }
    }
    if !without_code.is_empty() {
        let (count, all, list) = (without_code.len(), wrappers.len(), enumerate(&without_code));
        findings.note(format!("{label}: {count} of its {all} wrappers have no code for {gpus}: {list}"));
    }
}

/// Whether a bundle has code. Reads all of it.
fn check_bundle(
    content: &Arc<dyn Content>,
    wrapper: &Wrapper,
    gpus: &GpuSet,
    findings: &Findings,
    say: &dyn Fn(String),
    resources: &Arc<Resources>,
) -> Result<bool, FatbinError> {
    let bundle = Bundle::read(content, wrapper.bundle, wrapper.limit, resources)?;
    for id in bundle.unknown_ids() {
        say(format!("it has code with the entry ID {id:?}, which no runtime finds"));
    }
    let objects = bundle.objects(content, resources)?;
    let packed = objects.iter().find_map(|object| object.bundle.clone());
    let packed = packed.or_else(|| bundle.packed(content, resources));
    // Held so that it is decompressed once for all code objects.
    let _held = match &packed {
        Some(packed) if packed.is_decompressed_in_memory() => Some(packed.pin_whole()?),
        Some(_) | None => None,
    };
    if let Some((packed, start)) = packed.as_ref().zip(bundle.packed_start()) {
        check_hash(content, packed, start, say)?;
    }
    let mut has_code = false;
    for CodeObject { target, content, .. } in &objects {
        if content.size() == 0 {
            continue;
        }
        has_code = true;
        if gpus.keeps(&[target]) != [true] {
            say(format!("it has code for {target}, which a GPU of {gpus} cannot be given"));
        }
        let mut beginning = Vec::with_capacity(CODE_HEADER);
        read_all(&**content, |bytes| {
            let missing = CODE_HEADER - beginning.len();
            beginning.extend_from_slice(head(bytes, missing.min(bytes.len())));
        })?;
        findings.counts.code_objects.add(1);
        findings.counts.code_bytes.add(content.size());
        if let Some(problem) = code_problem(&beginning, target) {
            say(format!("the code object for {target}: {problem}"));
        }
    }
    Ok(has_code)
}

/// Compares the MD5 of a compressed bundle's content with the hash in its header, which is the MD5's low half
/// (`OffloadBundler.cpp`).
fn check_hash(
    content: &Arc<dyn Content>,
    packed: &Arc<Compressed>,
    start: u64,
    say: &dyn Fn(String),
) -> Result<(), ReadError> {
    let mut stated = [0; 8];
    content.read_at(start.saturating_sub(8), &mut stated)?;
    let mut md5 = Md5::new();
    read_all(&*packed.whole(), |bytes| md5.update(bytes))?;
    let made: [u8; 16] = md5.finalize().into();
    if !made.starts_with(&stated) {
        say("its hash is not that of the bundle that it is compressed from".to_owned());
    }
    Ok(())
}

/// The first code object of each target.
pub(super) fn by_target(objects: &[CodeObject]) -> HashMap<&TargetId, &CodeObject> {
    let mut found = HashMap::new();
    for object in objects.iter().filter(|object| object.content.size() > 0) {
        found.entry(&object.target).or_insert(object);
    }
    found
}
