//! What is mapped at an address of this process.

use std::ffi::{OsString, c_int, c_void};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// What the kernel appends to the name of a file that is not there any more.
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

    /// Whether this goes on where the other ends, with the same file or likewise without one.
    fn continues(&self, other: &Self) -> bool {
        let same = (&self.device, self.inode, &self.name) == (&other.device, other.inode, &other.name);
        self.start == other.end && self.is_readable && same
    }

    /// The file; `None` if it has none, or one without a path.
    fn path(&self) -> Option<PathBuf> {
        if self.inode == 0 || !self.name.starts_with(b"/") {
            return None;
        }
        // The kernel writes a line feed as four characters, and nothing else (fs/seq_file.c: seq_path with "\n").
        let path = PathBuf::from(OsString::from_vec(replace(&self.name, b"\\012", b"\n")));
        match self.name.strip_suffix(DELETED) {
            // Its directory may still be there, and the archives with it: packages get upgraded under running programs.
            Some(name) if !path.exists() => {
                let name = replace(name, b"\\012", b"\n");
                // A memfd or shared memory was never anywhere.
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

/// The mappings from the one that holds `address` on.
fn mappings_from(address: usize) -> impl Iterator<Item = Mapping> {
    let lines = File::open("/proc/self/maps").into_iter().flat_map(|file| BufReader::new(file).split(b'\n'));
    let mappings = lines.map_while(Result::ok).filter_map(|line| Mapping::parse(&line));
    mappings.skip_while(move |mapping| !mapping.holds(address))
}

/// The file that is mapped at an address, and the address's offset in it.
pub(crate) fn file_at(address: usize) -> Option<(PathBuf, u64)> {
    let mapping = mappings_from(address).next()?;
    let offset = mapping.offset.checked_add((address - mapping.start) as u64)?;
    Some((mapping.path()?, offset))
}

/// How many bytes can be read from `address`, up to `most`: to the end of the segment of the program or library that holds
/// it, or else of its mapping.
pub(crate) fn readable_from(address: usize, most: usize) -> usize {
    segment_end(address).or_else(|| mapping_end(address)).map_or(0, |end| most.min(end - address))
}

fn mapping_end(address: usize) -> Option<usize> {
    let mut mappings = mappings_from(address);
    let mut last = mappings.next().filter(|mapping| mapping.is_readable)?;
    // Changed permissions and advice split mappings.
    for next in mappings {
        if !next.continues(&last) {
            break;
        }
        last = next;
    }
    Some(last.end)
}

/// What is looked for among segments, and what was found.
struct Search {
    address: usize,
    end: Option<usize>,
}

/// The end of the readable segment that holds an address. Asking the dynamic loader is cheaper than reading thousands of lines, which
/// a process with many libraries has.
#[expect(unsafe_code, reason = "the dynamic loader is asked through C")]
fn segment_end(address: usize) -> Option<usize> {
    let mut search = Search { address, end: None };
    // SAFETY: the callback gets this pointer back while the call lasts.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.end
}

#[expect(unsafe_code, reason = "called from C")]
unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: libc::size_t, search: *mut c_void) -> c_int {
    // SAFETY: `segment_end` passes a `Search`, and the loader a description of one of its objects, with that many headers.
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
    fn reading_ends_with_the_object() {
        static CONSTANT: [u8; 16] = [7; 16];
        let most = 1 << 40;
        let in_program = readable_from(CONSTANT.as_ptr().addr(), most);
        assert!((16..most).contains(&in_program), "{in_program}");
        assert_eq!(readable_from(CONSTANT.as_ptr().addr(), 3), 3);
        let heap = Box::new([7_u8; 100]);
        assert!(readable_from(heap.as_ptr().addr(), 100) == 100);
        for nothing in [1, usize::MAX] {
            assert_eq!(readable_from(nothing, 100), 0);
        }
        let mut map = memmap2::MmapMut::map_anon(3 << 12).unwrap();
        map[0] = 1;
        let address = map.as_ptr().addr();
        assert!(readable_from(address + (1 << 12), most) >= 2 << 12);
        let map = map.make_read_only().unwrap();
        assert!(readable_from(map.as_ptr().addr(), most) >= 3 << 12);
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
