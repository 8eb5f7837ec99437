//! A zip file as a rope (APPNOTE.TXT 6.3.10).
//!
//! It uses nothing about which readers of wheels disagree: data descriptors, directories, comments, gaps, or "version
//! made by" other than Unix. Fields have 64 bits only where they need them. The layout depends on names and sizes only.
//! The CRC-32 fields are computed when they are read.

use std::mem;
use std::sync::Arc;

use super::WheelEntry;
use super::digest::{Deferred, Digest};
use crate::rope::{Content, ReadError, Rope, Segment};
use crate::source::date;
use crate::wheel::{WheelError, sha256_text};

/// The value of a 32-bit field whose real value is in the Zip64 extra field (APPNOTE.TXT 4.4.8, 4.4.9, 4.4.16).
const SATURATED: u32 = u32::MAX;

/// Version needed to extract (APPNOTE.TXT 4.4.3.2): 2.0 for deflate, 4.5 for Zip64.
const PLAIN: u16 = 20;
const ZIP64: u16 = 45;

/// High byte of "version made by" (APPNOTE.TXT 4.4.2): Unix, so that the external attributes hold a mode.
const UNIX: u16 = 3 << 8;

/// Flag bit 11 (APPNOTE.TXT 4.4.4): the name is UTF-8.
const UTF8: u16 = 1 << 11;

/// pip applies the permissions of regular files only, so the file type is required.
const REGULAR: u32 = 0o100_000;

/// The time of all members of a wheel, in the form of MS-DOS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DosTime {
    date: u16,
    time: u16,
}

impl DosTime {
    /// The time `seconds` after 1970-01-01 UTC, as in `SOURCE_DATE_EPOCH`. Zip files can express the years 1980 to
    /// 2107, and even seconds. Other times become the nearest one.
    pub fn of(seconds: i64) -> Self {
        const FIRST: i64 = 315_532_800;
        const LAST: i64 = 4_354_819_198;
        let seconds = seconds.clamp(FIRST, LAST);
        let (days, clock) = (seconds / 86_400, seconds % 86_400);
        let (year, month, day) = date(days);
        let date = (year - 1980) << 9 | month << 5 | day;
        let time = ((clock / 3600) << 11) | ((clock / 60 % 60) << 5) | (clock % 60 / 2);
        Self { date: u16::try_from(date).unwrap_or(0x21), time: u16::try_from(time).unwrap_or(0) }
    }
}

/// 1980-01-01, the earliest time that a zip file can express.
impl Default for DosTime {
    fn default() -> Self {
        Self { date: 0x21, time: 0 }
    }
}

/// A member, and the offset of its local header.
struct ZipMember<'a> {
    file: &'a WheelEntry,
    name: &'a str,
    offset: u64,
    packed_size: u64,
    size: u64,
}

/// The zip file of `files` in this order. Their names must be unique.
pub fn archive(files: &[WheelEntry], stamp: DosTime) -> Result<Rope, WheelError> {
    let mut writer = Writer::default();
    let mut members = Vec::with_capacity(files.len());
    for file in files {
        let content = &file.digest.content;
        let packed = file.deflated.as_ref().unwrap_or(content);
        let (size, packed_size) = (content.size(), packed.size());
        let member = ZipMember { file, name: file.name()?, offset: writer.position, packed_size, size };
        member.local_header(&mut writer, stamp)?;
        writer.content(std::sync::Arc::clone(packed));
        members.push(member);
    }
    let start = writer.position;
    for member in &members {
        member.directory_entry(&mut writer, stamp)?;
    }
    let size = writer.position - start;
    end_of_directory(&mut writer, members.len() as u64, start, size);
    Ok(writer.finish()?)
}

/// What the layout of a zip file depends on: the length of a member's name, its size, and the size of its stored form.
#[derive(Clone, Copy)]
pub(super) struct MemberSize {
    pub(super) name: u64,
    pub(super) size: u64,
    pub(super) packed: u64,
}

