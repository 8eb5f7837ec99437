//! A bundle reduced to the code of some GPUs.
//!
//! Its layout is clang's (`OffloadBundler.cpp`, with `-bundle-align=4096`): the table, and code objects at multiples of
//! 4096. The IDs of the entries stay verbatim. The host's entry comes first and is empty.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::bundle::{Bundle, BundleEntry, MAGIC, target};
use super::error::{FatbinError, malformed};
use super::packing::CompressedFormat;
use super::{CodeObject, Compressed};
use crate::gpu::{GpuSet, TargetId};
use crate::resources::Resources;
use crate::rope::{Content, ReadError, Rope, Segment};

/// clang's alignment of code objects, in bytes.
pub(crate) const CODE_ALIGNMENT: u64 = 4096;

/// The compressors of bundles, as far as the bytes depend on them.
pub(crate) const COMPRESSION: &str = "zstd 3, zlib-rs 6";

/// The zstd level of compressed bundles, as in clang's offload bundler. A constant of the format.
pub(crate) const COMPRESSION_LEVEL: i32 = 3;

/// The host's entry for a bundle that has none.
const HOST: &[u8] = b"host-x86_64-unknown-linux--";

/// The prefix of the IDs of device entries, as clang writes them (`hipv4` is code object version 4 and later).
const DEVICE: &str = "hipv4-amdgcn-amd-amdhsa";
const PORTABLE: &str = "hip-spirv64-amd-amdhsa";

/// A reduced bundle.
#[derive(Clone, Debug)]
pub enum ThinBundle {
    /// All of its entries stay. The bundle is a range of the file.
    Whole {
        /// Its length in bytes.
        length: u64,
    },
    /// An uncompressed bundle made of parts of the file.
    Raw(BundleParts),
    /// A compressed bundle with these parts of the fat one.
    Compressed {
        /// Its content as parts of the decompressed bundle.
        parts: BundleParts,
        /// Version and method of the fat bundle.
        format: CompressedFormat,
        /// Bytes of the fat bundle.
        length: u64,
    },
}

/// A bundle in parts.
#[derive(Clone, Debug)]
pub struct BundleParts {
    /// Its parts.
    pub list: Vec<BundlePart>,
    /// Bytes of all parts.
    pub size: u64,
}

/// A part of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BundlePart {
    /// These bytes.
    Literal(Vec<u8>),
    /// This many zeros.
    Zeros(u64),
    /// A code object: `length` bytes from `offset` on.
    Code {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
}

/// The entries that are kept.
struct KeptParts {
    /// The host's entry, and then those with code, in the order of the code.
    entries: Vec<BundleEntry>,
    /// Whether the fat bundle lacks the host's entry.
    has_new_host: bool,
    /// Whether all entries of the fat bundle are kept.
    is_whole: bool,
}

impl Bundle {
    /// The bundle with the code of `gpus` only. It takes at most `slot` bytes if it is not compressed.
    pub fn thin(&self, gpus: &GpuSet, slot: u64) -> Result<ThinBundle, FatbinError> {
        let KeptParts { entries, has_new_host, is_whole } = self.kept(gpus);
        if let Some(packing) = &self.compressed {
            let length = self.length();
            if is_whole {
                return Ok(ThinBundle::Whole { length });
            }
            let parts = BundleParts::of(&entries, 0, |_| CODE_ALIGNMENT);
            return Ok(ThinBundle::Compressed { parts, format: packing.format, length });
        }
        if is_whole && let Some(length) = self.code_end().filter(|&end| end >= self.table_size() && end <= slot) {
            return Ok(ThinBundle::Whole { length });
        }
        // Some compilers do not align code objects; then there is no room for alignment. Without an added host entry,
        // nothing is farther from the beginning than before.
        let as_before = |old: u64| 1 << old.trailing_zeros().min(CODE_ALIGNMENT.ilog2());
        let old = entries.get(usize::from(has_new_host)..).unwrap_or_default();
        let ways = [
            BundleParts::of(&entries, self.offset, |_| CODE_ALIGNMENT),
            BundleParts::of(&entries, self.offset, as_before),
            BundleParts::of(old, self.offset, as_before),
        ];
        let smallest = ways.iter().map(|parts| parts.size).min().unwrap_or(0);
        let fitting = ways.into_iter().find(|parts| parts.size <= slot);
        let reason = || format!("cut down it takes {smallest} bytes, and there are {slot}");
        fitting.map(ThinBundle::Raw).ok_or_else(|| malformed(self.offset, reason()))
    }

    /// The entries to keep: the host's, and the code that the GPUs can run. Entries without code are kept, too, but do
    /// not count as code: a runtime ignores them and continues its search (`hip_fatbin.cpp` of CLR).
    fn kept(&self, gpus: &GpuSet) -> KeptParts {
        let all: Vec<_> = self.device_entries().collect();
        let keeps = |is_among: &dyn Fn(&BundleEntry) -> bool| {
            let among: Vec<_> = all.iter().filter(|(_, entry)| is_among(entry)).collect();
            let keeps = gpus.keeps(&among.iter().map(|(target, _)| target).collect::<Vec<_>>());
            among.into_iter().zip(keeps).filter(|(_, kept)| *kept).map(|((_, entry), _)| *entry).collect::<Vec<_>>()
        };
        let mut code = keeps(&|entry| entry.size > 0);
        code.extend(keeps(&|_| true).into_iter().filter(|entry| entry.size == 0));
        code.sort_by_key(|entry| entry.offset);
        let hosts: Vec<_> = self.entries.iter().filter(|entry| matches!(target(&entry.id), Ok(None))).collect();
        let is_whole = hosts.len() + code.len() == self.entries.len();
        let has_new_host = hosts.is_empty();
        let new = has_new_host.then(|| BundleEntry { offset: 0, size: 0, id: HOST.to_vec().into() });
        let hosts = hosts.into_iter().map(|entry| BundleEntry { size: 0, ..entry.clone() });
        KeptParts {
            entries: new.into_iter().chain(hosts).chain(code.into_iter().cloned()).collect(),
            has_new_host,
            is_whole,
        }
    }

