//! Archives from which a program or a script unpacks itself, other than zip files.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memchr::memmem;

use crate::rope::{Content, Rope, Segment, to_usize};
use crate::source::{TAR_BLOCK, TarCompression, is_packed_archive, packing_of};

/// What the archive of `PyInstaller` ends with: `_COOKIE_FORMAT` of its archive/writers.py, which begins with this magic.
const COOKIE: &[u8] = b"MEI\x0c\x0b\x0a\x0b\x0e";
const COOKIE_SIZE: u64 = 88;

/// Smaller files and sections have no such archive.
const LEAST: u64 = 64 << 10;

/// The most bytes of the script before an archive. That of makeself has 20 KB.
const MOST_SCRIPT: u64 = 128 << 10;

/// What the first block of bzip2 begins with: digits of π.
const BZIP2: &[u8] = b"1AY&SY";

/// Where "ustar" is in a header of a tar archive (POSIX.1-2001 "pax").
const MAGIC_OF_TAR: usize = 257;

/// How archives behind a script begin: as gzip, xz, zstd and lz4 in a line of their own, or as bzip2.
const BEHIND_SCRIPT: [&[u8]; 5] =
    [b"\n\x1f\x8b\x08", b"\n\xfd7zXZ\0", b"\n\x28\xb5\x2f\xfd", b"\n\x04\x22\x4d\x18", BZIP2];

/// Whether an archive follows the last section of a program, or is one of those that are not loaded, which are in file order.
pub(super) fn is_in_program(content: &Arc<dyn Content>, unloaded: &[Range<u64>]) -> bool {
    let behind = unloaded.last().filter(|range| range.end == content.size());
    behind.is_some_and(|range| is_archive_at(content, range.start))
        || unloaded.iter().any(|it| is_of_python(content, it))
}

/// Whether an archive begins in a line of a script.
pub(super) fn is_in_script(content: &Arc<dyn Content>) -> bool {
    if content.size() < LEAST {
        return false;
    }
    let script = content.beginning(to_usize(MOST_SCRIPT)).unwrap_or_default();
    BEHIND_SCRIPT.iter().any(|magic| memmem::find(&script, magic).is_some()) || has_tar(&script)
}

/// Whether a header of a tar archive is among some bytes.
fn has_tar(bytes: &[u8]) -> bool {
    let is_header = |at: usize| {
        let block = at.checked_sub(MAGIC_OF_TAR).and_then(|start| bytes.get(start..)?.get(..to_usize(TAR_BLOCK)));
        block.is_some_and(|block| packing_of(Path::new(""), block) == Some(TarCompression::Plain))
    };
    memmem::find_iter(bytes, b"ustar").any(is_header)
}

fn is_archive_at(content: &Arc<dyn Content>, start: u64) -> bool {
    let rest = Segment::range(Arc::clone(content), start, content.size().saturating_sub(start));
    let Ok(rest) = rest.and_then(|rest| Rope::new([rest])) else { return false };
    let rest: Arc<dyn Content> = Arc::new(rest);
    let block = rest.beginning(to_usize(TAR_BLOCK)).unwrap_or_default();
    // Its header has four bytes.
    block.get(4..10) == Some(BZIP2) || is_packed_archive(&block, &rest)
}

fn is_of_python(content: &Arc<dyn Content>, range: &Range<u64>) -> bool {
    let mut magic = vec![0; COOKIE.len()];
    let start = range.end.saturating_sub(COOKIE_SIZE).max(range.start);
    range.end - range.start >= LEAST && content.read_at(start, &mut magic).is_ok() && magic == COOKIE
}
