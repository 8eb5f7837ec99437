//! A gzip file (RFC 1952) as a content of its unpacked bytes. Each of its members is a deflate stream, which is read from
//! checkpoints like a member of a wheel. Most files have one. Files that can be read from the middle have many, such as
//! layers in the form of eStargz.

use std::error::Error;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::super::closable::{Closable, OpenMember, Openable};
use super::super::damage;
use super::super::decoders::Decoders;
use super::super::deflated::{Deflated, peek};
use super::super::facts::MemberFacts;
use super::super::inflate::{DecoderPosition, Inflater, Stops};
use super::super::open_members::ListedMember;
use super::super::stream::Stream;
use super::super::{EntryPath, SourceError};
use super::decoding::{PIECE, check_ratio, located, unusable};
use super::reader::ContentReader;
use crate::index::RecordKind;
use crate::memory::{Parser, ParserMemory};
use crate::resources::Resources;
use crate::rope::{Content, Identity, ReadError, Rope, Segment, to_usize};

/// A member of a gzip file: a deflate stream of its own (RFC 1952, 2.2).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct GzipMember {
    start: u64,
    packed: u64,
    size: u64,
    crc32: u32,
}

/// Bytes of the CRC-32 and the size behind a deflate stream (RFC 1952, 2.3).
const TRAILER: u64 = 8;

/// Bytes that are kept of a member: its content, and its segment in the rope.
const KEPT: u64 = size_of::<Closable<Gunzipped>>() as u64 + 96;

/// The content of a gzip file.
pub(super) fn open(
    location: &Path,
    file: &Arc<dyn Content>,
    resources: &Arc<Resources>,
) -> Result<Arc<dyn Content>, SourceError> {
    let other = |error: &dyn Error| unusable(location, &io::Error::other(error.to_string()));
    let of_file = file.identity();
    let known = of_file.as_ref().and_then(|identity| resources.index.get(RecordKind::Gzip, identity));
    let is_possible = |it: &GzipMember| it.start.checked_add(it.packed).is_some_and(|end| end <= file.size());
    let table = ParserMemory::new(Parser::Tar);
    let tables = |source| SourceError::Tables { path: location.to_owned(), source };
    let members = match known.filter(|known: &Vec<GzipMember>| known.iter().all(is_possible)) {
        Some(known) => {
            table.grow(KEPT.saturating_mul(known.len() as u64)).map_err(tables)?;
            known
        }
        None => FirstPass::new(location, file, resources)?.members(&|| table.grow(KEPT).map_err(tables))?,
    };
    let size = members.iter().fold(0, |size: u64, member| size.saturating_add(member.size));
    check_ratio(location, size, file.size(), resources)?;
    if let Some(of_file) = &of_file {
        resources.index.put(RecordKind::Gzip, of_file, &members);
    }
    let name = location.file_name().unwrap_or_default().as_encoded_bytes();
    let of = Arc::new(GzipFile {
        entry: EntryPath::new(name).map_err(|error| other(&error))?,
        content: Arc::clone(file),
        identity: of_file,
        is_single: members.len() == 1,
        resources: Arc::clone(resources),
        decoders: Decoders::of(resources),
        table,
    });
    let content = |member: GzipMember| -> Result<Arc<dyn Content>, ReadError> {
        let gunzipped = Gunzipped { of: Arc::clone(&of), member };
        damage::known(resources, &gunzipped.identity(), &of.entry)?;
        Ok(Closable::new(gunzipped))
    };
    let contents = members.into_iter().map(content).collect::<Result<Vec<_>, _>>().map_err(|error| other(&error))?;
    match <[_; 1]>::try_from(contents) {
        Ok([only]) => Ok(only),
        Err(several) => {
            let rope = Rope::new(several.into_iter().map(Segment::whole));
            Ok(Arc::new(rope.map_err(|error| other(&error))?))
        }
    }
}

