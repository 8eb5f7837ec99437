use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use proptest::prelude::*;

use super::{DosTime, MemberSize, archive, layout_size};
use crate::rope::{Content, ReadError, Rope, Segment, check_range};
use crate::source::EntryPath;
use crate::wheelparts::{Digest, WheelEntry};

fn file(name: &str, bytes: &[u8], deflate: bool, executable: bool) -> WheelEntry {
    let content = Arc::new(Rope::new([Segment::literal(bytes)]).unwrap());
    let mut file = WheelEntry::stored(EntryPath::new(name.as_bytes()).unwrap(), content);
    file.executable = executable;
    if deflate {
        let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(1));
        encoder.write_all(bytes).unwrap();
        let stream = encoder.finish().unwrap();
        file.deflated = Some(Arc::new(Rope::new([Segment::literal(stream)]).unwrap()));
    }
    file
}

/// The size of the zip file of these files, by names and sizes only.
fn laid_out(files: &[WheelEntry]) -> u64 {
    layout_size(files.iter().map(|file| {
        let content = &file.digest.content;
        let packed = file.deflated.as_ref().unwrap_or(content).size();
        MemberSize { name: file.path.as_bytes().len() as u64, size: content.size(), packed }
    }))
}

/// A content as a file, for readers that need one.
struct ContentFile<'a>(&'a dyn Content, u64);

impl Read for ContentFile<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(usize::try_from(self.0.size() - self.1).unwrap());
        self.0.read_at(self.1, &mut buffer[..length]).map_err(io::Error::other)?;
        self.1 += length as u64;
        Ok(length)
    }
}

impl Seek for ContentFile<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let size = self.0.size();
        self.1 = match to {
            SeekFrom::Start(at) => at,
            SeekFrom::End(by) => size.checked_add_signed(by).unwrap(),
            SeekFrom::Current(by) => self.1.checked_add_signed(by).unwrap(),
        }
        .min(size);
        Ok(self.1)
    }
}

/// A number of bytes of the value 7, without memory for them.
#[derive(Debug)]
struct Sevens(u64);

impl Content for Sevens {
    fn size(&self) -> u64 {
        self.0
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.0)?;
        buffer.fill(7);
        Ok(())
    }
}

fn sevens(name: &str, size: u64, packed: Option<u64>) -> WheelEntry {
    let path = EntryPath::new(name.as_bytes()).unwrap();
    // The CRC-32 is claimed, so nothing reads the bytes.
    let digest = Arc::new(Digest::new(name, Arc::new(Sevens(size)), Some(1)));
    let deflated = packed.map(|packed| Arc::new(Sevens(packed)) as Arc<dyn Content>);
    WheelEntry { path, executable: false, digest, deflated }
}

proptest! {
    #[test]
    fn what_is_put_in_comes_out(
        members in proptest::collection::btree_map("[a-zä-ö ,\"]{1,6}", (proptest::collection::vec(any::<u8>(), 0..99), any::<bool>(), any::<bool>()), 0..6),
        a in any::<prop::sample::Index>(),
        b in any::<prop::sample::Index>(),
    ) {
        let files: Vec<_> = members.iter().map(|(name, (bytes, deflate, exec))| file(name, bytes, *deflate, *exec)).collect();
        let rope = archive(&files, DosTime::default()).unwrap();
        prop_assert_eq!(laid_out(&files), rope.size());
        // The first read is in the middle, before any digest is known.
        let size = usize::try_from(rope.size()).unwrap();
        let (a, b) = (a.index(size + 1), b.index(size + 1));
        let (start, end) = (a.min(b), a.max(b));
        let mut slice = vec![0; end - start];
        rope.read_at(start as u64, &mut slice).unwrap();
        let bytes = rope.to_vec().unwrap();
        prop_assert_eq!(&slice, &bytes[start..end]);

        let mut zip = zip::ZipArchive::new(Cursor::new(&bytes)).unwrap();
        prop_assert_eq!(zip.len(), members.len());
        for (number, (name, (content, deflate, executable))) in members.iter().enumerate() {
            let mut member = zip.by_index_raw(number).unwrap();
            prop_assert_eq!(member.name().unwrap(), name.as_str());
            prop_assert_eq!(member.crc32(), crc32fast::hash(content));
            prop_assert_eq!(member.size(), content.len() as u64);
            prop_assert_eq!(member.unix_mode(), Some(if *executable { 0o100_755 } else { 0o100_644 }));
            let mut raw = Vec::new();
            member.read_to_end(&mut raw).unwrap();
            let mut inflated = Vec::new();
            if *deflate {
                flate2::read::DeflateDecoder::new(&*raw).read_to_end(&mut inflated).unwrap();
            } else {
                inflated = raw;
            }
            prop_assert_eq!(&inflated, content);
        }
    }
}

