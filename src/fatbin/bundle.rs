//! The uncompressed offload bundle (clang's documentation, "Clang Offload Bundler"): the magic
//! `__CLANG_OFFLOAD_BUNDLE__`, u64 number of entries, and for each entry u64 offset from the bundle's start, u64 size,
//! u64 length of the entry id, and the id. All integers are little-endian.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::CodeObject;
use super::compressed::Compressed;
use super::entry_id::EntryTargets;
use super::error::{FatbinError, malformed};
use super::header::{CodeDamage, NOT_LINKED, is_bitcode, of_target};
use super::packing::{self, CompressedHeader};
use crate::gpu::TargetId;
use crate::memory::{Parser, ParserMemory, TableError, WholeFile};
use crate::resources::Resources;
use crate::rope::{Content, ReadError, Rope, Segment, to_usize};

/// Magic of an uncompressed bundle.
pub(super) const MAGIC: &[u8; 24] = b"__CLANG_OFFLOAD_BUNDLE__";

/// Bytes of the first read; enough for the headers of a bundle for eight targets.
const FIRST_READ: u64 = 1024;

/// The most entries, and the longest entry id in bytes, that are accepted. Real bundles have up to 30 entries, and IDs
/// of up to 60 bytes.
const MAX_ENTRIES: u64 = 4096;
const MAX_ID: u64 = 1024;

/// The most bytes of a compressed bundle that are decompressed to see what its code begins with.
const MAX_BEGINNING: u64 = 256 << 10;

/// The most code objects of a bundle that are read to name what no runtime finds. Each may have to be decompressed.
const MAX_HEADERS: usize = 5;

/// An entry of a bundle's table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct BundleEntry {
    /// Offset of its code in the (decompressed) bundle.
    pub(super) offset: u64,
    /// Bytes of its code.
    pub(super) size: u64,
    /// Offload kind, target triple and target ID, verbatim.
    pub(super) id: ByteBuf,
}

/// The table of a bundle. Its code objects can be read without reading the bundle's headers again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bundle {
    /// Its offset in the file.
    pub(super) offset: u64,
    /// How it is compressed, if it is.
    pub(super) compressed: Option<CompressedHeader>,
    /// Its table.
    pub(super) entries: Vec<BundleEntry>,
}

impl Bundle {
    /// Reads the headers of the bundle at `offset` of `content`. The bundle has to end at `limit` or before. Of a
    /// compressed bundle, only the beginning is decompressed.
    pub fn read(
        content: &Arc<dyn Content>,
        offset: u64,
        limit: u64,
        resources: &Arc<Resources>,
    ) -> Result<Self, FatbinError> {
        Self::read_counted(content, offset, limit, resources, &mut 0)
    }

    /// Like [`Bundle::read`]. Adds the bytes of the table that were read to `count`, even if there is no bundle.
    pub(crate) fn read_counted(
        content: &Arc<dyn Content>,
        offset: u64,
        limit: u64,
        resources: &Arc<Resources>,
        count: &mut u64,
    ) -> Result<Self, FatbinError> {
        let available = limit.min(content.size()).saturating_sub(offset);
        let head = read_up_to(content, offset, available.min(FIRST_READ))?;
        *count = count.saturating_add(head.len() as u64);
        let (compressed, entries) = if head.starts_with(MAGIC) {
            let read = |length: u64| match length.min(available) {
                length if length == head.len() as u64 => Ok(head.clone()),
                length => read_up_to(content, offset, length),
            };
            (None, read_entries(offset, available, counted(read, count))?)
        } else if let Some(packing) = CompressedHeader::parse(offset, &head, available)? {
            let bundle = Compressed::new(content, packing, resources);
            (Some(packing), read_entries(offset, packing.size, bundle.beginning(count)?)?)
        } else {
            return Err(malformed(offset, "it begins with neither magic"));
        };
        Ok(Self { offset, compressed, entries })
    }

