//! Finds what is mapped at an address of this process.

use std::borrow::Cow;
use std::ffi::{OsString, c_int, c_void};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// What the kernel appends to the name of a deleted file.
const DELETED: &[u8] = b" (deleted)";

/// A line of `/proc/self/maps` (`proc_pid_maps(5)`).
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: usize,
    end: usize,
    is_readable: bool,
    /// Offset of `start` in the file.
    offset: u64,
    /// Device and inode; the inode is 0 if there is no file.
    device: Vec<u8>,
    inode: u64,
    name: Vec<u8>,
}

impl Mapping {
    fn parse(line: &[u8]) -> Option<Self> {
        let mut rest = line;
        let mut field = || {
            let end = rest.iter().position(|&byte| byte == b' ').unwrap_or(rest.len());
            let (field, after) = rest.split_at_checked(end)?;
            rest = after.get(1..).unwrap_or_default();
            Some(field)
        };
        let (range, permissions, offset, device, inode) = (field()?, field()?, field()?, field()?, field()?);
        let (start, end) = std::str::from_utf8(range).ok()?.split_once('-')?;
        Some(Self {
            start: usize::from_str_radix(start, 16).ok()?,
            end: usize::from_str_radix(end, 16).ok()?,
            is_readable: permissions.first() == Some(&b'r'),
            offset: u64::from_str_radix(std::str::from_utf8(offset).ok()?, 16).ok()?,
            device: device.to_vec(),
            inode: std::str::from_utf8(inode).ok()?.parse().ok()?,
            name: rest.trim_ascii_start().to_vec(),
        })
    }

    fn holds(&self, address: usize) -> bool {
        (self.start..self.end).contains(&address)
    }

    /// Whether this mapping starts where the other ends, with the same file, or with no file like the other.
    fn continues(&self, other: &Self) -> bool {
        let same = (&self.device, self.inode, &self.name) == (&other.device, other.inode, &other.name);
        self.start == other.end && self.is_readable && same
    }

    /// The file; `None` if the mapping has no file, or one without a path.
    fn path(&self) -> Option<PathBuf> {
        if self.inode == 0 || !self.name.starts_with(b"/") {
            return None;
        }
        // The kernel escapes a line feed as four characters, and escapes nothing else (fs/seq_file.c: seq_path with
        // "\n").
        let path = PathBuf::from(OsString::from_vec(replace(&self.name, b"\\012", b"\n")));
        match self.name.strip_suffix(DELETED) {
            // The file's directory may still exist, and the archives in it: packages get upgraded while programs run.
            Some(name) if !path.exists() => {
                let name = replace(name, b"\\012", b"\n");
                // A memfd or shared memory never had a directory.
                let path = PathBuf::from(OsString::from_vec(name));
                path.parent().is_some_and(|parent| parent != Path::new("/")).then_some(path)
            }
            _ => Some(path),
        }
    }
}

fn replace(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(from) {
            out.extend(to);
            rest = after;
        } else {
            out.push(first);
            rest = after;
        }
    }
    out
}

/// The mappings, starting with the one that contains `address`.
fn mappings_from(address: usize) -> impl Iterator<Item = Mapping> {
    #[expect(clippy::disallowed_methods, reason = "a file of the kernel, which opens without waiting")]
    let lines = File::open("/proc/self/maps").into_iter().flat_map(|file| BufReader::new(file).split(b'\n'));
    let mappings = lines.map_while(Result::ok).filter_map(|line| Mapping::parse(&line));
    mappings.skip_while(move |mapping| !mapping.holds(address))
}

/// The file that is mapped at an address, and the offset of the address in it.
pub(crate) fn file_at(address: usize) -> Option<(PathBuf, u64)> {
    let mapping = mappings_from(address).next()?;
    let offset = mapping.offset.checked_add((address - mapping.start) as u64)?;
    Some((mapping.path()?, offset))
}