/// What all members of a gzip file share.
#[derive(Debug)]
struct GzipFile {
    entry: EntryPath,
    content: Arc<dyn Content>,
    identity: Option<Identity>,
    /// Whether it has one member.
    is_single: bool,
    resources: Arc<Resources>,
    decoders: Arc<Decoders>,
    #[expect(dead_code, reason = "the members count as long as they are there")]
    table: ParserMemory,
}

/// The content of a member of a gzip file.
#[derive(Debug)]
struct Gunzipped {
    of: Arc<GzipFile>,
    member: GzipMember,
}

impl Gunzipped {
    fn stream(&self) -> Stream {
        let GzipFile { entry, resources, .. } = &*self.of;
        Stream {
            entry: entry.clone(),
            packed: Arc::new(self.packed()),
            size: self.member.size,
            crc32: self.member.crc32,
            identity: self.identity(),
            hashes: None,
            resources: Arc::clone(resources),
        }
    }

    /// The deflate stream.
    fn packed(&self) -> Rope {
        let range = Segment::range(Arc::clone(&self.of.content), self.member.start, self.member.packed);
        // The place of each member was compared with the size of the file.
        range.and_then(|range| Rope::new([range])).unwrap_or_default()
    }
}

impl Openable for Gunzipped {
    fn size(&self) -> u64 {
        self.member.size
    }

    fn identity(&self) -> Identity {
        let mut identity = Identity::describe("gzip");
        if let Some(of_file) = &self.of.identity {
            identity.add(&of_file.0);
        }
        if !self.of.is_single {
            identity.number(self.member.start);
        }
        identity.finish()
    }

    fn decoders(&self) -> &Arc<Decoders> {
        &self.of.decoders
    }

    fn open(&self, listed: ListedMember, facts: MemberFacts) -> OpenMember {
        OpenMember::Deflated(Deflated::new(self.stream(), Arc::clone(self.decoders()), listed, facts))
    }

    fn peek(&self, buffer: &mut [u8]) -> Result<(), ReadError> {
        peek(&self.stream(), self.decoders(), buffer)
    }
}

/// The first pass over a gzip file. Only this reveals the lengths of contents, since trailers have just 32 bits of them.
struct FirstPass<'a> {
    location: &'a Path,
    packed: u64,
    resources: &'a Resources,
    input: BufReader<ContentReader>,
    inflater: Inflater,
    piece: Vec<u8>,
    /// Bytes of content so far.
    unpacked: u64,
}

impl<'a> FirstPass<'a> {
    fn new(location: &'a Path, file: &Arc<dyn Content>, resources: &'a Resources) -> Result<Self, SourceError> {
        let input = BufReader::with_capacity(PIECE, ContentReader::new(file));
        let inflater = Inflater::new().map_err(|error| unusable(location, &io::Error::other(error.to_string())))?;
        Ok(Self { location, packed: file.size(), resources, input, inflater, piece: vec![0; PIECE], unpacked: 0 })
    }

    /// The members with content. `count` is called for each before it is kept.
    fn members(mut self, count: &dyn Fn() -> Result<(), SourceError>) -> Result<Vec<GzipMember>, SourceError> {
        let (mut members, mut number, mut start) = (Vec::new(), 1_u64, 0);
        loop {
            let member = self.member(start).map_err(|error| match error {
                FirstPassError::Io(error) if number == 1 => unusable(self.location, &error),
                FirstPassError::Io(error) => {
                    let reason = format!("gzip member {number}, which begins at byte {start} of the file: {error}");
                    unusable(self.location, &io::Error::other(reason))
                }
                FirstPassError::Ratio(error) => error,
            })?;
            number += 1;
            start = member.start.saturating_add(member.packed).saturating_add(TRAILER);
            // Those without content carry notes, such as the footer of eStargz.
            if member.size > 0 {
                count()?;
                members.push(member);
            }
            if self.is_at_end().map_err(|error| unusable(self.location, &located(&error, self.unpacked)))? {
                return Ok(members);
            }
        }
    }