    /// The entry IDs of code that no runtime finds. Its code objects have names of their own ([`TargetId::unknown`]). An
    /// ID that names no target is followed by that in the header of the code, which is read for the first of them only.
    pub fn unfound_ids(&self, content: &Arc<dyn Content>, resources: &Arc<Resources>) -> BTreeSet<String> {
        let entries: Vec<_> = self.device_entries().map(|(target, entry)| (target, &entry.id)).collect();
        if !entries.iter().any(|(target, _)| target.is_unknown()) {
            return BTreeSet::new();
        }
        let objects = self.objects(content, resources).unwrap_or_default();
        let unfound = objects.iter().zip(&entries).filter(|(it, _)| it.content.size() > 0 && it.target.is_unknown());
        let mut rest = MAX_HEADERS;
        let named = unfound.map(|(object, (target, id))| {
            let id = String::from_utf8_lossy(id);
            let is_read = target.meant().is_none() && rest > 0;
            rest -= usize::from(is_read);
            match is_read.then(|| object.header_target()).flatten() {
                Some(own) => format!("{id} (code for {own}, by its header)"),
                None => id.into_owned(),
            }
        });
        named.collect()
    }

    /// Counts what is kept of it: a code object for each entry, and the IDs.
    pub(crate) fn count(&self, table: &ParserMemory) -> Result<(), TableError> {
        self.entries.iter().try_for_each(|entry| table.add_entry(&entry.id))
    }

    /// Its offset, its compressed length and its claimed length, if the claim is implausible.
    pub fn absurd_claim(&self) -> Option<(u64, u64, u64)> {
        let packing = self.compressed.filter(CompressedHeader::is_absurd)?;
        Some((self.offset, packing.length, packing.size))
    }

    /// The code objects.
    pub fn objects(
        &self,
        content: &Arc<dyn Content>,
        resources: &Arc<Resources>,
    ) -> Result<Vec<CodeObject>, FatbinError> {
        self.objects_for(&self.targets_of_entries(), content, resources)
    }

    /// Like [`Bundle::objects`]. `targets` are those of its entries.
    pub(crate) fn objects_for(
        &self,
        targets: &[Option<TargetId>],
        content: &Arc<dyn Content>,
        resources: &Arc<Resources>,
    ) -> Result<Vec<CodeObject>, FatbinError> {
        let bundle = self.compressed.map(|packing| Arc::new(Compressed::new(content, packing, resources)));
        if self.compressed.is_some_and(|packing| !packing.is_possible(content.size())) {
            return Err(malformed(self.offset, "it is not as it was remembered"));
        }
        let object = |target: &TargetId, entry: &BundleEntry| -> Result<CodeObject, ReadError> {
            let target = target.clone();
            let (content, offset): (Arc<dyn Content>, _) = if let Some(bundle) = &bundle {
                (Arc::new(bundle.slice(entry.offset, entry.size)?), entry.offset)
            } else {
                let start = self.offset.saturating_add(entry.offset);
                (Arc::new(Rope::new([Segment::range(Arc::clone(content), start, entry.size)?])?), start)
            };
            Ok(CodeObject { target, content, bundle: bundle.clone(), offset })
        };
        let mut objects = Vec::with_capacity(targets.len());
        for (target, entry) in targets.iter().zip(&self.entries) {
            objects.extend(target.as_ref().map(|target| object(target, entry)).transpose()?);
        }
        Ok(objects)
    }

    /// The targets whose code objects nothing can load, and why. Those of compressed bundles are not read.
    pub(crate) fn damage(&self, content: &Arc<dyn Content>, resources: &Arc<Resources>) -> CodeDamage {
        let objects = (!self.is_compressed()).then(|| self.objects(content, resources).unwrap_or_default());
        objects.into_iter().flatten().filter_map(CodeObject::damage).collect()
    }

    /// Whether all its code is LLVM bitcode, which was not linked. Adds the bytes that are decompressed to `count`.
    pub(crate) fn has_bitcode_only(
        &self,
        content: &Arc<dyn Content>,
        resources: &Arc<Resources>,
        count: &mut u64,
    ) -> bool {
        let unlinked = self.unlinked(content, resources, count);
        !unlinked.is_empty() && self.code_sizes().all(|(target, _)| unlinked.contains_key(&Some(target)))
    }