/// The bytes that can be read from `address`, at most `most`. They end with the segment of the program or library that
/// contains the address. Outside of these, they end where memory cannot be read.
#[expect(unsafe_code, reason = "memory of the caller is read")]
pub(crate) unsafe fn bytes_at<'a>(address: *const u8, most: usize) -> Cow<'a, [u8]> {
    let start = address.addr();
    // SAFETY: the caller keeps these bytes, and all of them are mapped.
    let borrowed = |end: usize| unsafe { std::slice::from_raw_parts(address, most.min(end - start)) };
    if let Some(end) = segment_end(start) {
        return Cow::Borrowed(borrowed(end));
    }
    match copied(start, most) {
        Some(bytes) => Cow::Owned(bytes),
        // A sandbox may forbid that system call.
        None => Cow::Borrowed(mapping_end(start).map_or(&[], borrowed)),
    }
}

/// The smallest distance between two addresses at which reading can become impossible.
const PAGE: usize = 4096;

/// The bytes from `address` to the first one that cannot be read, at most `most`. The kernel finds that place. This is
/// cheaper than reading `/proc/self/maps`, and does not depend on what other threads unmap meanwhile. `None` if the
/// kernel refuses the call itself.
#[expect(unsafe_code, reason = "std has no process_vm_readv")]
fn copied(address: usize, most: usize) -> Option<Vec<u8>> {
    let mut bytes: Vec<u8> = Vec::new();
    bytes.try_reserve_exact(most).ok()?;
    let last = address.checked_add(most)?;
    // One piece for each page, since a piece is transferred completely or not at all (process_vm_readv(2)).
    let starts = std::iter::successors(Some(address), |start| (start / PAGE + 1).checked_mul(PAGE));
    let starts: Vec<usize> = starts.take_while(|&start| start < last).collect();
    let ends = starts.iter().skip(1).copied().chain([last]);
    let remote = starts
        .iter()
        .zip(ends)
        .map(|(&start, end)| libc::iovec { iov_base: std::ptr::without_provenance_mut(start), iov_len: end - start });
    let remote: Vec<_> = remote.collect();
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: most };
    // SAFETY: `local` has room for `most` bytes. The kernel does not access what cannot be read of `remote`: it stops
    // before it, or fails.
    let read = unsafe {
        libc::process_vm_readv(libc::getpid(), &raw const local, 1, remote.as_ptr(), remote.len() as libc::c_ulong, 0)
    };
    let read = match usize::try_from(read) {
        Ok(read) => read.min(most),
        Err(_) if std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT) => 0,
        Err(_) => return None,
    };
    // SAFETY: the kernel wrote that many.
    unsafe { bytes.set_len(read) };
    Some(bytes)
}

fn mapping_end(address: usize) -> Option<usize> {
    let mut mappings = mappings_from(address);
    let mut last = mappings.next().filter(|mapping| mapping.is_readable)?;
    // Changed permissions and `madvise` split mappings.
    for next in mappings {
        if !next.continues(&last) {
            break;
        }
        last = next;
    }
    Some(last.end)
}

/// What is searched for among segments, and what was found.
struct Search {
    address: usize,
    end: Option<usize>,
}

/// The end of the readable segment that contains an address. Asking the dynamic loader is cheaper than reading the
/// thousands of lines that `/proc/self/maps` has in a process with many libraries.
#[expect(unsafe_code, reason = "the dynamic loader is asked through C")]
fn segment_end(address: usize) -> Option<usize> {
    let mut search = Search { address, end: None };
    // SAFETY: the callback gets this pointer back while the call lasts.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.end
}

