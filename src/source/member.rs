//! The members of a wheel as contents.

use std::path::Path;
use std::sync::OnceLock;

use super::closable::{Closable, OpenMember, Openable};
use super::damage::{self, UnreadableContent};
use super::decoders::Decoders;
use super::deflated::{Deflated, peek};
use super::facts::MemberFacts;
use super::open_members::ListedMember;
use super::path::EntryPath;
use super::stamp::Label;
use super::stored::StoredMember;
use super::stream::Stream;
use super::wheel_bytes::WheelBytes;
use crate::resources::Resources;
use crate::rope::{BlockBoundary, Content, Identifier, Identity, Packed, PackedContent, ReadError, check_range};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};

/// Length of a local file header without name and extra fields (APPNOTE.TXT 4.3.7).
pub(super) const LOCAL_HEADER: u64 = 30;

/// An open `.whl` file.
#[derive(Debug)]
pub(super) struct OpenWheel {
    /// Its path.
    pub(super) path: Box<Path>,
    pub(super) bytes: WheelBytes,
    /// The beginning of each member's identity: the file's.
    pub(super) member: Identifier,
    pub(super) resources: Arc<Resources>,
    pub(super) decoders: Arc<Decoders>,
    /// Whether the passes that build indexes compute the SHA-256 of the members.
    hashes: Arc<AtomicBool>,
}

impl OpenWheel {
    pub(super) fn new(path: &Path, bytes: WheelBytes, resources: &Arc<Resources>) -> Arc<Self> {
        let mut member = Identity::describe("member");
        member.add(&bytes.identity().0);
        let (decoders, hashes, resources) = (Decoders::of(resources), Arc::default(), Arc::clone(resources));
        Arc::new(Self { path: path.into(), bytes, member, resources, decoders, hashes })
    }

    /// Reads for a member. A change concerns the wheel, so its error names that instead.
    pub(super) fn read(&self, entry: &impl Label, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        let read = self.bytes.read(entry, offset, buffer, &self.resources);
        read.map_err(|error| match error {
            ReadError::Changed { .. } => ReadError::Changed { entry: self.label() },
            other => other,
        })
    }

    /// Its name in messages.
    pub(super) fn label(&self) -> Arc<str> {
        self.path.display().to_string().into()
    }
}

/// What the central directory says about a member.
#[derive(Debug)]
pub(super) struct CentralHeader {
    /// The name in the zip file, unless it is the entry's path.
    pub(super) other_name: Option<Box<[u8]>>,
    pub(super) header_start: u64,
    pub(super) packed_size: u64,
    pub(super) size: u64,
    pub(super) crc32: u32,
    /// Compression method (APPNOTE.TXT 4.4.5): 0 is stored, 8 is deflated.
    pub(super) method: u16,
    pub(super) encrypted: bool,
}

impl CentralHeader {
    /// Why the member cannot be read, if the central directory shows it.
    fn objection(&self) -> Option<String> {
        if self.encrypted {
            return Some("it is encrypted".into());
        }
        match self.method {
            0 if self.packed_size != self.size => {
                Some(format!("it is stored, but takes {} bytes and claims {}", self.packed_size, self.size))
            }
            // A match of 258 bytes takes at least two bits.
            8 if self.size > self.packed_size.saturating_mul(1032) => {
                Some(format!("{} bytes of deflate data cannot inflate to {}", self.packed_size, self.size))
            }
            0 | 8 => None,
            other => Some(format!("compression method {other} is not supported")),
        }
    }
}

/// A member's content. The member, with its local header, ends at or before `limit`. The second result says why it
/// cannot be read, if that is known already.
pub(super) fn content(
    wheel: &Arc<OpenWheel>,
    entry: EntryPath,
    claims: CentralHeader,
    limit: u64,
) -> (Arc<dyn Content>, Option<String>) {
    if let Some(reason) = claims.objection() {
        let error = ReadError::damaged(&entry.label(), reason.as_str());
        return (Arc::new(UnreadableContent { size: claims.size, error }), Some(reason));
    }
    let place = MemberPlace {
        wheel: Arc::clone(wheel),
        entry,
        other_name: claims.other_name.map(Box::new),
        header_start: claims.header_start,
        packed_size: claims.packed_size,
        size: claims.size,
        limit,
        crc32: claims.crc32,
        is_deflated: claims.method == 8,
    };
    (Closable::new(place), None)
}

/// Where a member is, and what the zip file claims about it. There is one for each member for as long as the wheel is
/// mounted, so it is kept small.
#[derive(Clone, Debug)]
struct MemberPlace {
    wheel: Arc<OpenWheel>,
    entry: EntryPath,
    /// The name in the zip file if it is not the entry's path. Boxed twice, since few members have one.
    other_name: Option<Box<Box<[u8]>>>,
    header_start: u64,
    packed_size: u64,
    size: u64,
    limit: u64,
    crc32: u32,
    /// Whether it is deflated. Otherwise it is stored.
    is_deflated: bool,
}

impl MemberPlace {
    /// The member's identity.
    fn identity(&self) -> Identity {
        let Self { wheel, header_start, packed_size, size, crc32, .. } = self;
        let numbers = [*header_start, *packed_size, *size, (*crc32).into(), self.method().into()];
        wheel.member.clone().numbers(numbers).finish()
    }

    fn method(&self) -> u16 {
        if self.is_deflated { 8 } else { 0 }
    }

    /// The member's bytes as they are in the zip file.
    fn raw(&self) -> Arc<Raw> {
        Arc::new(Raw { place: self.clone(), data: OnceLock::new() })
    }

