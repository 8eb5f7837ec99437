//! The operations on a file that is only read.

use std::fs::{self, File, OpenOptions};
use std::io::{IoSliceMut, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use memmap2::{Mmap, MmapMut, MmapOptions};
use rustix::fs::{Advice, SeekFrom as Position};
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use crate::random::Random;
use crate::subject::Pair;

/// Files that a thread has open at the same time.
const OPEN: usize = 8;

const PAGE: u64 = 4096;

/// The number of bytes that a pipe holds without a reader (pipe(7)).
const PIPE: usize = 65_536;

/// An open file, and the same one on the disk.
struct Opened<'a> {
    pair: &'a Pair,
    file: File,
    written: File,
    size: u64,
    is_direct: bool,
}

pub(crate) struct Operations<'a> {
    random: Random,
    pairs: &'a [Pair],
    opened: Vec<Opened<'a>>,
    scratch: File,
}

/// What a panic message names.
struct Context<'a>(&'a Pair, u64, &'static str);

impl Drop for Context<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("fsx: operation {}, {} of {}", self.1, self.2, self.0.mounted.display());
        }
    }
}

impl<'a> Opened<'a> {
    fn new(pair: &'a Pair, is_direct: bool) -> Self {
        let flags = if is_direct { libc::O_DIRECT } else { 0 };
        let file = OpenOptions::new().read(true).custom_flags(flags).open(&pair.mounted).unwrap();
        let written = File::open(&pair.written).unwrap();
        let size = written.metadata().unwrap().len();
        Self { pair, file, written, size, is_direct }
    }

    /// The bytes that the file should have there.
    fn expected(&self, offset: u64, length: usize) -> Vec<u8> {
        let length = usize::try_from(self.size.saturating_sub(offset)).unwrap().min(length);
        let mut bytes = vec![0; length];
        self.written.read_exact_at(&mut bytes, offset).unwrap();
        bytes
    }

    fn check(&self, offset: u64, length: usize, found: &[u8]) {
        let expected = self.expected(offset, length);
        assert_eq!(found.len(), expected.len(), "length of {length} bytes at {offset} of {}", self.size);
        let differs = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!(differs, None, "where {length} bytes at {offset} of {} differ", self.size);
    }
}

/// Reads until the end, as short reads are allowed.
fn filled(buffer: &mut [u8], mut read: impl FnMut(&mut [u8], usize) -> usize) -> usize {
    let mut at = 0;
    while at < buffer.len() {
        match read(&mut buffer[at..], at) {
            0 => break,
            more => at += more,
        }
    }
    at
}

