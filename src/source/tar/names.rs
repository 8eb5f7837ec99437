//! The names of the first members of a tar archive, by which it is recognised. It is not listed for that: of a compressed one,
//! the beginning is unpacked.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;
use tar::{EntryType, Header};

use super::unpacked::{MAX_MEMORY, TarCompression, WINDOW_LOG};
use super::{BLOCK, is_end, is_header, path_of};
use crate::disk;
use crate::source::EntryPath;

/// The most bytes of a compressed archive that are unpacked.
const MOST: u64 = 1 << 20;

/// The most bytes that are read for these: blocks may be empty.
const MOST_READ: u64 = 2 * MOST;

/// Iterates over the paths of members as their headers state them, without those of extended headers: what an archive is
/// recognised by has short names. Ends at what cannot be read, of which listing the archive tells.
pub(crate) struct TarNames {
    bytes: TarBytes,
    /// Bytes up to the next header.
    rest: u64,
}

enum TarBytes {
    File(File),
    Unpacked(Box<dyn Read>),
}

impl TarNames {
    /// The members of the archive at `location`.
    pub(crate) fn open(location: &Path, packing: TarCompression) -> io::Result<Self> {
        let bytes = match unpacked(location, packing)? {
            Some(stream) => TarBytes::Unpacked(Box::new(stream.take(MOST))),
            None => TarBytes::File(disk::open(location)?.0),
        };
        Ok(Self { bytes, rest: 0 })
    }
}

/// The bytes of a compressed file.
fn unpacked(location: &Path, packing: TarCompression) -> io::Result<Option<Box<dyn Read>>> {
    let file = disk::open(location)?.0.take(MOST_READ);
    Ok(Some(match packing {
        TarCompression::Plain => return Ok(None),
        TarCompression::Gzip => Box::new(MultiGzDecoder::new(file)),
        TarCompression::Zstd => {
            let mut decoder = zstd::Decoder::new(file)?;
            decoder.window_log_max(WINDOW_LOG)?;
            Box::new(decoder)
        }
        TarCompression::Xz => Box::new(XzReader::new_mem_limit(BufReader::new(file), true, MAX_MEMORY)),
    }))
}

/// Whether a file is compressed, and is no tar archive by what is in it. One that cannot be decompressed may be one.
pub(crate) fn is_no_tar(location: &Path, packing: TarCompression) -> io::Result<bool> {
    let Some(stream) = unpacked(location, packing)? else { return Ok(false) };
    let mut first = Vec::new();
    let is_readable = stream.take(BLOCK).read_to_end(&mut first).is_ok();
    Ok(is_readable && !is_header(&first) && !is_end(&first))
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
            let header = self.bytes.block().ok().filter(|header| is_header(header.as_bytes()))?;
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
