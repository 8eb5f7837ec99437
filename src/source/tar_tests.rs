//! Archives made by the crate `tar` and by hand, valid and damaged.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use tar::{Builder, EntryType, Header};
use tempfile::TempDir;

use crate::index::Index;
use crate::resources::Resources;
use crate::source::{EntryKind, Input, InputKind};

/// A member: its kind, name, link and content.
type MemberToWrite<'a> = (EntryType, &'a str, &'a str, &'a [u8]);

/// An archive of these members. Names are written as they are, even if a careful program would refuse them.
fn archive(members: &[MemberToWrite]) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    for (kind, name, link, content) in members {
        let mut header = Header::new_gnu();
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o4751);
        header.set_mtime(1_700_000_000);
        let old = header.as_gnu_mut().unwrap();
        old.name[..name.len()].copy_from_slice(name.as_bytes());
        old.linkname[..link.len()].copy_from_slice(link.as_bytes());
        old.realsize = *b"00000000000\0";
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

fn file<'a>(name: &'a str, content: &'a [u8]) -> MemberToWrite<'a> {
    (EntryType::Regular, name, "", content)
}

struct TarDirectory(TempDir);

impl TarDirectory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn open(&self, name: &str, bytes: &[u8]) -> Result<Input, String> {
        Input::open(&self.put(name, bytes), &Resources::new(1 << 20)).map_err(|error| error.to_string())
    }
}

/// Paths with their content, a symlink's target, or `/` for a directory.
fn listed(input: &Input) -> Vec<String> {
    let shown = |kind: &EntryKind| match kind {
        EntryKind::Directory => "/".to_owned(),
        EntryKind::Symlink(target) => format!(" -> {}", String::from_utf8_lossy(target)),
        EntryKind::File { content, link_group } => {
            let group = link_group.map_or(String::new(), |group| format!(" #{group}"));
            format!(" = {}{group}", String::from_utf8_lossy(&content.to_vec().unwrap()))
        }
    };
    input.entries.iter().map(|entry| format!("{}{}", entry.path, shown(&entry.kind))).collect()
}

#[test]
fn members_are_listed_as_they_would_be_unpacked() {
    let members = [
        (EntryType::Directory, "./", "", &b""[..]),
        (EntryType::Directory, "./lib/", "", b""),
        file("./lib/libx.so", b"first"),
        (EntryType::Link, "./lib/liby.so", "./lib/libx.so", b""),
        (EntryType::Symlink, "lib/libz.so", "libx.so", b""),
        file("deep/below/x", b"implied"),
        file("lib/twice", b"before"),
        file("lib/twice", b"after"),
        file("empty", b""),
    ];
    let place = TarDirectory::new();
    let input = place.open("x.tar", &archive(&members)).unwrap();
    let expected = [
        "deep/",
        "deep/below/",
        "deep/below/x = implied",
        "empty = ",
        "lib/",
        "lib/libx.so = first #1",
        "lib/liby.so = first #1",
        "lib/libz.so -> libx.so",
        "lib/twice = after",
    ];
    assert_eq!(listed(&input), expected);
    assert!(matches!(input.kind, InputKind::Tree));
    let of_file = input.entries.last().unwrap().attributes;
    assert_eq!((of_file.mode, of_file.mtime), (0o4751, 1_700_000_000));
    assert_eq!(input.witnesses().len(), 1);
}

#[test]
fn every_compression_gives_the_same_list() {
    let long = "directory/".repeat(20) + "file";
    let mut builder = Builder::new(Vec::new());
    for (name, size) in [("a", 3_usize), (&long, 700_000), ("z", 9)] {
        let mut header = Header::new_gnu();
        header.set_size(size as u64);
        header.set_mode(0o644);
        let content: Vec<u8> = (0..size).map(|at| b"0123456789"[at * at % 10]).collect();
        // Writes a GNU long name where one is needed.
        builder.append_data(&mut header, name, &*content).unwrap();
    }
    let tar = builder.into_inner().unwrap();
    let place = TarDirectory::new();
    let plain = listed(&place.open("x.tar", &tar).unwrap());
    assert!(plain.iter().any(|line| line.starts_with(&long)));
    let mut gzip = flate2::GzBuilder::new()
        .filename("x.tar")
        .extra(vec![1; 9])
        .comment("a comment")
        .write(Vec::new(), flate2::Compression::new(6));
    gzip.write_all(&tar).unwrap();
    let gzip = gzip.finish().unwrap();
    assert_eq!(listed(&place.open("x.tar.gz", &gzip).unwrap()), plain);
    // The kind is recognised by the first bytes, not by the name.
    assert_eq!(listed(&place.open("x", &gzip).unwrap()), plain);
    let zstd = zstd::bulk::compress(&tar, 3).unwrap();
    assert_eq!(listed(&place.open("x.tar.zst", &zstd).unwrap()), plain);
    // As on tapes.
    assert_eq!(listed(&place.open("z.tar.gz", &[&*gzip, &vec![0; 300_000]].concat()).unwrap()), plain);
    let skippable = [b"\x50\x2a\x4d\x18\x03\0\0\0abc", &*zstd].concat();
    assert_eq!(listed(&place.open("y.tar.zst", &skippable).unwrap()), plain);
    for (name, bytes) in [("t.tar", &tar), ("t.tar.gz", &gzip), ("t.tar.zst", &zstd)] {
        let said = place.open(name, &bytes[..bytes.len() / 2]).unwrap_err();
        assert!(said.contains("not a usable tar archive") || said.contains("past the end"), "{name}: {said}");
    }
    let mut flipped = gzip.clone();
    let end = flipped.len() - 6;
    flipped[end] ^= 1;
    assert!(place.open("f.tar.gz", &flipped).unwrap_err().contains("CRC-32"));
}

