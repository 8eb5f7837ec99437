//! A bundle cut down to the code of some GPUs.
//!
//! It is laid out as clang does (`OffloadBundler.cpp`, with `-bundle-align=4096`): the table, and code objects at
//! multiples of 4096. The IDs of the entries stay verbatim. The entry of the host comes first and is empty.

use std::sync::Arc;

use super::bundle::{Bundle, Entry, MAGIC, target};
use super::packing::CompressedFormat;
use super::{CodeObject, Compressed, FatbinError};
use crate::gpu::GpuSet;
use crate::resources::Resources;
use crate::rope::{Content, ReadError, Rope, Segment};

/// What clang aligns code objects to, in bytes.
pub const CODE_ALIGNMENT: u64 = 4096;

/// The host's entry for a bundle that has none.
const HOST: &[u8] = b"host-x86_64-unknown-linux--";

/// What the names of device entries begin with, as clang writes them (`hipv4` is code object version 4 and later).
const DEVICE: &str = "hipv4-amdgcn-amd-amdhsa";
const SPIRV: &str = "hip-spirv64-amd-amdhsa";

/// What becomes of a bundle when it is cut down.
#[derive(Clone, Debug)]
pub enum ThinBundle {
    /// Everything in it is wanted: so many bytes of the file, from where it begins.
    Whole {
        /// Its length.
        length: u64,
    },
    /// A bundle that is not compressed, of parts of the file.
    Raw(Parts),
    /// A compressed bundle that holds these parts of the fat one.
    Compressed {
        /// What it holds, as parts of the decompressed bundle.
        parts: Parts,
        /// Version and method of the fat one.
        format: CompressedFormat,
        /// Bytes of the fat one.
        length: u64,
    },
}

/// A bundle in parts.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Its parts.
    pub list: Vec<Part>,
    /// Bytes of all of them.
    pub size: u64,
}

/// A part of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// These bytes.
    Literal(Vec<u8>),
    /// So many zeros.
    Zeros(u64),
    /// A code object: `length` bytes from `offset` on.
    Code {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        length: u64,
    },
}

impl Bundle {
    /// The bundle with the code of `gpus` only. It takes at most `slot` bytes if it is not compressed.
    pub fn thin(&self, gpus: &GpuSet, slot: u64) -> Result<ThinBundle, FatbinError> {
        let entries = self.kept(gpus);
        let is_whole = entries.len() == self.entries.len();
        if let Some(packing) = &self.compressed {
            let length = (packing.start + packing.length).saturating_sub(self.offset);
            if is_whole {
                return Ok(ThinBundle::Whole { length });
            }
            let parts = Parts::of(&entries, 0, |_| CODE_ALIGNMENT);
            return Ok(ThinBundle::Compressed { parts, format: packing.format, length });
        }
        let end = self.entries.iter().map(|entry| entry.offset.saturating_add(entry.size)).max();
        if is_whole && let Some(length) = end.filter(|&end| end >= self.table_size() && end <= slot) {
            return Ok(ThinBundle::Whole { length });
        }
        let aligned = Parts::of(&entries, self.offset, |_| CODE_ALIGNMENT);
        if aligned.size <= slot {
            return Ok(ThinBundle::Raw(aligned));
        }
        // Some compilers do not align code objects; then there is no place for that.
        let parts = Parts::of(&entries, self.offset, |old| 1 << old.trailing_zeros().min(CODE_ALIGNMENT.ilog2()));
        if parts.size > slot {
            let reason = format!("cut down it takes {} bytes, and there are {slot}", parts.size);
            return Err(super::bundle::malformed(self.offset, reason));
        }
        Ok(ThinBundle::Raw(parts))
    }

