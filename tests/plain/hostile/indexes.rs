//! Indexes, malformed in every way.

use std::fs::{self, File};
use std::process::Command;

use kpackfs::index::{Index, RecordKind};
use kpackfs::rope::Identity;

use crate::hostile::Kind;
use crate::hostile::records::{block, close};
use crate::hostile::support::directory;

/// A record: kind, identity, day, and content that claims this length.
fn record(kind: u8, length: u32, content: &[u8]) -> Vec<u8> {
    [&[kind][..], &[7; 16], &[1, 0, 0, 0], &length.to_le_bytes(), content].concat()
}

/// Contents of a whole file, and contents that are taken for the records of an otherwise valid file.
pub(crate) fn kinds() -> Vec<Kind> {
    let nothing = close(&[b""]);
    // A frame of one block that declares 4 GB, and one of 1 GB (RFC 8878, 3.1.1).
    let frame = |size: u64| [&[0x28, 0xB5, 0x2F, 0xFD, 0xE0][..], &size.to_le_bytes(), &[1, 0, 0]].concat();
    let with_frame = |frame: &[u8]| [&b"KPFSIDX\n"[..], &block(&[0; 16], 8, usize::MAX, frame)].concat();
    vec![
        ("empty", Vec::new()),
        ("a magic only", b"KPFSIDX\n".to_vec()),
        ("another magic", b"KPFSIDY\n and more than that, so that it is long enough".to_vec()),
        ("a wrong checksum", [&nothing[..10], &[1, 2, 3], &nothing[13..]].concat()),
        ("nothing in it", nothing),
        ("no frame", with_frame(b"no frame at all")),
        ("a frame of 1 GB", with_frame(&frame(1 << 30))),
        ("a frame of 2^63 bytes", with_frame(&frame(1 << 63))),
        ("a header past the end", close(&[&[0xFF, 0xFF, 0xFF, 0x7F, 1, 2]])),
        ("a record", record(1, 1, &[5])),
        ("a record of no kind", record(200, 1, &[5])),
        ("a record past the end", record(1, u32::MAX, &[5])),
        ("half a record", record(1, 1, &[5])[..12].to_vec()),
        ("a list of 4 G elements", record(3, 5, &[0xDD, 0xFF, 0xFF, 0xFF, 0xFF])),
        ("lists in lists", record(3, 2000, &[0x91; 2000])),
        ("a record twice", [record(4, 1, &[5]), record(4, 1, &[6])].concat()),
    ]
}

/// Other things in place of an index are neither waited for nor read without bounds.
#[test]
fn what_is_no_index_is_passed_over() {
    let place = directory();
    let input = place.path().join("x.whl");
    fs::write(&input, "input").unwrap();
    let index = Index::open(place.path(), &input);
    let index = index.file().unwrap().to_owned();
    let nothing = |what: &str| {
        let index = Index::open(place.path(), &input);
        assert!(index.get::<u8>(RecordKind::Scan, &Identity([7; 16])).is_none(), "{what}");
        index.put(RecordKind::Scan, &Identity([7; 16]), &1);
        index.save()
    };
    assert!(Command::new("mkfifo").arg(&index).status().unwrap().success());
    nothing("a pipe").unwrap();
    File::create(&index).unwrap().set_len(1 << 40).unwrap();
    nothing("1 TB").unwrap();
    fs::remove_file(&index).unwrap();
    fs::create_dir(&index).unwrap();
    nothing("a directory").unwrap_err();
}
