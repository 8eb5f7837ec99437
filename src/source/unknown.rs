//! What a file is that kpackfs cannot read, for its message: users meet an empty download or a Debian package more often
//! than noise.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use super::SourceError;
use super::binary::APP_IMAGE;
use super::error::is_named_wheel;
use super::tar::{self, TarCompression};
use crate::disk;
use crate::rope::{Content, to_usize};

/// Bytes at an offset, and what a file is that has them.
type FileMagic = (usize, &'static [u8], &'static str);

/// How archives are recognised that are not read: file(1), "magic".
const ARCHIVES: [FileMagic; 15] = [
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive; unpack it first"),
    (0, b"Rar!", "a RAR archive; unpack it first"),
    (0, b"!<arch>\ndebian-b", "a Debian package; unpack it with dpkg-deb -x"),
    (0, &[0xed, 0xab, 0xee, 0xdb], "an RPM package; unpack it with rpm2cpio and cpio"),
    (0, b"hsqs", "a squashfs image; unpack it with unsquashfs"),
    (0, b"070701", "a cpio archive; unpack it with cpio -id"),
    (0, b"070702", "a cpio archive; unpack it with cpio -id"),
    (0, b"070707", "a cpio archive; unpack it with cpio -id"),
    (0, b"xar!", "a xar archive; unpack it with xar -xf, or with bsdtar -xf"),
    (0, b"!<thin>\n", "a thin static library, which names its object files; name the directory that has these"),
    (0, APP_IMAGE, "an AppImage; run it with --appimage-extract, and name the directory"),
    // It may be a tar archive, or anything else.
    (0, &[0x04, 0x22, 0x4d, 0x18], "compressed with lz4; decompress it with unlz4"),
    (32, b"SIF_MAGIC", "an image of Apptainer; unpack it with apptainer build --sandbox"),
    // With the state of one that was unmounted.
    (0x438, &[0x53, 0xef, 1, 0], "an ext4 image; unpack it with debugfs -R 'rdump / DIR'"),
    (0x8001, b"CD001", "an ISO 9660 image; unpack it with bsdtar -xf, or with xorriso -osirrox on"),
];

/// The same of other files.
const FORMATS: [FileMagic; 8] = [
    (0, b"BZh", "compressed with bzip2; decompress it first"),
    (0, &[0x10, 0xff, 0x10, 0xad], "an LLVM offload binary; name the directory that it is in"),
    (0, &[0x50, 0xed, 0x55, 0xba], "code for NVIDIA's GPUs, and none for AMD's; name the directory that it is in"),
    (0, &[0x5d, 0, 0], "compressed with lzma; decompress it first"),
    (0, &[0x1f, 0x9d], "compressed with compress; decompress it first"),
    (0, STATIC_LIBRARY, "a static library, which linkers read; name a directory that has it"),
    (0, b"PK\x07\x08", VOLUME),
    (0, b"PK", "a truncated or damaged zip file; download it again"),
];

/// What a zip file begins with: the header of its first member (APPNOTE.TXT 4.3.7).
pub(super) const ZIP: &[u8] = b"PK\x03\x04";

/// What a static library begins with (ar(5)).
pub(crate) const STATIC_LIBRARY: &[u8] = b"!<arch>\n";

/// What is said of a zip file in several files (APPNOTE.TXT 8.5).
pub(super) const VOLUME: &str =
    "one volume of a zip file; join all volumes with zip -s 0 a.zip --out b.zip, and name b.zip";

/// Bytes of the shorter header of a cpio archive: digits (cpio(5), "FORMAT").
const CPIO_HEADER: usize = 76;

/// Bytes by which formats are told apart. Images of file systems are known by what is behind the place for a boot loader.
pub(super) const HEAD: u64 = 0x8006;

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
    SourceError::UnknownKind { path: location.to_owned(), what: describe(location, head) }
}

fn describe(location: &Path, head: &[u8]) -> &'static str {
    if head.is_empty() {
        return "an empty file; get it again";
    }
    let known = ARCHIVES.iter().chain(&FORMATS).find(|magic| is_there(magic, head));
    match known {
        Some((.., what)) => what,
        None if head.starts_with(b"version https://git-lfs") => {
            "a pointer of Git LFS in place of the file; run git lfs pull where it is checked out"
        }
        None if is_named_wheel(location) => {
            "no wheel despite its name, perhaps an error page of a server; get it again"
        }
        None => "a file of no known format",
    }
}

fn is_there((at, magic, _): &FileMagic, head: &[u8]) -> bool {
    let has_digits = || head.get(..CPIO_HEADER).is_some_and(|header| header.iter().all(u8::is_ascii_hexdigit));
    head.get(*at..).is_some_and(|rest| rest.starts_with(magic)) && (!magic.starts_with(b"0707") || has_digits())
}

/// Whether a file begins as an archive that is not read.
pub(super) fn begins_archive(head: &[u8]) -> bool {
    ARCHIVES.iter().any(|magic| is_there(magic, head))
}

/// Whether a file with this first block is an archive, or may be one.
pub(crate) fn is_packed_archive(block: &[u8], content: &Arc<dyn Content>) -> bool {
    // That of a disk, or of an image of a file system without a boot loader.
    let is_boot_block = || block.ends_with(&[0x55, 0xaa]) || block.iter().all(|byte| *byte == 0);
    let is_image = || is_boot_block() && content.beginning(to_usize(HEAD)).is_ok_and(|head| begins_archive(&head));
    match tar::packing_of(Path::new(""), block) {
        Some(TarCompression::Plain) => true,
        Some(packing) => tar::may_be_packed(content, packing),
        None => block.starts_with(ZIP) || begins_archive(block) || is_image(),
    }
}
