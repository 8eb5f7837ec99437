use std::fs;
use std::path::Path;

use crate::resources::Resources;
use crate::rope::ReadError;
use crate::source::inflate::testing::{Z_NO_FLUSH, deflated};
use crate::source::testing::{TestMember, content_of, date, made, open_wheel, packed, zipped};
use crate::source::{Entry, EntryKind, EntryPath, Input, InputKind, SourceError};

fn open(members: &[TestMember]) -> Input {
    open_wheel(&zipped(members), &Resources::new(64 << 20)).unwrap()
}

fn refusal(members: &[TestMember]) -> String {
    match open_wheel(&zipped(members), &Resources::new(0)).unwrap_err() {
        SourceError::BadMember { member, reason, .. } => format!("{member}: {reason}"),
        other => panic!("{other}"),
    }
}

fn entry<'a>(input: &'a Input, path: &str) -> &'a Entry {
    input.entry(&EntryPath::new(path.as_bytes()).unwrap()).unwrap()
}

fn read(input: &Input, path: &str) -> Result<Vec<u8>, ReadError> {
    content_of(input, path).to_vec()
}

fn damage(input: &Input, path: &str) -> String {
    match content_of(input, path).read_at(0, &mut [0; 1]).unwrap_err() {
        error @ ReadError::Damaged { .. } => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn members_are_listed_and_read() {
    let input = open(&[
        packed("pkg/lib/a.so", &vec![7; 100_000]),
        made("pkg/b", b"stored"),
        made("pkg/empty", b""),
        packed("pkg/empty2", b""),
        TestMember { mode: 0o043_700, date: date(2020, 1, 1), ..made("pkg/dir/", b"") },
        TestMember { date: date(2025, 12, 31), ..made("pkg/dir/deep/né", b"1") },
    ]);
    assert!(matches!(&input.kind, InputKind::Wheel(info) if info.as_bytes() == b"x-1.dist-info"));
    let paths: Vec<_> = input.entries.iter().map(|entry| entry.path.to_string()).collect();
    let expected = [
        "pkg",
        "pkg/b",
        "pkg/dir",
        "pkg/dir/deep",
        "pkg/dir/deep/né",
        "pkg/empty",
        "pkg/empty2",
        "pkg/lib",
        "pkg/lib/a.so",
        "x-1.dist-info",
        "x-1.dist-info/METADATA",
        "x-1.dist-info/WHEEL",
    ];
    assert_eq!(paths, expected);
    assert_eq!(input.warnings, Vec::<String>::new());
    let times = ["pkg", "pkg/dir", "pkg/dir/deep", "pkg/lib", "pkg/b"].map(|path| entry(&input, path).attributes.mtime);
    // `date -u -d '2025-12-31 12:00' +%s` and so on.
    assert_eq!(times, [1_767_182_400, 1_577_880_000, 1_767_182_400, 1_709_208_000, 1_709_208_000]);
    assert_eq!(entry(&input, "pkg/dir").attributes.mode, 0o755);
    assert!(!content_of(&input, "pkg/lib/a.so").is_nonblocking(0, 1));
    assert_eq!(read(&input, "pkg/lib/a.so").unwrap(), vec![7; 100_000]);
    assert_eq!(read(&input, "pkg/b").unwrap(), b"stored");
    assert_eq!(read(&input, "pkg/empty").unwrap(), b"");
    assert_eq!(read(&input, "pkg/empty2").unwrap(), b"");
    assert!(
        content_of(&input, "pkg/b").is_nonblocking(0, 1)
            && content_of(&input, "pkg/lib/a.so").is_nonblocking(0, 100_000)
    );
    let raw = content_of(&input, "pkg/lib/a.so").member().unwrap().packed();
    assert_eq!(raw.bytes.to_vec().unwrap(), deflated(&vec![7; 100_000], 6, 100_000, Z_NO_FLUSH));
    assert_eq!((raw.deflated, raw.crc32), (true, crc32fast::hash(&vec![7; 100_000])));
    assert!(!content_of(&input, "pkg/b").member().unwrap().packed().deflated);
}

#[test]
fn modes_and_symlinks() {
    let link = |name: &str, target: &[u8]| TestMember { mode: 0o120_777, ..made(name, target) };
    let input = open(&[
        TestMember { mode: 0o100_755, ..made("bin", b"") },
        TestMember { mode: 0, ..made("none", b"") },
        TestMember { system: 0, mode: 0o100_755, ..made("dos", b"") },
        TestMember { mode: 0o104_711, ..made("suid", b"") },
        TestMember { mode: 0o102_775, ..made("sgid", b"") },
        TestMember { mode: 0o101_666, ..made("sticky", b"") },
        link("link", b"../elsewhere"),
        TestMember { mode: 0o120_777, ..packed("link2", &[b'a'; 4095]) },
        link("long", &[b'a'; 4096]),
        link("nul", b"a\0b"),
        link("void", b""),
        TestMember { crc: 1, ..link("false", b"a") },
    ]);
    let modes = ["bin", "none", "dos", "suid", "sgid", "sticky"].map(|path| entry(&input, path).attributes.mode);
    assert_eq!(modes, [0o755, 0o644, 0o755, 0o755, 0o755, 0o644]);
    assert!(matches!(&entry(&input, "link").kind, EntryKind::Symlink(target) if **target == *b"../elsewhere"));
    assert!(matches!(&entry(&input, "link2").kind, EntryKind::Symlink(target) if target.len() == 4095));
    assert_eq!(read(&input, "nul").unwrap(), b"a\0b");
    assert_eq!(input.warnings.len(), 4);
    for (warning, path) in input.warnings.iter().zip(["long", "nul", "void", "false"]) {
        assert!(warning.starts_with(path), "{warning}");
        assert!(matches!(entry(&input, path).kind, EntryKind::File { .. }));
    }
}

#[test]
fn hostile_wheels_are_refused_with_the_member_named() {
    let deep = "d/".repeat(200) + "f";
    let link = TestMember { mode: 0o120_777, ..made("a", b"/etc") };
    let huge = TestMember { zip64: true, size: i64::MAX as u64, packed_size: 8, ..packed("huge", b"1") };
    for (members, expected) in [
        (vec![made("../x", b"")], "../x: the name has a component"),
        (vec![made("a/../../x", b"")], "a/../../x: the name has a component"),
        (vec![made("/etc/passwd", b"")], "/etc/passwd: the name is absolute"),
        (vec![made("a//b", b"")], "a//b: the name has a component"),
        (vec![made("a\0b", b"")], "a\0b: the name has a NUL byte"),
        (vec![made(&"x".repeat(256), b"")], "xxx"),
        (vec![made(&deep, b"")], "d/d/"),
        (vec![made("a", b""), made("b", b""), made("a", b"")], "a: the name is there twice"),
        (vec![made("a/", b""), made("a", b"")], "a: the name is there twice"),
        (vec![made("a", b""), made("a/b", b"")], "a/b: \"a\" is not a directory"),
        (vec![made("a/b/c", b""), made("a", b"")], "a/b/c: \"a\" is not a directory"),
        (vec![link, made("a/passwd", b"")], "a/passwd: \"a\" is not a directory"),
        (vec![made("a/", b"content")], "a/: a directory with content"),
        (vec![made("a", b"1"), TestMember { offset: Some(0), ..made("b", b"1") }], ": it overlaps what comes after it"),
        (
            vec![TestMember { packed_size: 100, ..packed("a", b"1") }, made("b", b"1")],
            "a: it overlaps what comes after it",
        ),
        (vec![TestMember { offset: Some(u32::MAX - 1), ..made("a", b"1") }], "a: it overlaps what comes after it"),
        (vec![huge.clone(), TestMember { name: b"huge2".into(), ..huge }], "huge2: the members claim more bytes"),
    ] {
        let refusal = refusal(&members);
        assert!(refusal.contains(expected), "{refusal} / {expected}");
    }
}

#[test]
fn members_that_cannot_be_read_harm_nobody_else() {
    let input = open(&[
        TestMember { flags: 1, ..packed("encrypted", b"1") },
        TestMember { method: 93, ..made("zstd", b"1") },
        TestMember { size: 2, ..made("stored", b"1") },
        TestMember { size: 1 << 40, zip64: true, ..packed("bomb", b"1") },
        TestMember { local_name: b"b".into(), ..packed("a", b"1") },
        TestMember { crc: 1, ..packed("crc", b"1") },
        made("good", b"1"),
    ]);
    assert_eq!(input.warnings.len(), 4, "{:?}", input.warnings);
    assert!(input.warnings[0].starts_with("encrypted: cannot be read: it is encrypted"));
    for (path, expected) in [
        ("encrypted", "it is encrypted"),
        ("zstd", "compression method 93"),
        ("stored", "takes 1 bytes and claims 2"),
        ("bomb", "cannot inflate to 1099511627776"),
        ("a", "another name"),
        ("crc", "CRC-32"),
    ] {
        let damage = damage(&input, path);
        assert!(damage.contains(expected) && damage.starts_with(path), "{damage}");
    }
    assert_eq!(content_of(&input, "bomb").size(), 1 << 40);
    assert_eq!(read(&input, "good").unwrap(), b"1");
}

#[test]
fn local_headers_are_checked() {
    let bytes = zipped(&[packed("abc", b"1")]);
    // Signature, flags, method, name, length of the extra fields.
    for (at, byte, expected) in [
        (0, b'Q', "no local header"),
        (6, 1, "another compression method"),
        (8, 0, "another compression method"),
        (30, b'x', "another name"),
        (28, 200, "overlaps"),
    ] {
        let mut bytes = bytes.clone();
        bytes[at] = byte;
        let input = open_wheel(&bytes, &Resources::new(0)).unwrap();
        let damage = damage(&input, "abc");
        assert!(damage.contains(expected), "{damage}");
    }
}

#[test]
fn zip64_sizes_and_names_that_are_not_utf8() {
    let name = TestMember { name: b"\x81.txt".into(), local_name: b"\x81.txt".into(), ..packed("", b"umlaut") };
    let input = open(&[TestMember { zip64: true, ..packed("big", &[1; 5000]) }, name]);
    assert_eq!(read(&input, "big").unwrap(), vec![1; 5000]);
    // 0x81 is ü in code page 437.
    assert_eq!(read(&input, "ü.txt").unwrap(), b"umlaut");
}

#[test]
fn what_is_no_wheel_is_said_so() {
    let open = |bytes: &[u8]| open_wheel(bytes, &Resources::new(0)).unwrap_err();
    assert!(matches!(open(b""), SourceError::UnknownKind { .. }));
    assert!(matches!(open(&vec![b'x'; 70_000]), SourceError::UnknownKind { .. }));
    let no_dist_info = zipped(&[made("y-1.dist-info/WHEEL", b"")]);
    assert!(open(&no_dist_info).to_string().contains("dist-info directory"));
    let whole = zipped(&[made("a", b"1")]);
    assert!(open(&whole[..whole.len() - 30]).to_string().contains("it is truncated or damaged"));
    assert!(matches!(open(&whole[..3]), SourceError::UnknownKind { .. }));
    assert!(matches!(open(&[b"#!prefix\n", &whole[..]].concat()), SourceError::NotAWheel { .. }));
    let error = open(&zip64_end(1 << 40, 0));
    assert!(error.to_string().contains("1099511627776 members"), "{error}");
}

/// A Zip64 end record that claims `members` members, a locator that points to `offset`, and an end record.
fn zip64_end(members: u64, offset: u64) -> Vec<u8> {
    let record = [&b"PK\x06\x06"[..], &44_u64.to_le_bytes(), &[0; 12], &[&members.to_le_bytes()[..]; 2].concat()];
    let record = [&record.concat()[..], &[0; 16]].concat();
    let locator = [&b"PK\x06\x07\0\0\0\0"[..], &offset.to_le_bytes(), &1_u32.to_le_bytes()].concat();
    [record, locator, [&b"PK\x05\x06\0\0\0\0"[..], &[0xff; 12], &[0; 2]].concat()].concat()
}

#[test]
fn a_zip_file_inside_of_a_wheel_is_a_member_like_others() {
    // Its locator holds the offset that its end record has in the inner file. In the wheel, other bytes are there.
    let inner = [vec![0xee; 300], zip64_end(1, 300)].concat();
    let input = open(&[made("a", &[0xff; 500]), made("inner.zip", &inner)]);
    assert_eq!(read(&input, "inner.zip").unwrap(), inner);
}

#[test]
fn every_truncation_and_many_changes_are_survived() {
    let whole = zipped(&[packed("a/b", &[3; 3000]), made("c", b"1")]);
    let resources = Resources::new(1 << 20);
    let try_all = |bytes: &[u8]| {
        if let Ok(input) = open_wheel(bytes, &resources) {
            for entry in &input.entries {
                if let EntryKind::File { content, .. } = &entry.kind {
                    let _ = content.read_at(0, &mut vec![0; usize::try_from(content.size().min(1 << 16)).unwrap()]);
                }
            }
        }
    };
    for at in 0..whole.len() {
        try_all(&whole[..at]);
        for change in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= change;
            try_all(&bytes);
        }
    }
}

#[test]
fn listing_reads_the_central_directory_and_nothing_else() {
    let members: Vec<_> = (0..1000).map(|number| packed(&format!("pkg/{number}"), &[b'x'; 10])).collect();
    let payload = made("payload", &vec![0; 10 << 20]);
    let resources = Resources::new(1 << 20);
    let bytes = zipped(&[&members[..], &[payload]].concat());
    let place = tempfile::tempdir().unwrap();
    let location = place.path().join("x.whl");
    fs::write(&location, &bytes).unwrap();
    let input = Input::open(&location, &resources).unwrap();
    assert!(resources.counters.bytes_read.get() < 250_000, "{}", resources.counters.bytes_read.get());
    let before = resources.counters.bytes_read.get();
    assert_eq!(read(&input, "pkg/77").unwrap(), b"xxxxxxxxxx");
    assert!(resources.counters.bytes_read.get() - before < 60);
    fs::OpenOptions::new().write(true).open(&location).unwrap().set_len(100).unwrap();
    assert!(matches!(read(&input, "pkg/78"), Err(ReadError::Changed { .. })));
}

/// Compares real wheels with what `unzip` extracted from them: `$KPACKFS_CORPUS/*.whl` and
/// `$KPACKFS_CORPUS/unpacked/<name>`.
#[test]
fn real_wheels_read_as_unpacked() {
    let Some(corpus) = std::env::var_os("KPACKFS_CORPUS") else {
        eprintln!("SKIPPED: real wheels are only compared if KPACKFS_CORPUS names a directory with some");
        return;
    };
    let mut compared = 0;
    for found in fs::read_dir(&corpus).unwrap() {
        let wheel = found.unwrap().path();
        if wheel.extension().is_none_or(|extension| extension != "whl") {
            continue;
        }
        let started = std::time::Instant::now();
        let resources = Resources::new(256 << 20);
        let input = Input::open(&wheel, &resources).unwrap();
        let (took, read) = (started.elapsed(), resources.counters.bytes_read.get());
        eprintln!("{}: {} entries, listed in {took:?} with {read} bytes", wheel.display(), input.entries.len());
        let name = wheel.file_name().unwrap().to_string_lossy().into_owned();
        let unpacked = Path::new(&corpus).join("unpacked").join(name.split('-').next().unwrap());
        if unpacked.is_dir() && !name.contains("win_") {
            compare(&input, &unpacked);
            compared += 1;
        }
    }
    assert!(compared > 0, "nothing to compare in {}", corpus.display());
}

fn compare(input: &Input, unpacked: &Path) {
    let existing = Input::open(unpacked, &Resources::new(0)).unwrap();
    let paths = |input: &Input| input.entries.iter().map(|entry| entry.path.clone()).collect::<Vec<_>>();
    assert!(paths(input) == paths(&existing), "{}", unpacked.display());
    for entry in &input.entries {
        let place = unpacked.join(entry.path.as_path());
        let EntryKind::File { content, .. } = &entry.kind else {
            assert!(place.is_dir(), "{}", place.display());
            continue;
        };
        let expected = fs::read(&place).unwrap();
        assert_eq!(content.size(), expected.len() as u64, "{}", entry.path);
        let mut buffer = vec![0; 128 << 10];
        for (piece, at) in expected.chunks(128 << 10).zip((0..).step_by(128 << 10)) {
            content.read_at(at, &mut buffer[..piece.len()]).unwrap();
            assert!(buffer[..piece.len()] == *piece, "{} at {at}", entry.path);
        }
    }
}