    /// The entries that stay: the host's, and then what the GPUs may be given.
    fn kept(&self, gpus: &GpuSet) -> Vec<Entry> {
        let (targets, entries): (Vec<_>, Vec<_>) = self.device_entries().unzip();
        let keeps = gpus.keeps(&targets.iter().collect::<Vec<_>>());
        let mut hosts = self.entries.iter().filter(|entry| matches!(target(&entry.id), Ok(None))).peekable();
        let missing = hosts.peek().is_none().then(|| Entry { offset: 0, size: 0, id: HOST.to_vec().into() });
        let hosts = hosts.map(|entry| Entry { size: 0, ..entry.clone() });
        let code = entries.into_iter().zip(keeps).filter(|(_, kept)| *kept).map(|(entry, _)| entry.clone());
        missing.into_iter().chain(hosts).chain(code).collect()
    }

    fn table_size(&self) -> u64 {
        table_size(&self.entries)
    }

    /// Offset in the file.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The compressed bundle that the parts of [`ThinBundle::Compressed`] are read from; `None` if this is none.
    pub fn packed(&self, content: &Arc<dyn Content>, resources: &Arc<Resources>) -> Option<Arc<Compressed>> {
        let packing = self.compressed.filter(|packing| packing.is_possible(content.size()))?;
        Some(Arc::new(Compressed::new(content, packing, resources)))
    }

    /// Where its compressed bytes begin in the file, if it is compressed.
    pub fn packed_start(&self) -> Option<u64> {
        self.compressed.map(|packing| packing.start)
    }
}

impl Parts {
    /// A bundle of these entries, whose code is found `base` bytes behind where they say. `align` gives the alignment of
    /// code that was at an offset.
    fn of(entries: &[Entry], base: u64, align: impl Fn(u64) -> u64) -> Self {
        let mut table = MAGIC.to_vec();
        table.extend((entries.len() as u64).to_le_bytes());
        let mut list = Vec::new();
        let mut at = table_size(entries);
        for Entry { offset, size, id } in entries {
            let start = if *size > 0 { at.next_multiple_of(align(*offset)) } else { at };
            for field in [start, *size, id.len() as u64] {
                table.extend(field.to_le_bytes());
            }
            table.extend_from_slice(id);
            if start > at {
                list.push(Part::Zeros(start - at));
            }
            if *size > 0 {
                list.push(Part::Code { offset: base.saturating_add(*offset), length: *size });
            }
            at = start.saturating_add(*size);
        }
        list.insert(0, Part::Literal(table));
        Self { list, size: at }
    }

    /// The bundle, of code in `content`.
    pub fn rope(&self, content: &Arc<dyn Content>) -> Result<Rope, ReadError> {
        let segment = |part: &Part| match part {
            Part::Literal(bytes) => Ok(Segment::literal(bytes.as_slice())),
            Part::Zeros(length) => Ok(Segment::zeros(*length)),
            Part::Code { offset, length } => Segment::range(Arc::clone(content), *offset, *length),
        };
        Rope::new(self.list.iter().map(segment).collect::<Result<Vec<_>, _>>()?)
    }
}

/// A bundle of these code objects that is not compressed, behind the empty entry of the host.
pub fn bundle_of(objects: &[CodeObject]) -> Result<Rope, ReadError> {
    let mut entries = vec![Entry { offset: 0, size: 0, id: HOST.to_vec().into() }];
    let mut offset = 0;
    for object in objects {
        let size = object.content.size();
        let triple = if object.target.processor() == "amdgcnspirv" { SPIRV } else { DEVICE };
        entries.push(Entry { offset, size, id: format!("{triple}--{}", object.target).into_bytes().into() });
        offset += size;
    }
    let all: Arc<dyn Content> =
        Arc::new(Rope::new(objects.iter().map(|object| Segment::whole(Arc::clone(&object.content))))?);
    Parts::of(&entries, 0, |_| CODE_ALIGNMENT).rope(&all)
}

/// Bytes of the magic and the table.
fn table_size(entries: &[Entry]) -> u64 {
    MAGIC.len() as u64 + 8 + entries.iter().map(|entry| 24 + entry.id.len() as u64).sum::<u64>()
}