#[test]
fn extended_headers_give_names_sizes_and_times() {
    let name = "pax/".repeat(60) + "x";
    let mut builder = Builder::new(Vec::new());
    let records = [("path", name.as_bytes()), ("mtime", b"1700000000.25"), ("SCHILY.xattr.user.x", b"1")];
    builder.append_pax_extensions(records).unwrap();
    let mut header = Header::new_ustar();
    header.set_size(2);
    header.set_mode(0o644);
    header.set_cksum();
    builder.append(&header, &b"ok"[..]).unwrap();
    let input = TarDirectory::new().open("x.tar", &builder.into_inner().unwrap()).unwrap();
    let entry = input.entries.last().unwrap();
    assert_eq!(entry.path.to_string(), name);
    assert_eq!((entry.attributes.mtime, entry.attributes.mtime_nanoseconds), (1_700_000_000, 250_000_000));
}

#[test]
fn components_that_say_nothing_are_left_out() {
    let place = TarDirectory::new();
    let members = [(EntryType::Directory, "top/./", "", &b""[..]), file("top/./a", b"x"), file(".//top//b/./c", b"y")];
    let members = [&members[..], &[(EntryType::Link, "d", "./top/./a", b"")]].concat();
    let input = place.open("x.tar", &archive(&members)).unwrap();
    let names: Vec<_> = input.entries.iter().map(|entry| entry.path.to_string()).collect();
    assert_eq!(names, ["d", "top", "top/a", "top/b", "top/b/c"]);
}

/// tarfile writes the default mode in the header of a hard link, and GNU tar does not apply it.
#[test]
fn a_hard_link_has_the_mode_of_its_file() {
    let place = TarDirectory::new();
    let mut bytes = archive(&[file("a", b"x"), (EntryType::Link, "b", "a", b"")]);
    let header = Header::from_byte_slice(&bytes[1024..1536]);
    let mut header = header.clone();
    header.set_mode(0o600);
    header.set_mtime(5);
    header.set_cksum();
    bytes[1024..1536].copy_from_slice(header.as_bytes());
    let input = place.open("x.tar", &bytes).unwrap();
    let [a, b] = &input.entries[..] else { panic!("{}", input.entries.len()) };
    assert_eq!((b.attributes, b.attributes.mode), (a.attributes, 0o4751));
}

#[test]
fn what_cannot_be_shown_is_refused_by_name() {
    let place = TarDirectory::new();
    let refused = |members: &[MemberToWrite]| place.open("x.tar", &archive(members)).unwrap_err();
    for (members, expected) in [
        (&[file("/etc/passwd", b"x")][..], "member \"/etc/passwd\": the name is absolute"),
        (&[file("a/../../b", b"x")], "member \"a/../../b\": the name has a component that is empty, \".\" or \"..\""),
        (&[(EntryType::Link, "a", "../b", b"")], "a hard link to \"../b\""),
        (&[(EntryType::Link, "a", "b", b"")], "which is no file before it"),
        (&[(EntryType::Symlink, "a", "", b"")], "leads nowhere"),
        (&[(EntryType::GNUSparse, "a", "", b"")], "a sparse file"),
        (&[(EntryType::Fifo, "pipe", "", b"")], "member \"pipe\": neither a file, a directory nor a link"),
        (&[(EntryType::Block, "disk", "", b"")], "member \"disk\": neither"),
        (&[(EntryType::Symlink, "a", "/etc", b""), file("a/passwd", b"x")], "is no directory of the archive"),
        (&[file("a", b"x"), file("a/b", b"x")], "is no directory of the archive"),
        (&[file("a/b", b"x"), file("a", b"x")], "there twice, as a directory and as something else"),
    ] {
        let said = refused(members);
        assert!(said.contains(expected), "{said}");
    }
    let to = |length| {
        let target = vec![b'x'; length];
        let long = (EntryType::GNULongLink, "././@LongLink", "", &*target);
        place.open("x.tar", &archive(&[long, (EntryType::Symlink, "a", "x", b"")])).map(drop)
    };
    to(4095).unwrap();
    let said = to(4096).unwrap_err();
    assert!(said.contains("member \"a\": a symlink whose target is too long for a file system"), "{said}");
    let mut builder = Builder::new(Vec::new());
    builder.append_pax_extensions([("GNU.sparse.major", &b"1"[..])]).unwrap();
    let rest = archive(&[file("thin.img", b"x")]);
    let said = place.open("s.tar", &[&**builder.get_ref(), &*rest].concat()).unwrap_err();
    assert!(said.contains("\"thin.img\": a sparse file"), "{said}");
}