/// The size of the file that [`archive`] makes of such members.
pub(super) fn layout_size(members: impl Iterator<Item = MemberSize>) -> u64 {
    // The fixed parts of a local header, a directory entry, and the end of the directory (APPNOTE.TXT 4.3.7, 4.3.12, 4.3.16).
    const LOCAL: u64 = 30;
    const ENTRY: u64 = 46;
    const END: u64 = 22;
    // What precedes the end if a field needs 64 bits (4.3.14, 4.3.15).
    const WIDE_END: u64 = 56 + 20;
    let extra = |wide: usize| if wide == 0 { 0 } else { 4 + 8 * wide as u64 };
    let is_wide = |value: &u64| saturated(*value).1;
    let (mut at, mut directory, mut count) = (0_u64, 0_u64, 0_u64);
    for MemberSize { name, size, packed } in members {
        let wide_local = if is_wide(&size) || is_wide(&packed) { 2 } else { 0 };
        let wide = [size, packed, at].iter().filter(|value| is_wide(value)).count();
        directory = directory.saturating_add(ENTRY + name + extra(wide));
        at = at.saturating_add(LOCAL + name + extra(wide_local)).saturating_add(packed);
        count += 1;
    }
    let is_wide_end = count >= u16::MAX.into() || is_wide(&at) || is_wide(&directory);
    at.saturating_add(directory).saturating_add(END + if is_wide_end { WIDE_END } else { 0 })
}

/// The value of a 32-bit field, and whether the real value needs 64 bits.
fn saturated(value: u64) -> (u32, bool) {
    match u32::try_from(value) {
        Ok(value) if value != SATURATED => (value, false),
        _ => (SATURATED, true),
    }
}

impl ZipMember<'_> {
    fn local_header(&self, writer: &mut Writer, stamp: DosTime) -> Result<(), WheelError> {
        let zip64 = saturated(self.size).1 || saturated(self.packed_size).1;
        // In a local header the extra field has both sizes, or is missing (APPNOTE.TXT 4.5.3).
        let extra = if zip64 { zip64_extra(&[self.size, self.packed_size]) } else { Vec::new() };
        let size = |size| if zip64 { SATURATED } else { saturated(size).0 };
        writer.put(b"PK\x03\x04");
        writer.put(&(if zip64 { ZIP64 } else { PLAIN }).to_le_bytes());
        self.common(writer, stamp);
        writer.put(&size(self.packed_size).to_le_bytes());
        writer.put(&size(self.size).to_le_bytes());
        writer.put(&self.name_length()?.to_le_bytes());
        writer.put(&short(extra.len()).to_le_bytes());
        writer.put(self.name.as_bytes());
        writer.put(&extra);
        Ok(())
    }

    fn directory_entry(&self, writer: &mut Writer, stamp: DosTime) -> Result<(), WheelError> {
        let fields = [self.size, self.packed_size, self.offset];
        let [size, packed_size, offset] = fields.map(saturated);
        // Here the extra field has only the values that do not fit (APPNOTE.TXT 4.5.3).
        let wide: Vec<u64> = fields.into_iter().filter(|&value| saturated(value).1).collect();
        let extra = zip64_extra(&wide);
        let version = if wide.is_empty() { PLAIN } else { ZIP64 };
        let mode = REGULAR | if self.file.executable { 0o755 } else { 0o644 };
        writer.put(b"PK\x01\x02");
        writer.put(&(UNIX | version).to_le_bytes());
        writer.put(&version.to_le_bytes());
        self.common(writer, stamp);
        writer.put(&packed_size.0.to_le_bytes());
        writer.put(&size.0.to_le_bytes());
        writer.put(&self.name_length()?.to_le_bytes());
        writer.put(&short(extra.len()).to_le_bytes());
        // Length of the comment, number of the disk, internal attributes.
        writer.put(&[0; 6]);
        writer.put(&(mode << 16).to_le_bytes());
        writer.put(&offset.0.to_le_bytes());
        writer.put(self.name.as_bytes());
        writer.put(&extra);
        Ok(())
    }

    /// The fields that local header and directory entry share: flags, method, time, CRC-32.
    fn common(&self, writer: &mut Writer, stamp: DosTime) {
        let flags = if self.name.is_ascii() { 0 } else { UTF8 };
        let method: u16 = if self.file.deflated.is_some() { 8 } else { 0 };
        for field in [flags, method, stamp.time, stamp.date] {
            writer.put(&field.to_le_bytes());
        }
        writer.crc32(&self.file.digest);
    }

    fn name_length(&self) -> Result<u16, WheelError> {
        u16::try_from(self.name.len()).map_err(|_| WheelError::NameTooLong(self.file.path.clone()))
    }
}

