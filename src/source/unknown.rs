//! What a file is that kpackfs cannot read, for its message: users meet an empty download or a Debian package more often
//! than noise.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::SourceError;
use super::binary::APP_IMAGE;
use super::tar::{self, TarCompression};
use crate::disk;
use crate::rope::Content;

/// How archives begin that are not read, and what they are: file(1), "magic".
const ARCHIVES: [(&[u8], &str); 10] = [
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it first"),
    (b"Rar!", "a RAR archive; unpack it first"),
    (b"!<arch>\ndebian-b", "a Debian package; unpack it with dpkg-deb -x"),
    (&[0xed, 0xab, 0xee, 0xdb], "an RPM package; unpack it with rpm2cpio and cpio"),
    (b"hsqs", "a squashfs image; unpack it with unsquashfs"),
    (b"070701", "a cpio archive; unpack it first"),
    (b"070702", "a cpio archive; unpack it first"),
    (b"070707", "a cpio archive; unpack it first"),
    (APP_IMAGE, "an AppImage; run it with --appimage-extract, and name the directory"),
    // It may be a tar archive, or anything else.
    (&[0x04, 0x22, 0x4d, 0x18], "compressed with lz4; decompress it with unlz4"),
];

/// The same of other files.
const FORMATS: [(&[u8], &str); 7] = [
    (b"BZh", "compressed with bzip2; decompress it first"),
    (&[0x10, 0xff, 0x10, 0xad], "an LLVM offload binary; name the directory that it is in"),
    (&[0x50, 0xed, 0x55, 0xba], "code for NVIDIA's GPUs, and none for AMD's; name the directory that it is in"),
    (&[0x5d, 0, 0], "compressed with lzma; decompress it first"),
    (&[0x1f, 0x9d], "compressed with compress; decompress it first"),
    (b"!<arch>\n", "a static library, which linkers read; name a directory that has it"),
    (b"PK", "a truncated or damaged zip file; download it again"),
];

/// What a zip file begins with: the header of its first member (APPNOTE.TXT 4.3.7).
pub(super) const ZIP: &[u8] = b"PK\x03\x04";

/// Bytes by which formats are told apart.
pub(super) const HEAD: u64 = 16;

/// The error about the file at `location`.
pub(crate) fn unknown(location: &Path) -> SourceError {
    let mut head = Vec::new();
    match disk::open(location).and_then(|(file, _)| file.take(HEAD).read_to_end(&mut head)) {
        Ok(_) => begins_with(location, &head),
        Err(source) => SourceError::Io { path: location.to_owned(), source },
    }
}

/// The error about a file with these first bytes.
pub(super) fn begins_with(location: &Path, head: &[u8]) -> SourceError {
    SourceError::UnknownKind { path: location.to_owned(), what: describe(head) }
}

fn describe(head: &[u8]) -> &'static str {
    if head.is_empty() {
        return "an empty file; get it again";
    }
    let known = ARCHIVES.iter().chain(&FORMATS).find(|(magic, _)| head.starts_with(magic));
    known.map_or("a file of no known format", |(_, what)| what)
}

/// Whether a file with this first block is an archive, or may be one.
pub(crate) fn is_packed_archive(block: &[u8], content: &Arc<dyn Content>) -> bool {
    match tar::packing_of(Path::new(""), block) {
        Some(TarCompression::Plain) => true,
        Some(packing) => tar::may_be_tar(content, packing),
        None => ARCHIVES.iter().map(|(magic, _)| *magic).chain([ZIP]).any(|magic| block.starts_with(magic)),
    }
}