#[expect(unsafe_code, reason = "called from C")]
unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: libc::size_t, search: *mut c_void) -> c_int {
    // SAFETY: `segment_end` passes a `Search`. The loader passes a description of one of its objects, with that many
    // headers.
    let (search, info, headers) = unsafe {
        let info = &*info;
        let headers = if info.dlpi_phdr.is_null() {
            &[][..]
        } else {
            std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into())
        };
        (&mut *search.cast::<Search>(), info, headers)
    };
    for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD && header.p_flags & libc::PF_R != 0) {
        let word = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
        let start = word(info.dlpi_addr.wrapping_add(header.p_vaddr));
        let end = start.saturating_add(word(header.p_memsz));
        if (start..end).contains(&search.address) {
            search.end = Some(end);
            return 1;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_apart() {
        let line = b"7f12-7f34 r-xp 00001000 08:01 12345                      /opt/a b/lib\\012x.so";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!((mapping.start, mapping.end, mapping.offset), (0x7f12, 0x7f34, 0x1000));
        assert_eq!(mapping.path().unwrap(), Path::new("/opt/a b/lib\nx.so"));
        for (line, path) in [
            ("1-2 rw-p 0 00:00 0 ", None),
            ("1-2 rw-p 0 00:00 0 [heap]", None),
            ("1-2 rw-p 0 00:01 7 /memfd:x (deleted)", None),
            ("1-2 r--p 0 08:01 7 /opt/gone.so (deleted)", Some("/opt/gone.so")),
            ("1-2 r--p 0 08:01 7 /opt/plain.so", Some("/opt/plain.so")),
        ] {
            let mapping = Mapping::parse(line.as_bytes()).unwrap();
            assert_eq!(mapping.path().as_deref(), path.map(Path::new), "{line}");
        }
        for line in ["", "1-2", "1-2 r--p", "x-y r--p 0 0 0", "1-2 r--p 0 0 z"] {
            assert_eq!(Mapping::parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    #[expect(unsafe_code, reason = "reads memory that is there, or is not")]
    fn reading_ends_with_the_object() {
        static CONSTANT: [u8; 16] = [7; 16];
        // SAFETY: the memory outlives all references to it here.
        let read = |address: *const u8, most| unsafe { bytes_at(address, most) };
        let in_program = read(CONSTANT.as_ptr(), 1 << 40);
        assert!((16..1 << 40).contains(&in_program.len()), "{}", in_program.len());
        assert_eq!(in_program[..16], CONSTANT);
        assert_eq!(read(CONSTANT.as_ptr(), 3).len(), 3);
        let heap = Box::new([7_u8; 100]);
        assert_eq!(*read(heap.as_ptr(), 100), *heap);
        for nothing in [1, usize::MAX] {
            assert!(read(std::ptr::without_provenance(nothing), 100).is_empty());
        }
    }

    #[test]
    #[expect(unsafe_code, reason = "makes a page unreadable")]
    fn reading_ends_where_memory_does() {
        let mut map = memmap2::MmapMut::map_anon(4 * PAGE).unwrap();
        map.fill(7);
        let start = map.as_mut_ptr();
        // SAFETY: the last of four pages, which is not accessed later.
        assert_eq!(unsafe { libc::mprotect(start.add(3 * PAGE).cast(), PAGE, libc::PROT_NONE) }, 0);
        // Also across pages whose permissions differ.
        // SAFETY: the first of four pages, which is no longer written to.
        assert_eq!(unsafe { libc::mprotect(start.cast(), PAGE, libc::PROT_READ) }, 0);
        for (from, most, expected) in [
            (0, 64 << 10, 3 * PAGE),
            (1, 64 << 10, 3 * PAGE - 1),
            (PAGE - 1, 2, 2),
            (PAGE, 100, 100),
            (3 * PAGE - 1, 100, 1),
            (3 * PAGE, 100, 0),
        ] {
            // SAFETY: the map outlives all references to it here.
            let read = unsafe { bytes_at(start.add(from), most) };
            assert!(read.len() == expected && read.iter().all(|&byte| byte == 7), "{from}, {most}: {}", read.len());
            assert_eq!(copied(start.addr() + from, most).unwrap().len(), expected, "without /proc/self/maps");
        }
    }

    #[test]
    fn addresses_lead_to_files() {
        static CONSTANT: [u8; 16] = [7; 16];
        let (path, offset) = file_at(CONSTANT.as_ptr().addr()).unwrap();
        assert_eq!(path, std::env::current_exe().unwrap());
        let bytes = std::fs::read(path).unwrap();
        let offset = usize::try_from(offset).unwrap();
        assert_eq!(bytes[offset..offset + 16], CONSTANT);
        assert_eq!(file_at(1), None);
        let on_stack = 0_u8;
        assert_eq!(file_at((&raw const on_stack).addr()), None);
    }
}