    /// Inflates the member that begins at this offset of the file.
    fn member(&mut self, start: u64) -> Result<GzipMember, FirstPassError> {
        let start = start.saturating_add(skip_header(&mut self.input)?);
        self.inflater.enter(0, 0, &[]).map_err(|error| io::Error::other(error.to_string()))?;
        let (mut packed, mut size, mut hasher) = (0_u64, 0_u64, crc32fast::Hasher::new());
        loop {
            let input = self.input.fill_buf()?;
            let step = self.inflater.step(input, &mut self.piece, Stops::Never);
            let step = step.map_err(|error| io::Error::other(error.to_string()))?;
            self.input.consume(step.consumed);
            packed = packed.saturating_add(step.consumed as u64);
            size = size.saturating_add(step.produced as u64);
            self.unpacked = self.unpacked.saturating_add(step.produced as u64);
            hasher.update(self.piece.get(..step.produced).unwrap_or_default());
            check_ratio(self.location, self.unpacked, self.packed, self.resources).map_err(FirstPassError::Ratio)?;
            match step.place {
                DecoderPosition::End => break,
                DecoderPosition::Inside | DecoderPosition::Boundary(_) => {}
                DecoderPosition::Stuck => {
                    return Err(located(&io::ErrorKind::UnexpectedEof.into(), self.unpacked).into());
                }
                DecoderPosition::Invalid => {
                    let error = io::Error::other("the compressed data is no valid deflate stream");
                    return Err(located(&error, self.unpacked).into());
                }
            }
        }
        let mut trailer = [0; to_usize(TRAILER)];
        self.input.read_exact(&mut trailer).map_err(|error| located(&error, self.unpacked))?;
        let [c0, c1, c2, c3, s0, s1, s2, s3] = trailer;
        let crc32 = hasher.finalize();
        let has_size = u64::from(u32::from_le_bytes([s0, s1, s2, s3])) == size & u64::from(u32::MAX);
        if u32::from_le_bytes([c0, c1, c2, c3]) != crc32 || !has_size {
            let reason = "its content does not have the CRC-32 and the size that its end claims";
            return Err(io::Error::other(reason).into());
        }
        Ok(GzipMember { start, packed, size, crc32 })
    }

    /// Whether no member follows. As for gzip(1), a file may be padded with zeros, as on tapes. Anything else is refused,
    /// since it may be a damaged member.
    fn is_at_end(&mut self) -> io::Result<bool> {
        let mut is_padded = false;
        loop {
            match self.input.fill_buf()? {
                [] => return Ok(true),
                [0x1f, ..] if !is_padded => return Ok(false),
                [0, rest @ ..] => {
                    let zeros = 1 + rest.iter().take_while(|byte| **byte == 0).count();
                    self.input.consume(zeros);
                    is_padded = true;
                }
                _ => return Err(io::Error::other("what follows is no gzip member; get the file again, or remove it")),
            }
        }
    }
}

/// Why the first pass ends early.
#[derive(Debug, thiserror::Error)]
enum FirstPassError {
    /// The file is damaged, or cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Its content is too large.
    #[error(transparent)]
    Ratio(SourceError),
}

/// Reads the header of a gzip member, and returns its length in bytes (RFC 1952, 2.3).
fn skip_header(input: &mut impl BufRead) -> io::Result<u64> {
    let mut fixed = [0; 10];
    input.read_exact(&mut fixed)?;
    let [0x1f, 0x8b, 8, flags, ..] = fixed else { return Err(io::Error::other("not gzip with deflate")) };
    let mut length = fixed.len();
    if flags & 4 != 0 {
        let mut size = [0; 2];
        input.read_exact(&mut size)?;
        let mut extra = vec![0; u16::from_le_bytes(size).into()];
        input.read_exact(&mut extra)?;
        length += size.len() + extra.len();
    }
    // FNAME and FCOMMENT end with a NUL byte.
    for flag in [8, 16] {
        if flags & flag != 0 {
            length += input.skip_until(0)?;
        }
    }
    if flags & 2 != 0 {
        input.read_exact(&mut [0; 2])?;
        length += 2;
    }
    Ok(length as u64)
}