    /// The content of a member without compression.
    fn stored(&self, listed: ListedMember, facts: MemberFacts) -> StoredMember {
        let Self { wheel, entry, crc32, .. } = self;
        let resources = Arc::clone(&wheel.resources);
        StoredMember::new(entry.clone(), self.raw(), self.identity(), *crc32, resources, listed, facts)
    }

    /// The stream of a deflated member.
    fn stream(&self) -> Stream {
        let Self { wheel, entry, size, crc32, .. } = self;
        Stream {
            entry: entry.clone(),
            packed: self.raw(),
            size: *size,
            crc32: *crc32,
            identity: self.identity(),
            hashes: Some(Arc::clone(&wheel.hashes)),
            resources: Arc::clone(&wheel.resources),
        }
    }

    /// Checks the local header. Returns the offset of the member's bytes.
    fn check_local_header(&self) -> Result<u64, ReadError> {
        let damaged = |reason: &str| Err(ReadError::damaged(&self.entry.label(), reason));
        let claimed_name = self.other_name.as_ref().map_or(self.entry.as_bytes(), |name| name);
        let mut header = vec![0; 30_usize.saturating_add(claimed_name.len())];
        self.wheel.read(&self.entry, self.header_start, &mut header)?;
        let Some((fixed, name)) = header.split_first_chunk::<30>() else {
            return damaged("its local header is truncated");
        };
        // APPNOTE.TXT 4.3.7: signature 0, flags 6, method 8, lengths of name and extra fields 26 and 28.
        let &[b'P', b'K', 3, 4, _, _, flags, _, m0, m1, .., n0, n1, x0, x1] = fixed else {
            return damaged("there is no local header where the central directory says");
        };
        let (name_length, extra_length) = (u16::from_le_bytes([n0, n1]), u16::from_le_bytes([x0, x1]));
        if usize::from(name_length) != claimed_name.len() || name != claimed_name {
            return damaged("its local header has another name than the central directory");
        }
        // Encrypted members have been refused before.
        if u16::from_le_bytes([m0, m1]) != self.method() || flags & 1 == 1 {
            return damaged("its local header has another compression method than the central directory");
        }
        let data = [LOCAL_HEADER, name_length.into(), extra_length.into()]
            .iter()
            .fold(self.header_start, |sum, &length| sum.saturating_add(length));
        if data.saturating_add(self.packed_size) > self.limit {
            return damaged("it overlaps what comes after it");
        }
        Ok(data)
    }
}

/// A member's bytes as they are in the zip file.
#[derive(Debug)]
struct Raw {
    place: MemberPlace,
    /// Their offset, once the local header has been checked, and that no earlier session has found damage.
    data: OnceLock<u64>,
}

impl Raw {
    fn data(&self) -> Result<u64, ReadError> {
        if let Some(&data) = self.data.get() {
            return Ok(data);
        }
        // Two threads may both check this: the answer is the same.
        let data = self.place.check_local_header()?;
        let MemberPlace { wheel, entry, .. } = &self.place;
        damage::known(&wheel.resources, &self.place.identity(), entry)?;
        Ok(*self.data.get_or_init(|| data))
    }
}

impl Content for Raw {
    #[expect(clippy::misnamed_getters, reason = "these are the packed bytes")]
    fn size(&self) -> u64 {
        self.place.packed_size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.size())?;
        let data = self.data()?;
        self.place.wheel.read(&self.place.entry, data.saturating_add(offset), buffer)
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        self.data.get().is_some_and(|data| self.place.wheel.bytes.is_cached(data.saturating_add(offset), length))
    }
}

impl Openable for MemberPlace {
    fn size(&self) -> u64 {
        self.size
    }

    fn identity(&self) -> Identity {
        self.identity()
    }

    fn decoders(&self) -> &Arc<Decoders> {
        &self.wheel.decoders
    }

    fn open(&self, listed: ListedMember, facts: MemberFacts) -> OpenMember {
        if !self.is_deflated {
            return OpenMember::Stored(self.stored(listed, facts));
        }
        OpenMember::Deflated(Deflated::new(self.stream(), Arc::clone(self.decoders()), listed, facts))
    }

    fn peek(&self, buffer: &mut [u8]) -> Result<(), ReadError> {
        let read = |buffer: &mut [u8]| {
            if self.is_deflated { peek(&self.stream(), self.decoders(), buffer) } else { self.raw().peek(buffer) }
        };
        match &self.wheel.bytes {
            WheelBytes::Remote(file) => file.heads.fill(self.header_start, self.size, buffer, read),
            WheelBytes::Disk(..) | WheelBytes::Member(..) => read(buffer),
        }
    }

    fn in_zip(closable: &Closable<Self>) -> Option<&dyn PackedContent> {
        Some(closable)
    }

    fn place(&self) -> Option<u64> {
        matches!(self.wheel.bytes, WheelBytes::Remote(_)).then_some(self.header_start)
    }
}

impl PackedContent for Closable<MemberPlace> {
    fn packed(&self) -> Packed {
        let MemberPlace { is_deflated, crc32, .. } = self.member;
        let closed = || Packed { bytes: self.member.raw(), deflated: is_deflated, crc32 };
        self.opened().map_or_else(closed, |open| open.packed())
    }

    fn hash_in_passing(&self) {
        self.member.wheel.hashes.store(true, Ordering::Relaxed);
    }

    fn sha256(&self) -> Result<Option<[u8; 32]>, ReadError> {
        self.open().sha256()
    }

    fn block_boundaries(&self) -> Result<Option<Arc<[BlockBoundary]>>, ReadError> {
        self.open().block_boundaries()
    }
}