#[test]
fn sizes_are_known_before_digests() {
    let file = file("a", b"content", false, false);
    let rope = archive(std::slice::from_ref(&file), DosTime::default()).unwrap();
    // 30 + 1 + 7 + 46 + 1 + 22
    assert_eq!((rope.size(), file.digest.known()), (107, None));
    rope.read_at(20, &mut [0; 30]).unwrap();
    assert_eq!(file.digest.known(), None, "nothing but the CRC-32 needs the digest");
    rope.read_at(17, &mut [0; 1]).unwrap();
    assert_eq!(file.digest.known().unwrap().crc32, crc32fast::hash(b"content"));
    let again = archive(&[file], DosTime::default()).unwrap();
    assert_eq!(again.to_vec().unwrap(), rope.to_vec().unwrap(), "the same bytes when digests are known before");
}

#[test]
fn zip64_exactly_where_it_is_needed() {
    const LIMIT: u64 = 0xFFFF_FFFF;
    for (sizes, local, directory) in [
        (&[(LIMIT - 1, None)][..], &[0][..], &[0][..]),
        (&[(LIMIT, None)], &[20], &[20]),
        // In the directory only the size needs 64 bits; the local header must have both.
        (&[(LIMIT, Some(100))], &[20], &[12]),
        // The second member starts after 4 GiB.
        (&[(LIMIT + 5, None), (3, None)], &[20, 0], &[20, 12]),
        (&[(LIMIT - 31, None), (3, None)], &[0, 0], &[0, 12]),
        (&[(LIMIT - 32, None), (3, None)], &[0, 0], &[0, 0]),
    ] {
        let files: Vec<_> =
            sizes.iter().zip(["a", "b"]).map(|(&(size, packed), name)| sevens(name, size, packed)).collect();
        let rope = archive(&files, DosTime::default()).unwrap();
        assert_eq!(laid_out(&files), rope.size(), "{sizes:?}");
        let mut at = 0;
        let mut entry = rope.size() - 22;
        for number in (0..sizes.len()).rev() {
            entry -= 46 + 1 + directory[number];
            let mut header = [0; 46];
            rope.read_at(entry, &mut header).unwrap();
            if header[..4] != *b"PK\x01\x02" {
                // The Zip64 end of directory and its locator are in between.
                entry -= 56 + 20;
                rope.read_at(entry, &mut header).unwrap();
            }
            assert_eq!((&header[..4], header[30]), (&b"PK\x01\x02"[..], u8::try_from(directory[number]).unwrap()));
            assert_eq!(header[6], if directory[number] > 0 { 45 } else { 20 });
        }
        for (number, &(size, packed)) in sizes.iter().enumerate() {
            let mut header = [0; 30];
            rope.read_at(at, &mut header).unwrap();
            assert_eq!((&header[..4], u64::from(header[28])), (&b"PK\x03\x04"[..], local[number]), "{sizes:?}");
            at += 30 + 1 + local[number] + packed.unwrap_or(size);
        }
        let mut zip = zip::ZipArchive::new(ContentFile(&rope, 0)).unwrap();
        for (number, &(size, packed)) in sizes.iter().enumerate() {
            let member = zip.by_index_raw(number).unwrap();
            assert_eq!((member.size(), member.compressed_size()), (size, packed.unwrap_or(size)));
        }
    }
}

#[test]
fn zip64_for_many_members() {
    for (count, is_zip64) in [(65_534, false), (65_535, true)] {
        let files: Vec<_> = (0..count).map(|number| sevens(&format!("{number:05}"), 0, None)).collect();
        let rope = archive(&files, DosTime::default()).unwrap();
        assert_eq!(laid_out(&files), rope.size());
        assert_eq!(rope.size(), count * (30 + 46 + 10) + 22 + if is_zip64 { 76 } else { 0 });
        let bytes = rope.to_vec().unwrap();
        assert_eq!(zip::ZipArchive::new(Cursor::new(bytes)).unwrap().len() as u64, count);
    }
}

#[test]
fn times() {
    for (seconds, date, time) in [
        (i64::MIN, (1980, 1, 1), (0, 0, 0)),
        (315_532_800, (1980, 1, 1), (0, 0, 0)),
        (951_782_399, (2000, 2, 28), (23, 59, 58)),
        (951_782_400, (2000, 2, 29), (0, 0, 0)),
        (951_868_800, (2000, 3, 1), (0, 0, 0)),
        (1_735_689_599, (2024, 12, 31), (23, 59, 58)),
        (4_107_542_400, (2100, 3, 1), (0, 0, 0)),
        (i64::MAX, (2107, 12, 31), (23, 59, 58)),
    ] {
        let stamp = DosTime::of(seconds);
        let unpacked = zip::DateTime::try_from_msdos(stamp.date, stamp.time).unwrap();
        assert_eq!((unpacked.year(), unpacked.month(), unpacked.day()), date, "{seconds}");
        assert_eq!((unpacked.hour(), unpacked.minute(), unpacked.second()), time, "{seconds}");
    }
    assert_eq!(DosTime::of(0), DosTime::default());
}