    /// The targets whose code is bitcode, which nothing loads, as far as that is seen: of a compressed bundle, only the beginning is
    /// decompressed. Adds the bytes of that to `count`.
    pub(super) fn unlinked(
        &self,
        content: &Arc<dyn Content>,
        resources: &Arc<Resources>,
        count: &mut u64,
    ) -> CodeDamage {
        let Some(packing) = self.compressed else {
            let read = |place: u64, word: &mut [u8]| content.read_at(self.offset.saturating_add(place), word);
            return self.unlinked_by(|place| {
                let mut word = [0; 4];
                read(place, &mut word).is_ok().then_some(word)
            });
        };
        let ends = self.entries.iter().filter_map(|entry| entry.offset.checked_add(4));
        let last = ends.filter(|end| *end <= MAX_BEGINNING).max().unwrap_or(0);
        let bundle = Compressed::new(content, packing, resources);
        let Ok(mut read) = bundle.beginning(count) else { return CodeDamage::new() };
        let (mut bytes, mut asked) = (Vec::new(), 0);
        self.unlinked_by(|place| {
            let end = place.checked_add(4).filter(|end| *end <= last)?;
            if asked < end {
                // Most code is no bitcode, which the first of it shows. Otherwise all the rest is read at once.
                asked = if asked == 0 { end } else { last };
                bytes = read(asked).unwrap_or_default();
            }
            bytes.get(to_usize(place)..)?.first_chunk().copied()
        })
    }

    /// The same by the bytes at places in the uncompressed bundle, which `read` returns if they are seen. In a frame, what is not seen is
    /// zero. Other code ends the look, since that behind it is most likely no bitcode either.
    fn unlinked_by(&self, mut read: impl FnMut(u64) -> Option<[u8; 4]>) -> CodeDamage {
        let mut code: Vec<_> = self.device_entries().filter(|(_, entry)| entry.size > 0).collect();
        code.sort_by_key(|(_, entry)| entry.offset);
        let mut unlinked = CodeDamage::new();
        for (target, entry) in code {
            match read(entry.offset) {
                Some(word) if is_bitcode(&word) => {
                    let reason = of_target(&target, NOT_LINKED);
                    unlinked.insert(Some(target), reason);
                }
                None | Some([0, 0, 0, 0]) => {}
                Some(_) => break,
            }
        }
        unlinked
    }

    /// Whether it is compressed.
    pub fn is_compressed(&self) -> bool {
        self.compressed.is_some()
    }

    /// The target and the size of each code object. A target may have an entry without code.
    pub fn code_sizes(&self) -> impl Iterator<Item = (TargetId, u64)> {
        self.device_entries().map(|(target, entry)| (target, entry.size)).filter(|(_, size)| *size > 0)
    }

    /// All entries but those of the host, each with a target of its own.
    pub(super) fn device_entries(&self) -> impl Iterator<Item = (TargetId, &BundleEntry)> {
        let targets = self.targets_of_entries().into_iter();
        targets.zip(&self.entries).filter_map(|(target, entry)| Some((target?, entry)))
    }

    /// The target of each entry; `None` for the host's.
    pub(crate) fn targets_of_entries(&self) -> Vec<Option<TargetId>> {
        let mut targets = EntryTargets::default();
        self.entries.iter().map(|entry| targets.next(&entry.id, entry.size > 0)).collect()
    }

    /// Whether the entries of both have the same targets.
    pub(crate) fn has_targets_of(&self, other: &Self) -> bool {
        let is_named = |(one, two): (&BundleEntry, &BundleEntry)| one.id == two.id && (one.size > 0) == (two.size > 0);
        self.entries.len() == other.entries.len() && self.entries.iter().zip(&other.entries).all(is_named)
    }
}

/// The code objects of the bundle at `offset` of `content`. The bundle has to end at `limit` or before.
pub fn read_bundle(
    content: &Arc<dyn Content>,
    offset: u64,
    limit: u64,
    resources: &Arc<Resources>,
) -> Result<Vec<CodeObject>, FatbinError> {
    Bundle::read(content, offset, limit, resources)?.objects(content, resources)
}

/// Bytes that show whether a bundle begins: the length of the longest magic.
pub const MAGIC_SIZE: usize = MAGIC.len();

/// Whether a bundle, compressed or not, begins with these bytes.
pub fn is_bundle(beginning: &[u8]) -> bool {
    beginning.starts_with(MAGIC) || beginning.starts_with(packing::MAGIC)
}

/// Whether an uncompressed bundle begins with these bytes.
pub(crate) fn is_plain_bundle(beginning: &[u8]) -> bool {
    beginning.starts_with(MAGIC)
}