type Operation = fn(&mut Random, &mut Opened<'_>, &mut File);

/// Operations that work on any open file, with their weights.
const ANY: [(&str, u64, Operation); 6] = [
    ("mmap, private", 8, map_private),
    ("mmap, shared", 8, map_shared),
    ("lseek", 6, seek_data),
    ("fadvise", 4, advise),
    ("dup and close", 2, duplicate),
    ("fstat", 2, stat),
];

/// Operations that use the page cache.
const BUFFERED: [(&str, u64, Operation); 6] = [
    ("pread", 30, pread),
    ("readv", 10, preadv),
    ("lseek and read", 10, seek_and_read),
    ("sendfile", 6, sendfile),
    ("copy_file_range", 4, copy_file_range),
    ("splice", 8, splice),
];

/// Operations that need aligned buffers (open(2)): a passed-through file has the alignment that its filesystem
/// requires.
const DIRECT: [(&str, u64, Operation); 1] = [("pread, direct", 30, pread_aligned)];

impl<'a> Operations<'a> {
    pub(crate) fn new(mut random: Random, pairs: &'a [Pair]) -> Self {
        let opened = (0..OPEN).map(|_| Opened::new(&pairs[random.index(pairs.len())], false)).collect();
        Self { random, pairs, opened, scratch: tempfile::tempfile().unwrap() }
    }

    pub(crate) fn run(mut self, operations: u64) {
        for number in 0..operations {
            let at = self.random.index(OPEN);
            match self.random.below(100) {
                0 => self.drop_caches(at),
                1..5 => {
                    let pair = &self.pairs[self.random.index(self.pairs.len())];
                    let _context = Context(pair, number, "open");
                    self.opened[at] = Opened::new(pair, self.random.below(4) == 0);
                }
                _ => self.operate(at, number),
            }
        }
    }

    fn operate(&mut self, at: usize, number: u64) {
        let opened = &mut self.opened[at];
        let own: &[_] = if opened.is_direct { &DIRECT } else { &BUFFERED };
        let all = || ANY.iter().chain(own);
        let mut chosen = self.random.below(all().map(|(_, weight, _)| weight).sum());
        for (name, weight, operation) in all() {
            if chosen < *weight {
                let _context = Context(opened.pair, number, name);
                return operation(&mut self.random, opened, &mut self.scratch);
            }
            chosen -= weight;
        }
    }

    /// Drops the cached pages of a file; sometimes those of all files, with names and inodes.
    fn drop_caches(&mut self, at: usize) {
        rustix::fs::fadvise(&self.opened[at].file, 0, None, Advice::DontNeed).unwrap();
        if self.random.below(50) == 0 {
            let what = ["1", "2", "3"][self.random.index(3)];
            // This works for root only.
            fs::write("/proc/sys/vm/drop_caches", what).ok();
        }
    }
}

fn pread(random: &mut Random, opened: &mut Opened<'_>, _: &mut File) {
    let (offset, length) = (random.offset(opened.size), random.length());
    let mut buffer = vec![0xaa; length];
    let read = filled(&mut buffer, |rest, at| opened.file.read_at(rest, offset + at as u64).unwrap());
    opened.check(offset, length, &buffer[..read]);
    assert!(buffer[read..].iter().all(|byte| *byte == 0xaa), "written beyond the end");
}

fn pread_aligned(random: &mut Random, opened: &mut Opened<'_>, _: &mut File) {
    let page = usize::try_from(PAGE).unwrap();
    let (offset, length) = (random.offset(opened.size) / PAGE * PAGE, random.length().next_multiple_of(page));
    let mut buffer = MmapMut::map_anon(length).unwrap();
    let read = filled(&mut buffer, |rest, at| {
        // A read that does not end at a page boundary has reached the end of the file.
        if at % page == 0 { opened.file.read_at(rest, offset + at as u64).unwrap() } else { 0 }
    });
    opened.check(offset, length, &buffer[..read]);
}

fn preadv(random: &mut Random, opened: &mut Opened<'_>, _: &mut File) {
    let offset = random.offset(opened.size);
    let mut buffers = [(); 3].map(|()| vec![0; random.length()]);
    let length: usize = buffers.iter().map(Vec::len).sum();
    let read = {
        let mut slices = buffers.each_mut().map(|buffer| IoSliceMut::new(buffer));
        rustix::io::preadv(&opened.file, &mut slices, offset).unwrap()
    };
    let found = buffers.concat();
    assert!(read > 0 || offset >= opened.size);
    opened.check(offset, read, &found[..read]);
    let rest = opened.expected(offset + read as u64, length - read).len();
    assert_eq!(rest, 0, "a short read of {read} bytes at {offset}, {rest} are missing");
}

fn seek_and_read(random: &mut Random, opened: &mut Opened<'_>, _: &mut File) {
    let (offset, length) = (random.offset(opened.size), random.length());
    let signed = i64::try_from(offset).unwrap();
    let here = opened.file.stream_position().unwrap();
    let how = match random.below(3) {
        0 => SeekFrom::Start(offset),
        1 => SeekFrom::End(signed - i64::try_from(opened.size).unwrap()),
        _ => SeekFrom::Current(signed - i64::try_from(here).unwrap()),
    };
    assert_eq!(opened.file.seek(how).unwrap(), offset, "{how:?}");
    let mut buffer = vec![0; length];
    let read = filled(&mut buffer, |rest, _| opened.file.read(rest).unwrap());
    opened.check(offset, length, &buffer[..read]);
    assert_eq!(opened.file.stream_position().unwrap(), offset + read as u64);
}

/// A range to map, which begins at a page; `None` for an empty file, which cannot be mapped.
fn range(random: &mut Random, opened: &Opened<'_>) -> Option<(u64, usize)> {
    let offset = random.below(opened.size.max(1)) / PAGE * PAGE;
    let length = opened.expected(offset, random.length()).len();
    (length > 0).then_some((offset, length))
}

#[expect(unsafe_code, reason = "mapping a file")]
fn map_shared(random: &mut Random, opened: &mut Opened<'_>, _: &mut File) {
    let Some((offset, length)) = range(random, opened) else { return };
    // SAFETY: nothing changes the file.
    let map: Mmap = unsafe { MmapOptions::new().offset(offset).len(length).map(&opened.file) }.unwrap();
    opened.check(offset, length, &map);
}

#[expect(unsafe_code, reason = "mapping a file")]
fn map_private(random: &mut Random, opened: &mut Opened<'_>, _: &mut File) {
    let Some((offset, length)) = range(random, opened) else { return };
    // The rest of the last page is zeros (mmap(2)).
    let whole = length.next_multiple_of(usize::try_from(PAGE).unwrap());
    // SAFETY: nothing changes the file, and all pages begin within it.
    let mut map = unsafe { MmapOptions::new().offset(offset).len(whole).map_copy(&opened.file) }.unwrap();
    opened.check(offset, whole, &map[..opened.expected(offset, whole).len()]);
    let end = opened.expected(offset, whole).len();
    assert!(map[end..].iter().all(|byte| *byte == 0), "the rest of the last page of {}", opened.size);
    // Written bytes stay in the mapping.
    let at = random.index(length);
    map[at] ^= 0xff;
    let mut found = [0];
    opened.file.read_exact_at(&mut found, offset + at as u64).ok();
    if !opened.is_direct {
        opened.check(offset + at as u64, 1, &found);
    }
}

/// `SEEK_DATA` and `SEEK_HOLE` see one range of data, and a hole at the end (lseek(2)).
fn seek_data(random: &mut Random, opened: &mut Opened<'_>, _: &mut File) {
    let offset = random.offset(opened.size);
    let beyond = offset >= opened.size;
    let data = rustix::fs::seek(&opened.file, Position::Data(offset));
    assert_eq!(data, if beyond { Err(Errno::NXIO) } else { Ok(offset) }, "data at {offset}");
    let hole = rustix::fs::seek(&opened.file, Position::Hole(offset));
    assert_eq!(hole, if beyond { Err(Errno::NXIO) } else { Ok(opened.size) }, "hole at {offset}");
}

fn advise(random: &mut Random, opened: &mut Opened<'_>, _: &mut File) {
    let all = [Advice::Normal, Advice::Sequential, Advice::Random, Advice::WillNeed, Advice::DontNeed, Advice::NoReuse];
    let (offset, length) = (random.offset(opened.size), random.length() as u64);
    rustix::fs::fadvise(&opened.file, offset, length.try_into().ok(), all[random.index(all.len())]).unwrap();
}

fn duplicate(_: &mut Random, opened: &mut Opened<'_>, _: &mut File) {
    opened.file = opened.file.try_clone().unwrap();
}

fn stat(_: &mut Random, opened: &mut Opened<'_>, _: &mut File) {
    for metadata in [opened.file.metadata(), fs::metadata(&opened.pair.mounted)] {
        assert_eq!(metadata.unwrap().len(), opened.size);
    }
}

/// Compares what was copied to the scratch file, and empties it.
fn copied(opened: &Opened<'_>, offset: u64, length: usize, scratch: &mut File) {
    let mut found = Vec::new();
    scratch.rewind().unwrap();
    scratch.read_to_end(&mut found).unwrap();
    scratch.set_len(0).unwrap();
    scratch.rewind().unwrap();
    opened.check(offset, length, &found);
}

fn sendfile(random: &mut Random, opened: &mut Opened<'_>, scratch: &mut File) {
    let (offset, length) = (random.offset(opened.size), random.length());
    let mut at = offset;
    let mut left = length;
    while left > 0 {
        match rustix::fs::sendfile(&*scratch, &opened.file, Some(&mut at), left).unwrap() {
            0 => break,
            sent => left -= sent,
        }
    }
    copied(opened, offset, length, scratch);
}

fn copy_file_range(random: &mut Random, opened: &mut Opened<'_>, scratch: &mut File) {
    let (offset, length) = (random.offset(opened.size), random.length());
    let mut at = offset;
    let mut left = length;
    while left > 0 {
        match rustix::fs::copy_file_range(&opened.file, Some(&mut at), &*scratch, None, left) {
            // Some kinds of filesystems do not copy to another kind.
            Err(Errno::XDEV | Errno::OPNOTSUPP | Errno::INVAL) if left == length => return,
            Ok(0) => break,
            sent => left -= sent.unwrap(),
        }
    }
    copied(opened, offset, length, scratch);
}

fn splice(random: &mut Random, opened: &mut Opened<'_>, _: &mut File) {
    let (offset, length) = (random.offset(opened.size), random.length().min(PIPE / 2));
    let (reader, writer) = rustix::pipe::pipe().unwrap();
    let mut at = offset;
    let sent = rustix::pipe::splice(&opened.file, Some(&mut at), &writer, None, length, SpliceFlags::empty()).unwrap();
    drop(writer);
    let mut found = Vec::new();
    File::from(reader).read_to_end(&mut found).unwrap();
    assert_eq!(found.len(), sent);
    assert!(sent > 0 || offset >= opened.size);
    opened.check(offset, sent, &found);
}
