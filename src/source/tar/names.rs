//! The names of the first members of a tar archive, by which it is recognised. It is not listed for that: of a compressed one,
//! the beginning is unpacked.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use memchr::memmem;
use tar::{EntryType, Header};

use super::reader::ContentReader;
use super::unpacked::{MAX_MEMORY, TarCompression, WINDOW_LOG};
use super::{BLOCK, is_end, is_header, packing, path_of};
use crate::disk;
use crate::rope::{Content, to_usize};
use crate::source::{EntryPath, SourceError, unknown};

/// The most bytes of a compressed archive that are unpacked.
const MOST: u64 = 1 << 20;

/// The most bytes that are read for these: blocks may be empty.
const MOST_READ: u64 = 2 * MOST;

/// The most bytes that are unpacked for each byte of an archive whose members are all looked at. Device code has ten.
const MOST_RATIO: u64 = 1 << 10;

/// What a decoder may need.
#[derive(Clone, Copy)]
struct DecoderLimits {
    /// The logarithm of the window of zstd.
    window_log: u32,
    /// The memory of xz in KiB.
    memory: u32,
}

/// The limits for an input itself.
const OF_INPUT: DecoderLimits = DecoderLimits { window_log: WINDOW_LOG, memory: MAX_MEMORY };

/// The limits for files in an input, of which each thread looks at one. `zstd -19` and `xz -6` stay within them.
const OF_FILES: DecoderLimits = DecoderLimits { window_log: 23, memory: 9 << 10 };

/// Iterates over the paths of members as their headers state them, without those of extended headers: what an archive is
/// recognised by has short names. Ends at what cannot be read, of which listing the archive tells.
pub(crate) struct TarNames {
    bytes: TarBytes,
    /// Bytes up to the next header.
    rest: u64,
    /// Whether the blocks that end an archive have been reached.
    is_at_end: bool,
}

enum TarBytes {
    File(File),
    Unpacked(Box<dyn Read>),
}

impl TarNames {
    /// The members of the archive at `location`.
    pub(crate) fn open(location: &Path, packing: TarCompression) -> io::Result<Self> {
        Self::up_to(MOST, MOST_READ, location, packing)
    }

    /// The same, of which at most so many bytes are unpacked, and read for that.
    fn up_to(most: u64, most_read: u64, location: &Path, packing: TarCompression) -> io::Result<Self> {
        let file = disk::open(location)?.0;
        let bytes = if packing == TarCompression::Plain {
            TarBytes::File(file)
        } else {
            let stream = unpacked(file.take(most_read), packing, OF_INPUT)?;
            TarBytes::Unpacked(Box::new(stream.take(most)))
        };
        Ok(Self { bytes, rest: 0, is_at_end: false })
    }
}

/// Whether the tar archive at `location` has a member with this path; `None` if that is not known, because it is no archive, or
/// cannot be read to its end.
pub(crate) fn has_member(location: &Path, path: &EntryPath) -> io::Result<Option<bool>> {
    let Some(packing) = packing(location)? else { return Ok(None) };
    let size = location.metadata()?.len();
    let mut names = TarNames::up_to(size.saturating_mul(MOST_RATIO), size, location, packing)?;
    let has = names.any(|name| name == *path);
    Ok((has || names.is_at_end).then_some(has))
}

/// The bytes of a compressed file.
fn unpacked(file: impl Read + 'static, packing: TarCompression, limits: DecoderLimits) -> io::Result<Box<dyn Read>> {
    Ok(match packing {
        TarCompression::Plain => Box::new(file),
        TarCompression::Gzip => Box::new(MultiGzDecoder::new(file)),
        TarCompression::Zstd => {
            let mut decoder = zstd::Decoder::new(file)?;
            decoder.window_log_max(limits.window_log)?;
            Box::new(decoder)
        }
        TarCompression::Xz => Box::new(XzReader::new_mem_limit(BufReader::new(file), true, limits.memory)),
    })
}

/// The first bytes of what a compressed file holds, as far as it can be decompressed, and whether it can.
fn first_bytes(
    file: impl Read + 'static,
    packing: TarCompression,
    limits: DecoderLimits,
    length: u64,
) -> (Vec<u8>, bool) {
    let mut first = Vec::new();
    let stream = unpacked(file.take(MOST_READ), packing, limits);
    let is_readable = stream.and_then(|stream| stream.take(length).read_to_end(&mut first)).is_ok();
    (first, is_readable)
}

