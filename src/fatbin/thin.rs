//! A bundle reduced to the code of some GPUs.
//!
//! Its layout is clang's (`OffloadBundler.cpp`, with `-bundle-align=4096`): the table, and code objects at multiples of
//! 4096. The IDs of the entries stay verbatim. The host's entry comes first and is empty.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::bundle::{Bundle, BundleEntry, MAGIC};
use super::entry_id::EntryRole;
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

/// An entry of a new bundle, and its position in the table.
type TableEntry = (usize, BundleEntry);

/// The entries that are kept.
struct KeptParts {
    /// The host's entry, and then those with code, in the order of the code.
    entries: Vec<TableEntry>,
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
        // The host's entries come first in the table, and the others in their order: a runtime takes the first that fits.
        let behind = self.entries.len() + 1;
        let all: Vec<_> =
            self.device_entries().enumerate().map(|(at, (target, entry))| (behind + at, target, entry)).collect();
        let keeps = |is_among: &dyn Fn(&BundleEntry) -> bool| {
            let among: Vec<_> = all.iter().filter(|(_, _, entry)| is_among(entry)).collect();
            let keeps = gpus.keeps(&among.iter().map(|(_, target, _)| target).collect::<Vec<_>>());
            among
                .into_iter()
                .zip(keeps)
                .filter(|(_, kept)| *kept)
                .map(|((at, _, entry), _)| (*at, *entry))
                .collect::<Vec<_>>()
        };
        let mut code = keeps(&|entry| entry.size > 0);
        code.extend(keeps(&|_| true).into_iter().filter(|(_, entry)| entry.size == 0));
        // Code is read forwards.
        code.sort_by_key(|(_, entry)| entry.offset);
        let hosts: Vec<_> = self.entries.iter().filter(|entry| EntryRole::of(&entry.id) == EntryRole::Host).collect();
        let is_whole = hosts.len() + code.len() == self.entries.len();
        let has_new_host = hosts.is_empty();
        let new = has_new_host.then(|| BundleEntry { offset: 0, size: 0, id: HOST.to_vec().into() });
        let hosts = hosts.into_iter().map(|entry| BundleEntry { size: 0, ..entry.clone() });
        let code = code.into_iter().map(|(at, entry)| (at, entry.clone()));
        KeptParts { entries: new.into_iter().chain(hosts).enumerate().chain(code).collect(), has_new_host, is_whole }
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
        let is_host = |entry: &&BundleEntry| EntryRole::of(&entry.id) == EntryRole::Host;
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
    /// A bundle of these entries, whose code is in their order. It is at the entries' offsets plus `base`. `align` returns
    /// the alignment for code that was at an offset.
    fn of(entries: &[TableEntry], base: u64, align: impl Fn(u64) -> u64) -> Self {
        let (mut list, mut rows) = (Vec::new(), Vec::new());
        let mut at = table_size(entries.iter().map(|(_, entry)| entry));
        for (place, BundleEntry { offset, size, id }) in entries {
            let start = if *size > 0 { at.next_multiple_of(align(*offset)) } else { at };
            rows.push((*place, [start, *size, id.len() as u64], id));
            if start > at {
                list.push(BundlePart::Zeros(start - at));
            }
            if *size > 0 {
                list.push(BundlePart::Code { offset: base.saturating_add(*offset), length: *size });
            }
            at = start.saturating_add(*size);
        }
        rows.sort_by_key(|(place, ..)| *place);
        let mut table = MAGIC.to_vec();
        table.extend((entries.len() as u64).to_le_bytes());
        for (_, fields, id) in rows {
            table.extend(fields.into_iter().flat_map(u64::to_le_bytes));
            table.extend_from_slice(id);
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
    let entries: Vec<_> = entries_of(objects).into_iter().enumerate().collect();
    BundleParts::of(&entries, 0, |_| CODE_ALIGNMENT).rope(&all)
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
fn table_size<'a>(entries: impl IntoIterator<Item = &'a BundleEntry>) -> u64 {
    MAGIC.len() as u64 + 8 + entries.into_iter().map(|entry| 24 + entry.id.len() as u64).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A runtime takes the first entry that fits, wherever its code is.
    #[test]
    fn the_table_keeps_its_order_and_code_its_own() {
        let entry = |offset: u64, target: &str| BundleEntry {
            offset,
            size: 4,
            id: format!("{DEVICE}--{target}").into_bytes().into(),
        };
        let entries = vec![entry(8192, "gfx90a:xnack-"), entry(4096, "gfx90a"), entry(12288, "gfx1030")];
        let bundle = Bundle { offset: 0, compressed: None, entries };
        let ThinBundle::Raw(parts) = bundle.thin(&"gfx90a".parse().unwrap(), u64::MAX).unwrap() else {
            panic!("{bundle:?}");
        };
        let code = parts.list.iter().filter_map(|part| match part {
            BundlePart::Code { offset, .. } => Some(*offset),
            BundlePart::Literal(_) | BundlePart::Zeros(_) => None,
        });
        assert_eq!(code.collect::<Vec<_>>(), [4096, 8192]);
        let Some(BundlePart::Literal(table)) = parts.list.first() else { panic!("{parts:?}") };
        let text = String::from_utf8_lossy(table);
        let ids: Vec<_> = text.match_indices("gfx90a").map(|(at, _)| &text[at..]).collect();
        assert!(ids.len() == 2 && ids[0].starts_with("gfx90a:xnack-") && !ids[1].starts_with("gfx90a:"), "{text}");
    }
}
