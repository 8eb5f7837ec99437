//! The members of a wheel as contents.

use std::fs::File;
use std::sync::{Arc, OnceLock};

use super::decoder::Stream;
use super::decoders::Decoders;
use super::deflated::Deflated;
use super::path::EntryPath;
use super::stamp::{Label, Stamp, is_cached, read_unchanged};
use crate::resources::Resources;
use crate::rope::{Content, Identity, Packed, ReadError, check_range};

/// Length of a local file header without name and extra fields (APPNOTE.TXT 4.3.7).
pub(super) const LOCAL_HEADER: u64 = 30;

/// A `.whl` file that is kept open.
#[derive(Debug)]
pub(super) struct WheelFile {
    pub(super) file: File,
    pub(super) stamp: Stamp,
    /// What the file is, by its stamp.
    pub(super) identity: Identity,
    pub(super) resources: Arc<Resources>,
    pub(super) decoders: Arc<Decoders>,
}

impl WheelFile {
    pub(super) fn read(&self, entry: &impl Label, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        read_unchanged(&self.file, &self.stamp, entry, offset, buffer, &self.resources)
    }
}

/// What the central directory says about a member.
#[derive(Debug)]
pub(super) struct Claims {
    /// The name as it is written there.
    pub(super) name: Box<[u8]>,
    pub(super) header_start: u64,
    pub(super) packed_size: u64,
    pub(super) size: u64,
    pub(super) crc32: u32,
    /// Compression method (APPNOTE.TXT 4.4.5): 0 is stored, 8 is deflated.
    pub(super) method: u16,
    pub(super) encrypted: bool,
}

impl Claims {
    /// What the member of a wheel is.
    fn identity(&self, wheel: &WheelFile) -> Identity {
        let mut identity = Identity::describe("member");
        identity.add(&wheel.identity.0).number(self.header_start).number(self.packed_size).number(self.size);
        identity.number(self.crc32.into()).number(self.method.into()).finish()
    }

    /// Why the member cannot be read, if that can be told without reading it.
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

/// Makes a member's content. Its bytes, with local header, end at or before `limit`. The second result is why it cannot
/// be read, if that can be told already.
pub(super) fn content(
    wheel: &Arc<WheelFile>,
    entry: EntryPath,
    mut claims: Claims,
    limit: u64,
) -> (Arc<dyn Content>, Option<String>) {
    if let Some(reason) = claims.objection() {
        return (Arc::new(Unreadable { entry, size: claims.size, reason: reason.as_str().into() }), Some(reason));
    }
    if *claims.name == *entry.as_bytes() {
        claims.name = Box::default();
    }
    let (method, size, crc32) = (claims.method, claims.size, claims.crc32);
    let identity = claims.identity(wheel);
    let raw = Raw { wheel: Arc::clone(wheel), entry: entry.clone(), claims, limit, data: OnceLock::new(), identity };
    if method == 0 {
        return (Arc::new(Stored(Arc::new(raw))), None);
    }
    let stream = Stream {
        entry,
        packed: Arc::new(raw),
        size,
        crc32,
        identity,
        decoders: Arc::clone(&wheel.decoders),
        resources: Arc::clone(&wheel.resources),
    };
    (Arc::new(Deflated::new(stream)), None)
}

/// A member's bytes as they stand in the wheel.
#[derive(Debug)]
struct Raw {
    wheel: Arc<WheelFile>,
    entry: EntryPath,
    /// Without the name if that is the entry's path.
    claims: Claims,
    limit: u64,
    /// Where they start, once the local header has been checked.
    data: OnceLock<u64>,
    /// Of the member.
    identity: Identity,
}

impl Raw {
    fn data(&self) -> Result<u64, ReadError> {
        if let Some(&data) = self.data.get() {
            return Ok(data);
        }
        // Nobody waits for another: the answer is the same for all.
        let data = self.check_local_header()?;
        Ok(*self.data.get_or_init(|| data))
    }

    fn check_local_header(&self) -> Result<u64, ReadError> {
        let damaged = |reason: &str| Err(ReadError::damaged(&self.entry.label(), reason));
        let claims = &self.claims;
        let claimed_name = if claims.name.is_empty() { self.entry.as_bytes() } else { &claims.name };
        let mut header = vec![0; 30_usize.saturating_add(claimed_name.len())];
        self.wheel.read(&self.entry, claims.header_start, &mut header)?;
        let Some((fixed, name)) = header.split_first_chunk::<30>() else {
            return damaged("its local header is cut off");
        };
        // APPNOTE.TXT 4.3.7: signature 0, flags 6, method 8, lengths of name and extra fields 26 and 28.
        let &[b'P', b'K', 3, 4, _, _, flags, _, m0, m1, .., n0, n1, x0, x1] = fixed else {
            return damaged("there is no local header where the central directory says");
        };
        let (name_length, extra_length) = (u16::from_le_bytes([n0, n1]), u16::from_le_bytes([x0, x1]));
        if usize::from(name_length) != claimed_name.len() || name != claimed_name {
            return damaged("its local header has another name than the central directory");
        }
        if u16::from_le_bytes([m0, m1]) != claims.method || (flags & 1 == 1) != claims.encrypted {
            return damaged("its local header has another compression method than the central directory");
        }
        let data = [LOCAL_HEADER, name_length.into(), extra_length.into()]
            .iter()
            .fold(claims.header_start, |sum, &length| sum.saturating_add(length));
        if data.saturating_add(claims.packed_size) > self.limit {
            return damaged("it overlaps what comes after it");
        }
        Ok(data)
    }
}

impl Content for Raw {
    #[expect(clippy::misnamed_getters, reason = "these are the packed bytes")]
    fn size(&self) -> u64 {
        self.claims.packed_size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.claims.packed_size)?;
        let data = self.data()?;
        self.wheel.read(&self.entry, data.saturating_add(offset), buffer)
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        self.data.get().is_some_and(|data| is_cached(&self.wheel.file, data.saturating_add(offset), length))
    }

    fn identity(&self) -> Option<Identity> {
        Some(Identity::describe("packed").add(&self.identity.0).finish())
    }
}

/// A member that is not compressed. Its CRC-32 is not checked, because nobody has to read it from start to end.
#[derive(Debug)]
struct Stored(Arc<Raw>);

impl Content for Stored {
    fn size(&self) -> u64 {
        self.0.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.0.read_at(offset, buffer)
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        self.0.is_nonblocking(offset, length)
    }

    fn identity(&self) -> Option<Identity> {
        Some(self.0.identity)
    }

    fn packed(&self) -> Option<Packed> {
        let bytes: Arc<dyn Content> = Arc::<Raw>::clone(&self.0);
        Some(Packed { bytes, deflated: false, crc32: self.0.claims.crc32 })
    }
}

/// A member that is listed, but cannot be read.
#[derive(Debug)]
struct Unreadable {
    entry: EntryPath,
    size: u64,
    reason: Arc<str>,
}

impl Content for Unreadable {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.size)?;
        Err(ReadError::damaged(&self.entry.label(), Arc::clone(&self.reason)))
    }
}