/// The Zip64 extended information (APPNOTE.TXT 4.5.3). Empty if there are no values.
fn zip64_extra(values: &[u64]) -> Vec<u8> {
    if values.is_empty() {
        return Vec::new();
    }
    let mut extra = vec![1, 0];
    extra.extend(short(values.len() * 8).to_le_bytes());
    extra.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    extra
}

/// The length of an extra field, which is at most 28.
fn short(length: usize) -> u16 {
    u16::try_from(length).unwrap_or(u16::MAX)
}

/// The end of central directory record, after its Zip64 form if a field needs that (APPNOTE.TXT 4.3.14 to 4.3.16).
fn end_of_directory(writer: &mut Writer, members: u64, start: u64, size: u64) {
    let count = u16::try_from(members).unwrap_or(u16::MAX);
    if count == u16::MAX || saturated(start).1 || saturated(size).1 {
        let here = writer.position;
        writer.put(b"PK\x06\x06");
        // Bytes that follow: 44, because there is no extensible data.
        writer.put(&44_u64.to_le_bytes());
        writer.put(&(UNIX | ZIP64).to_le_bytes());
        writer.put(&ZIP64.to_le_bytes());
        // This disk, and the one with the start of the directory.
        writer.put(&[0; 8]);
        for field in [members, members, size, start] {
            writer.put(&field.to_le_bytes());
        }
        writer.put(b"PK\x06\x07");
        writer.put(&0_u32.to_le_bytes());
        writer.put(&here.to_le_bytes());
        // Number of disks.
        writer.put(&1_u32.to_le_bytes());
    }
    writer.put(b"PK\x05\x06");
    writer.put(&[0; 4]);
    writer.put(&count.to_le_bytes());
    writer.put(&count.to_le_bytes());
    writer.put(&saturated(size).0.to_le_bytes());
    writer.put(&saturated(start).0.to_le_bytes());
    // No comment.
    writer.put(&[0; 2]);
}

/// Builds a rope. Adjacent literals become one segment.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    segments: Vec<Segment>,
    literal: Vec<u8>,
    pub(super) position: u64,
}

impl Writer {
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        self.literal.extend_from_slice(bytes);
        self.position = self.position.saturating_add(bytes.len() as u64);
    }

    pub(crate) fn content(&mut self, content: Arc<dyn Content>) {
        self.flush();
        self.position = self.position.saturating_add(content.size());
        self.segments.push(Segment::whole(content));
    }

    /// The SHA-256 as text.
    pub(crate) fn sha256(&mut self, digest: &Arc<Digest>) {
        match digest.known_sha256() {
            Some(sha256) => self.put(&sha256_text(&sha256)),
            None => self.content(Arc::new(Deferred::Sha256(Arc::clone(digest)))),
        }
    }

    /// The CRC-32 as four bytes.
    pub(crate) fn crc32(&mut self, digest: &Arc<Digest>) {
        match digest.known_crc32() {
            Some(crc32) => self.put(&crc32.to_le_bytes()),
            None => self.content(Arc::new(Deferred::Crc32(Arc::clone(digest)))),
        }
    }

    pub(crate) fn finish(mut self) -> Result<Rope, ReadError> {
        self.flush();
        Rope::new(self.segments)
    }

    fn flush(&mut self) {
        if !self.literal.is_empty() {
            self.segments.push(Segment::literal(mem::take(&mut self.literal)));
        }
    }
}

#[cfg(test)]
#[path = "zip_tests.rs"]
mod tests;