/// Whether a file is compressed, and is no tar archive by what is in it. One that cannot be decompressed may be one.
pub(crate) fn is_no_tar(location: &Path, packing: TarCompression) -> io::Result<bool> {
    if packing == TarCompression::Plain {
        return Ok(false);
    }
    let (first, is_readable) = first_bytes(disk::open(location)?.0, packing, OF_INPUT, BLOCK);
    Ok(is_readable && !is_header(&first) && !is_end(&first))
}

/// Fails if what has no members is an image of a file system, which begins with empty blocks as well.
pub(crate) fn check_image(location: &Path, archive: &dyn Content) -> Result<(), SourceError> {
    let head = archive.beginning(to_usize(unknown::HEAD)).unwrap_or_default();
    if unknown::begins_archive(&head) { Err(unknown::begins_with(location, &head)) } else { Ok(()) }
}

/// Whether a compressed file in an input may have device code in files by what is in it: a tar archive, one that is not read where it
/// is compressed, or a library. One of which nothing can be decompressed, or not with a small window, may be one.
pub(crate) fn may_be_packed(content: &Arc<dyn Content>, packing: TarCompression) -> bool {
    let (first, is_readable) = first_bytes(ContentReader::new(content), packing, OF_FILES, unknown::HEAD);
    let block = first.get(..to_usize(BLOCK)).unwrap_or(&first);
    let is_archive = [unknown::ZIP, unknown::STATIC_LIBRARY].iter().any(|magic| first.starts_with(magic));
    let is_known = is_archive || is_header(block) || unknown::begins_archive(&first) || is_library(&first);
    is_known || !is_readable && first.is_empty()
}

/// Whether a program or a library for a host begins so, not an object file, of which kernels have thousands as modules.
fn is_library(head: &[u8]) -> bool {
    match head {
        // ELF of 64 bits, `e_type` and `e_machine`: x86-64 and AArch64.
        [0x7f, b'E', b'L', b'F', 2, rest @ ..] => matches!(rest.get(11..15), Some([2 | 3, 0, 62 | 183, 0])),
        [b'M', b'Z', rest @ ..] => memmem::find(rest, b"PE\0\0").is_some(),
        _ => false,
    }
}

impl TarBytes {
    fn skip(&mut self, length: u64) -> io::Result<()> {
        match self {
            Self::File(file) => drop(file.seek(SeekFrom::Current(length.try_into().map_err(io::Error::other)?))?),
            Self::Unpacked(stream) => drop(io::copy(&mut stream.take(length), &mut io::sink())?),
        }
        Ok(())
    }

    fn block(&mut self) -> io::Result<Header> {
        let mut header = Header::new_old();
        match self {
            Self::File(file) => file.read_exact(header.as_mut_bytes())?,
            Self::Unpacked(stream) => stream.read_exact(header.as_mut_bytes())?,
        }
        Ok(header)
    }
}

impl Iterator for TarNames {
    type Item = EntryPath;

    fn next(&mut self) -> Option<EntryPath> {
        loop {
            self.bytes.skip(self.rest).ok()?;
            let header = self.bytes.block().ok()?;
            self.is_at_end = is_end(header.as_bytes());
            if !is_header(header.as_bytes()) {
                return None;
            }
            self.rest = header.entry_size().ok()?.checked_next_multiple_of(BLOCK)?;
            let is_of_next = matches!(
                header.entry_type(),
                EntryType::XHeader | EntryType::XGlobalHeader | EntryType::GNULongName | EntryType::GNULongLink
            );
            if !is_of_next {
                return Some(path_of(&header.path_bytes()).ok().flatten().unwrap_or_else(EntryPath::root));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_READ, TarCompression, is_no_tar};
    use crate::rope::to_usize;

    /// RFC 1952 and RFC 1951, section 3.2.4.
    #[test]
    fn blocks_that_decode_to_nothing_are_read_up_to_a_limit() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let empty = [0, 0, 0, 0xff, 0xff];
        for (blocks, is_none) in [(100, true), (MOST_READ.div_ceil(5), false)] {
            let header = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
            let text = [&[1, 0, 2, 0xff, 0xfd][..], &[b'x'; 512]].concat();
            std::fs::write(file.path(), [&header[..], &empty.repeat(to_usize(blocks)), &text].concat()).unwrap();
            assert_eq!(is_no_tar(file.path(), TarCompression::Gzip).unwrap(), is_none, "{blocks}");
        }
    }
}