/// Bytes of the bundle at `offset`, which has to end at `limit` or before. `None` if there is no bundle, or if it does
/// not state its size (version 1 of CCOB).
pub fn bundle_size(content: &Arc<dyn Content>, offset: u64, limit: u64) -> Option<u64> {
    let available = limit.min(content.size()).checked_sub(offset)?;
    let read = |length: u64| read_up_to(content, offset, length.min(available));
    let head = read(FIRST_READ).ok()?;
    if head.starts_with(MAGIC) {
        let entries = read_entries(offset, available, read).ok()?;
        return entries.iter().map(|entry| entry.offset + entry.size).max();
    }
    CompressedHeader::total_size(&head).filter(|&size| size <= available)
}

/// The targets of an uncompressed bundle of `size` bytes, and that nothing loads its code, by its first bytes. `None` unless these hold its table.
pub(super) fn code_by_beginning(bytes: &[u8], size: u64) -> Option<(BTreeSet<TargetId>, CodeDamage)> {
    let entries = parse_entries(bytes, 0, size).ok()??;
    let bundle = Bundle { offset: 0, compressed: None, entries };
    let damage = bundle.unlinked_by(|place| bytes.get(to_usize(place)..)?.first_chunk().copied());
    Some((bundle.targets(), damage))
}

/// Wraps `read` so that the bytes it returns are added to `count`.
fn counted(
    mut read: impl FnMut(u64) -> Result<Vec<u8>, FatbinError>,
    count: &mut u64,
) -> impl FnMut(u64) -> Result<Vec<u8>, FatbinError> {
    move |length| {
        let bytes = read(length)?;
        *count = count.saturating_add(bytes.len() as u64);
        Ok(bytes)
    }
}

/// Reads a bundle's table. `read` returns the first bytes of the bundle, fewer than requested if the bundle is shorter.
fn read_entries(
    place: u64,
    size: u64,
    mut read: impl FnMut(u64) -> Result<Vec<u8>, FatbinError>,
) -> Result<Vec<BundleEntry>, FatbinError> {
    let mut length = FIRST_READ;
    loop {
        let bytes = read(length)?;
        match parse_entries(&bytes, place, size)? {
            Some(entries) => return Ok(entries),
            None if (bytes.len() as u64) < length => return Err(malformed(place, "its table is truncated")),
            None => length = length.saturating_mul(4),
        }
    }
}

/// The table, or `None` if `bytes` does not hold all of it.
fn parse_entries(bytes: &[u8], place: u64, size: u64) -> Result<Option<Vec<BundleEntry>>, FatbinError> {
    let Some(mut rest) = bytes.strip_prefix(MAGIC) else {
        return Err(malformed(place, "its content does not begin with the magic of a bundle"));
    };
    let Some(count) = take_u64(&mut rest) else { return Ok(None) };
    if count > MAX_ENTRIES {
        return Err(malformed(place, format!("it claims to have {count} entries")));
    }
    let mut entries = Vec::new();
    let mut total = 0_u64;
    for _ in 0..count {
        let (Some(offset), Some(length), Some(id)) = (take_u64(&mut rest), take_u64(&mut rest), take_u64(&mut rest))
        else {
            return Ok(None);
        };
        if id > MAX_ID {
            return Err(malformed(place, format!("an entry id claims to have {id} bytes")));
        }
        if offset.checked_add(length).is_none_or(|end| end > size) {
            return Err(malformed(place, "an entry reaches past the end"));
        }
        // Otherwise a small file could contain any number of large code objects.
        total = total.saturating_add(length);
        if total > size {
            return Err(malformed(place, format!("its entries overlap: they have {total} bytes of {size}")));
        }
        let Some((id, after)) = usize::try_from(id).ok().and_then(|id| rest.split_at_checked(id)) else {
            return Ok(None);
        };
        rest = after;
        entries.push(BundleEntry { offset, size: length, id: ByteBuf::from(id) });
    }
    Ok(Some(entries))
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    let (value, rest) = bytes.split_first_chunk::<8>()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*value))
}

fn read_up_to(content: &Arc<dyn Content>, offset: u64, length: u64) -> Result<Vec<u8>, FatbinError> {
    Ok(WholeFile::part(Parser::Bundle, &**content, offset, length)?.into_bytes())
}
