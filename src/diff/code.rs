//! The digests and kernels of an input's code objects. Each code object is read once, sequentially, and each compressed
//! bundle is decompressed once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use parking_lot::Mutex;
use rayon::prelude::*;

use crate::fatbin::{CodeObject, CodeScan, Kernel, OpenBundle, Scanned};
use crate::kpack::{ArchiveReader, TocEntry};
use crate::resources::Resources;

/// The most bytes of kernel names. Further kernels are counted without their names.
const MAX_NAME_BYTES: usize = 256 << 20;
/// The most kernels that are kept, counted once for each wrapper. The kernels of further code objects are not read.
const MAX_KERNELS: usize = 32 << 20;

/// A code object in a library, with its digest and kernels.
#[derive(Clone, Debug)]
pub(super) struct ComparedObject {
    /// The wrapper of the code object.
    pub(super) wrapper: usize,
    pub(super) sha256: [u8; 32],
    pub(super) size: u64,
    /// The number and the bytes of each kernel; `None` if its symbols cannot be read.
    pub(super) kernels: Option<Arc<[(u32, u64)]>>,
}

/// The source of a code object's bytes.
pub(super) enum CodeLocation {
    Bundle(CodeObject),
    Archive(Arc<ArchiveReader>, TocEntry),
}

/// A code object to be read, with the wrappers that use it.
pub(super) struct Wanted {
    pub(super) place: CodeLocation,
    /// For each use: number of the library, target, and wrapper.
    pub(super) users: Vec<(usize, String, usize)>,
}

/// The number of each kernel name, and the number of kernels kept.
#[derive(Debug, Default)]
pub(super) struct KernelNames(Mutex<KnownNames>);

#[derive(Debug, Default)]
struct KnownNames {
    numbers: HashMap<Arc<str>, u32>,
    names: Vec<Arc<str>>,
    bytes: usize,
    kernels: usize,
}

impl KernelNames {
    /// The kernels of a code object, by number; `None` if the limit is reached. `users` is the number of wrappers that
    /// use it.
    fn keep(&self, kernels: &[Kernel], users: usize) -> Option<Arc<[(u32, u64)]>> {
        {
            let mut known = self.0.lock();
            let all = kernels.len().saturating_mul(users).saturating_add(known.kernels);
            known.kernels = Some(all).filter(|all| *all <= MAX_KERNELS)?;
        }
        kernels.iter().map(|kernel| Some((self.number(&kernel.name)?, kernel.size))).collect()
    }

    /// The number of a name; `None` if there are too many names.
    fn number(&self, name: &str) -> Option<u32> {
        // An empty name occupies memory as well.
        let cost = name.len().max(1);
        let mut known = self.0.lock();
        if let Some(number) = known.numbers.get(name) {
            return Some(*number);
        }
        let number = u32::try_from(known.names.len()).ok().filter(|_| known.bytes + cost <= MAX_NAME_BYTES)?;
        let name: Arc<str> = name.into();
        known.bytes += cost;
        known.names.push(Arc::clone(&name));
        known.numbers.insert(name, number);
        Some(number)
    }

    pub(super) fn name(&self, number: u32) -> Arc<str> {
        let known = self.0.lock();
        usize::try_from(number).ok().and_then(|number| known.names.get(number).cloned()).unwrap_or_default()
    }
}

impl Wanted {
    fn size(&self) -> u64 {
        match &self.place {
            CodeLocation::Bundle(object) => object.content.size(),
            CodeLocation::Archive(_, entry) => entry.original_size,
        }
    }

    /// The bundle to decompress for it, and its offset there.
    fn bundle(&self) -> (Option<u64>, u64) {
        match &self.place {
            CodeLocation::Bundle(object) => (object.bundle.as_ref().map(|bundle| bundle.id()), object.offset),
            CodeLocation::Archive(..) => (None, 0),
        }
    }

    fn scan(&self, open: &mut OpenBundle, resources: &Resources) -> anyhow::Result<Scanned> {
        let mut scan = CodeScan::new(&resources.budget);
        match &self.place {
            CodeLocation::Bundle(object) => open.read(object, |piece| scan.take(piece))?,
            CodeLocation::Archive(reader, entry) => {
                let read = reader.read(entry, &resources.budget, |piece| {
                    scan.take(piece);
                    Ok(())
                });
                read.context("an archive")?;
            }
        }
        Ok(scan.finish())
    }
}

/// Reads code objects. Returns them by library and target. Adds the bytes to `done`.
pub(super) fn read(
    wanted: Vec<Wanted>,
    names: &KernelNames,
    resources: &Resources,
    done: &AtomicU64,
) -> anyhow::Result<BTreeMap<(usize, String), Vec<ComparedObject>>> {
    let mut found = BTreeMap::<(usize, String), Vec<ComparedObject>>::new();
    let groups = by_bundle(wanted);
    // In this order, so that members are inflated sequentially.
    let read: Vec<_> =
        groups.into_iter().par_bridge().map(|group| read_bundle(&group, names, resources, done)).collect();
    for codes in read {
        for (library, target, code) in codes? {
            found.entry((library, target)).or_default().push(code);
        }
    }
    for codes in found.values_mut() {
        codes.sort_by_key(|code| code.wrapper);
    }
    Ok(found)
}

/// Groups the code objects of each bundle in the order of their offsets. All others are in groups of their own.
fn by_bundle(wanted: Vec<Wanted>) -> Vec<Vec<Wanted>> {
    let mut groups: Vec<Vec<Wanted>> = Vec::new();
    let mut places = HashMap::new();
    for wanted in wanted {
        let (bundle, _) = wanted.bundle();
        let number = bundle.map_or(groups.len(), |bundle| *places.entry(bundle).or_insert(groups.len()));
        match groups.get_mut(number) {
            Some(group) => group.push(wanted),
            None => groups.push(vec![wanted]),
        }
    }
    for group in &mut groups {
        group.sort_by_key(|wanted| wanted.bundle().1);
    }
    groups
}

fn read_bundle(
    group: &[Wanted],
    names: &KernelNames,
    resources: &Resources,
    done: &AtomicU64,
) -> anyhow::Result<Vec<(usize, String, ComparedObject)>> {
    let bundle = group.iter().find_map(|wanted| match &wanted.place {
        CodeLocation::Bundle(object) => object.bundle.as_ref(),
        CodeLocation::Archive(..) => None,
    });
    // A thread that has a bundle open does not wait for memory for another one.
    let mut open = OpenBundle::of(bundle)?;
    let mut codes = Vec::new();
    for wanted in group {
        let Scanned { sha256, size, kernels } = wanted.scan(&mut open, resources)?;
        let kernels = kernels.and_then(|kernels| names.keep(&kernels, wanted.users.len()));
        for (library, target, wrapper) in &wanted.users {
            let code = ComparedObject { wrapper: *wrapper, sha256, size, kernels: kernels.clone() };
            codes.push((*library, target.clone(), code));
        }
        done.fetch_add(wanted.size(), Ordering::Relaxed);
    }
    Ok(codes)
}

/// Bytes to read.
pub(super) fn size(wanted: &[Wanted]) -> u64 {
    wanted.iter().map(Wanted::size).fold(0, u64::saturating_add)
}