    /// Bytes of its magic and its table.
    pub(crate) fn table_size(&self) -> u64 {
        table_size(&self.entries)
    }

    /// The end of the last code in an uncompressed bundle, relative to the bundle's beginning.
    fn code_end(&self) -> Option<u64> {
        self.entries.iter().map(|entry| entry.offset.saturating_add(entry.size)).max()
    }

    /// Its bytes in the file. Version 1 of CCOB does not state them; then it is the most that it can take.
    pub fn length(&self) -> u64 {
        match &self.compressed {
            Some(packing) => packing.start.saturating_add(packing.length).saturating_sub(self.offset),
            None => self.code_end().unwrap_or(0).max(self.table_size()),
        }
    }

    /// Whether it is a file of its own, of `size` bytes. A bundle with host code is an object file of a compilation
    /// with `-fgpu-rdc`, which a linker unbundles.
    pub fn is_file(&self, size: u64) -> bool {
        let is_host = |entry: &&BundleEntry| matches!(target(&entry.id), Ok(None));
        self.offset == 0 && self.length() == size && self.entries.iter().filter(is_host).all(|entry| entry.size == 0)
    }

    /// The targets for which it has code.
    pub fn targets(&self) -> BTreeSet<TargetId> {
        self.device_entries().filter(|(_, entry)| entry.size > 0).map(|(target, _)| target).collect()
    }

    /// Offset in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The compressed bundle that contains the parts of `ThinBundle::Compressed`; `None` if this one is not
    /// compressed.
    pub fn packed(&self, content: &Arc<dyn Content>, resources: &Arc<Resources>) -> Option<Arc<Compressed>> {
        let packing = self.compressed.filter(|packing| packing.is_possible(content.size()))?;
        Some(Arc::new(Compressed::new(content, packing, resources)))
    }

    /// Offset of its compressed bytes in the file, if it is compressed.
    pub fn packed_start(&self) -> Option<u64> {
        self.compressed.map(|packing| packing.start)
    }
}

impl BundleParts {
    /// A bundle of these entries. Their code is at the entries' offsets plus `base`. `align` returns the alignment for
    /// code that was at an offset.
    fn of(entries: &[BundleEntry], base: u64, align: impl Fn(u64) -> u64) -> Self {
        let mut table = MAGIC.to_vec();
        table.extend((entries.len() as u64).to_le_bytes());
        let mut list = Vec::new();
        let mut at = table_size(entries);
        for BundleEntry { offset, size, id } in entries {
            let start = if *size > 0 { at.next_multiple_of(align(*offset)) } else { at };
            for field in [start, *size, id.len() as u64] {
                table.extend(field.to_le_bytes());
            }
            table.extend_from_slice(id);
            if start > at {
                list.push(BundlePart::Zeros(start - at));
            }
            if *size > 0 {
                list.push(BundlePart::Code { offset: base.saturating_add(*offset), length: *size });
            }
            at = start.saturating_add(*size);
        }
        list.insert(0, BundlePart::Literal(table));
        Self { list, size: at }
    }

    /// The bundle, with code from `content`.
    pub fn rope(&self, content: &Arc<dyn Content>) -> Result<Rope, ReadError> {
        let segment = |part: &BundlePart| match part {
            BundlePart::Literal(bytes) => Ok(Segment::literal(bytes.as_slice())),
            BundlePart::Zeros(length) => Ok(Segment::zeros(*length)),
            BundlePart::Code { offset, length } => Segment::range(Arc::clone(content), *offset, *length),
        };
        Rope::new(self.list.iter().map(segment).collect::<Result<Vec<_>, _>>()?)
    }
}

/// An uncompressed bundle of these code objects, after an empty entry for the host.
pub fn bundle_of(objects: &[CodeObject]) -> Result<Rope, ReadError> {
    let all: Arc<dyn Content> =
        Arc::new(Rope::new(objects.iter().map(|object| Segment::whole(Arc::clone(&object.content))))?);
    BundleParts::of(&entries_of(objects), 0, |_| CODE_ALIGNMENT).rope(&all)
}

/// Bytes of such a bundle before its code objects.
pub(crate) fn bundle_table_size(objects: &[CodeObject]) -> u64 {
    table_size(&entries_of(objects))
}

/// The table of such a bundle, with consecutive code objects.
fn entries_of(objects: &[CodeObject]) -> Vec<BundleEntry> {
    let mut entries = vec![BundleEntry { offset: 0, size: 0, id: HOST.to_vec().into() }];
    let mut offset = 0_u64;
    for object in objects {
        let size = object.content.size();
        let triple = if object.target.is_spirv() { PORTABLE } else { DEVICE };
        entries.push(BundleEntry { offset, size, id: format!("{triple}--{}", object.target).into_bytes().into() });
        offset = offset.saturating_add(size);
    }
    entries
}

/// Bytes of the magic and the table.
fn table_size(entries: &[BundleEntry]) -> u64 {
    MAGIC.len() as u64 + 8 + entries.iter().map(|entry| 24 + entry.id.len() as u64).sum::<u64>()
}