#[test]
fn headers_do_not_take_any_amount_of_memory() {
    let place = TarDirectory::new();
    let name = vec![b'x'; 4 << 20];
    let long = (EntryType::GNULongName, "././@LongLink", "", &*name);
    let said = place.open("x.tar", &archive(&[long, file("x", b"x")])).unwrap_err();
    assert!(said.contains("a header of more than"), "{said}");
}

#[test]
fn an_archive_that_changes_is_not_served() {
    let place = TarDirectory::new();
    let path = place.put("x.tar", &archive(&[file("a", b"content")]));
    let input = Input::open(&path, &Resources::new(1 << 20)).unwrap();
    place.put("x.tar", &archive(&[file("a", b"another content")]));
    assert!(input.witnesses().iter().any(|file| Arc::clone(file).read_at(0, &mut [0]).is_err()));
    let EntryKind::File { content, .. } = &input.entries.first().unwrap().kind else { panic!() };
    assert!(content.read_at(0, &mut [0; 4]).is_err());
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The bytes of a file at random places, which need not be decoded from the beginning.
#[test]
fn a_gzip_file_of_several_members_is_read_at_any_place() {
    let noise: Vec<u8> = (0..3_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let tar = archive(&[file("first", b"1"), file("noise", &noise), file("last", b"2")]);
    let place = TarDirectory::new();
    let cache = place.0.path().join("cache");
    for length in [512, 70_000, 1_000_000, 2_000_000] {
        let packed: Vec<u8> = tar.chunks(length).flat_map(gzipped).collect();
        let path = place.put("x.tar.gz", &packed);
        // The second time, the places of members come from the index.
        for _ in 0..2 {
            let resources = Resources::with_index(16 << 20, Index::open(&cache, &path));
            let input = Input::open(&path, &resources).unwrap();
            let names: Vec<_> = input.entries.iter().map(|entry| entry.path.to_string()).collect();
            assert_eq!(names, ["first", "last", "noise"]);
            let EntryKind::File { content, .. } = &input.entries[2].kind else { panic!() };
            for at in [0, 1, 511, 999_990, 1_999_999, 2_499_000, 2_999_000] {
                let mut bytes = vec![0; 1000.min(noise.len() - at)];
                content.read_at(at as u64, &mut bytes).unwrap();
                assert_eq!(bytes, noise[at..at + bytes.len()], "members of {length} bytes, at {at}");
            }
            resources.index.save().unwrap();
        }
    }
}

#[test]
fn only_compressed_archives_may_lack_the_blocks_at_their_end() {
    let tar = archive(&[file("a", b"x")]);
    let place = TarDirectory::new();
    for length in [tar.len() - 1024, tar.len() - 1024 - 511] {
        let cut = &tar[..length];
        let said = place.open("x.tar", cut).unwrap_err();
        assert!(said.contains("it ends without the empty blocks that end an archive"), "{said}");
        let zstd = zstd::bulk::compress(cut, 3).unwrap();
        for packed in [gzipped(cut), cut.chunks(512).flat_map(gzipped).collect(), zstd] {
            let input = place.open("x", &packed).unwrap();
            assert_eq!(listed(&input), ["a = x"]);
            let [warning] = &*input.warnings else { panic!("{:?}", input.warnings) };
            assert!(warning.contains("without the empty blocks that end an archive"), "{warning}");
        }
    }
    assert!(place.open("x.tar.gz", &gzipped(b"")).unwrap_err().contains("after 0 bytes"));
}

#[test]
fn an_archive_behind_the_end_of_another_is_named() {
    let place = TarDirectory::new();
    let (one, other) = (archive(&[file("a", b"x")]), archive(&[file("b", b"y")]));
    for between in [0, 512, 20 * 512] {
        let joined = [&*one, &vec![0; between], &*other].concat();
        for packed in [gzipped(&joined), joined] {
            let input = place.open("x", &packed).unwrap();
            assert_eq!(listed(&input), ["a = x"]);
            let [warning] = &*input.warnings else { panic!("{:?}", input.warnings) };
            let next = format!("another archive follows at byte {},", one.len() + between);
            assert!(warning.contains(&next), "{warning}");
        }
    }
    assert!(place.open("x", &[&*one, &[7; 4096]].concat()).unwrap().warnings.is_empty());
}

/// Values are those that GNU tar gives to files.
#[test]
fn times_before_1970_and_beyond_octal_digits_are_kept() {
    let in_header = |field: &[u8; 12], records: &[(&str, &[u8])]| {
        let mut builder = Builder::new(Vec::new());
        builder.append_pax_extensions(records.iter().copied()).unwrap();
        let mut header = Header::new_ustar();
        header.set_mode(0o644);
        header.set_size(0);
        header.as_old_mut().name[0] = b'a';
        header.as_old_mut().mtime = *field;
        header.set_cksum();
        builder.append(&header, &b""[..]).unwrap();
        let input = TarDirectory::new().open("x.tar", &builder.into_inner().unwrap()).unwrap();
        let attributes = input.entries[0].attributes;
        (attributes.mtime, attributes.mtime_nanoseconds)
    };
    for (field, expected) in [
        (&[0; 12], 0),
        (b"00000000000\0", 0),
        (b"14524771400\0", 1_700_000_512),
        // 1960-01-01, as GNU tar writes it.
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xed\x30\x08\x80", -315_619_200),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", -1),
        (b"\x80\0\0\0\0\0\0\x02\x54\x0b\xe4\0", 10_000_000_000),
        (b"\x80\0\0\0\x80\0\0\0\0\0\0\0", i64::MAX),
        (b"\xff\xff\xff\xff\x7f\xff\xff\xff\xff\xff\xff\xff", i64::MIN),
    ] {
        assert_eq!(in_header(field, &[]), (expected, 0), "{field:x?}");
    }
    for (record, expected) in [
        ("-315619200", (-315_619_200, 0)),
        ("-1.5", (-2, 500_000_000)),
        ("-0.000000001", (-1, 999_999_999)),
        ("-0.9999999991", (-1, 0)),
        ("-0.99999999901", (-1, 0)),
        ("-1.0000000001", (-2, 999_999_999)),
        ("-0", (0, 0)),
        ("0.1234567899", (0, 123_456_789)),
        ("17", (17, 0)),
        // No times, so that of the header counts.
        ("--1", (5, 0)),
        ("-", (5, 0)),
        ("+1", (5, 0)),
        ("1.-5", (5, 0)),
    ] {
        assert_eq!(in_header(b"00000000005\0", &[("mtime", record.as_bytes())]), expected, "{record}");
    }
}

#[test]
fn members_that_gnu_tar_adds_are_read_as_it_reads_them() {
    let of = |byte| EntryType::new(byte);
    let members = [
        (of(b'V'), "LABEL", "", &b""[..]),
        (of(b'D'), "lib/", "", b"Ya\0Yb\0\0"),
        file("lib/a", b"1"),
        (of(b'D'), "empty", "", b"\0"),
    ];
    let place = TarDirectory::new();
    assert_eq!(listed(&place.open("x.tar", &archive(&members)).unwrap()), ["empty/", "lib/", "lib/a = 1"]);
    // The label has neither mode nor size.
    let mut bytes = archive(&members);
    let mut label = Header::from_byte_slice(&bytes[..512]).clone();
    label.as_old_mut().mode = [0; 8];
    label.as_old_mut().size = [0; 12];
    label.set_cksum();
    bytes[..512].copy_from_slice(label.as_bytes());
    assert_eq!(listed(&place.open("x.tar", &bytes).unwrap()).len(), 3);
    for (kind, expected) in [
        (b'M', "the rest of a file that another volume begins"),
        (b'N', "of the unknown type 'N'"),
        (0x1b, "of the unknown type '\\u{1b}'"),
        (b'4', "a block device"),
    ] {
        let said = place.open("x.tar", &archive(&[(of(kind), "odd", "", b"")])).unwrap_err();
        assert!(said.contains("\"odd\": neither a file, a directory nor a link") && said.contains(expected), "{said}");
    }
}
