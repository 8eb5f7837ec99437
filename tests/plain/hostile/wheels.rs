//! Wheels and deflate streams, malformed in every way.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;

use kpackfs::kpack::BundleJobs;
use kpackfs::metrics::Progress;
use kpackfs::source::Input;
use kpackfs::split::{Plan, PlanOptions, Targets};

use crate::hostile::Kind;
use crate::hostile::elf::fat_with;
use crate::hostile::plain_bundle::plain;
use crate::hostile::support::{directory, resources, wheel};
use crate::hostile::zipped::{Member, zipped};

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn packed(name: &str, content: &[u8]) -> Member {
    Member { packed: deflated(content), method: 8, ..Member::stored(name, content) }
}

/// Replaces bytes after the `number`th occurrence of a signature.
fn patched(mut zip: Vec<u8>, signature: [u8; 2], number: usize, at: usize, value: &[u8]) -> Vec<u8> {
    let signature = [b'P', b'K', signature[0], signature[1]];
    let found = zip.windows(4).enumerate().filter(|(_, there)| *there == signature).nth(number).unwrap().0;
    zip[found + at..found + at + value.len()].copy_from_slice(value);
    zip
}

pub(crate) fn kinds() -> Vec<Kind> {
    let text: Vec<u8> = (0..3000_u32).flat_map(|number| number.to_string().into_bytes()).collect();
    let members = [packed("x/a", &text), Member::stored("x/b", b"stored"), packed("x/empty", b"")];
    let good = zipped(&members);
    let one = |member: Member| zipped(&[member]);
    let named = |name: &str| one(Member::stored(name, b"1"));
    let local = |at: usize, value: &[u8]| patched(good.clone(), [3, 4], 0, at, value);
    let central = |at: usize, value: &[u8]| patched(good.clone(), [1, 2], 0, at, value);
    let end = |at: usize, value: &[u8]| patched(good.clone(), [5, 6], 0, at, value);
    let link =
        |target: &[u8]| patched(one(Member::stored("link", target)), [1, 2], 0, 38, &0xA1FF_0000_u32.to_le_bytes());
    let zeros = deflated(&vec![0; 3 << 20]);
    // Zip64 (APPNOTE.TXT 4.3.14 and 4.3.15): a record that claims 2^40 members, and its locator.
    let record = [
        b"PK\x06\x06",
        &44_u64.to_le_bytes()[..],
        &[45, 3, 45, 0],
        &[0; 8],
        &[[0, 0, 0, 0, 0, 1, 0, 0]; 2].concat(),
        &[0; 16],
    ]
    .concat();
    let at = good.windows(4).position(|there| there == b"PK\x05\x06").unwrap();
    let locator = [b"PK\x06\x07", &[0; 4][..], &(at as u64).to_le_bytes(), &[1, 0, 0, 0]].concat();
    let zip64 = [&good[..at], &record, &locator, &good[at..]].concat();
    vec![
        ("good", good.clone()),
        ("empty", Vec::new()),
        ("an end only", good[at..].to_vec()),
        ("truncated in the directory", good[..at - 20].to_vec()),
        ("something in front", [b"#!/bin/sh\n", &*good].concat()),
        ("something behind", [&*good, b"more"].concat()),
        ("members past the end of the directory", end(10, &[0xFF, 0xFF])),
        ("the directory is past the end", end(16, &[0xFF; 4])),
        ("the directory is the file", end(16, &[0; 4])),
        ("the directory is long", end(12, &[0xFF; 4])),
        ("a comment past the end", end(20, &[0xFF, 0xFF])),
        ("2^40 members", zip64),
        ("a name that leaves the tree", named("../x")),
        ("a name that leaves the tree later", named("a/../../x")),
        ("a name that is absolute", named("/etc/passwd")),
        ("a name with NUL", named("a\0b")),
        ("a name that is empty", named("")),
        ("a name of 300 bytes", named(&"x".repeat(300))),
        ("a name 200 directories deep", named(&("d/".repeat(200) + "f"))),
        ("two names that are one", zipped(&[members[0].clone(), members[0].clone()])),
        ("a file in a file", zipped(&[Member::stored("a", b"1"), Member::stored("a/b", b"2")])),
        ("a file where dist-info is", zipped(&[Member::stored("x-1.dist-info", b"1")])),
        ("a directory with content", named("a/")),
        ("a link", link(b"../../etc/passwd")),
        ("a link of 5000 bytes", link(&[b'a'; 5000])),
        ("a link with NUL", link(b"a\0b")),
        ("another name in the local header", local(30, b"y")),
        ("another method in the local header", local(8, &[0, 0])),
        ("a long name in the local header", local(26, &[0xFF, 0xFF])),
        ("extra fields past the end", local(28, &[0xFF, 0xFF])),
        ("no local header", local(0, b"QK")),
        ("encrypted", central(8, &[1, 0])),
        ("an unknown method", central(10, &[12, 0])),
        ("a wrong checksum", central(16, &[0; 4])),
        ("packed into nothing", central(20, &[0; 4])),
        ("packed into all", central(20, &[0xFF; 4])),
        ("larger than it is", central(24, &9000_u32.to_le_bytes())),
        ("smaller than it is", central(24, &9_u32.to_le_bytes())),
        ("larger than can be", central(24, &[0xFE, 0xFF, 0xFF, 0xFF])),
        ("a member in another", central(42, &60_u32.to_le_bytes())),
        ("a member in the directory", central(42, &u32::try_from(at - 40).unwrap().to_le_bytes())),
        ("two members in one place", patched(good.clone(), [1, 2], 1, 42, &[0; 4])),
        (
            "3 MB of zeros",
            one(Member { packed: zeros.clone(), method: 8, size: 3 << 20, ..Member::stored("z", &vec![0; 3 << 20]) }),
        ),
        (
            "3 MB of zeros that claim 2 MB",
            one(Member { packed: zeros, method: 8, size: 2 << 20, ..Member::stored("z", b"") }),
        ),
        (
            "9 MB of zeros that claim 3 MB",
            one(Member { packed: deflated(&vec![0; 9 << 20]), method: 8, size: 3 << 20, ..Member::stored("z", b"") }),
        ),
        ("a stream that breaks off", one(Member { packed: deflated(&text)[..900].to_vec(), ..packed("x", &text) })),
        ("no stream", one(Member { packed: vec![0xFF; 100], ..packed("x", &text) })),
    ]
}

/// Raw deflate streams (RFC 1951).
pub(crate) fn streams() -> Vec<Kind> {
    let text: Vec<u8> = (0..2000_u32).flat_map(|number| (number * number).to_string().into_bytes()).collect();
    let good = deflated(&text);
    let stored = |is_final: u8, bytes: &[u8]| {
        let length = u16::try_from(bytes.len()).unwrap();
        [&[is_final][..], &length.to_le_bytes(), &(!length).to_le_bytes(), bytes].concat()
    };
    let blocks = (0..20_u8).map(|number| stored(u8::from(number == 19), &[number; 300])).collect::<Vec<_>>().concat();
    vec![
        ("good", good.clone()),
        ("good, 3 MB", deflated(&[&*text, &vec![0; 3 << 20], &text, &vec![1; 200_000], &text].concat())),
        ("zeros, 4 MB", deflated(&vec![0; 4 << 20])),
        ("stored blocks", blocks),
        ("nothing", Vec::new()),
        ("an empty block", vec![3, 0]),
        ("500 empty blocks", [[0, 0, 0, 0xFF, 0xFF].repeat(500), vec![3, 0]].concat()),
        ("a block of type 3", vec![7, 0, 0]),
        ("lengths that differ", vec![1, 4, 0, 0, 0, 1, 2, 3, 4]),
        ("truncated in a stored block", stored(1, &[7; 100])[..50].to_vec()),
        ("truncated in the codes", good[..20].to_vec()),
        ("truncated in the data", good[..good.len() - 9].to_vec()),
        ("without an end", stored(0, b"abc")),
        ("something behind the end", [&*good, b"more"].concat()),
        // A fixed block whose first symbol is a match of 3 bytes from 1 byte before.
        ("a match before the beginning", vec![0x03, 0x02, 0x00]),
        ("all ones", vec![0xFF; 64]),
    ]
}

/// Each target has a view of all files, so a small wheel could cause any number of views.
#[test]
fn too_many_targets_are_refused() {
    let targets: Vec<String> = (0..4000).map(|number| format!("hip-amdgcn-amd-amdhsa--gfx{number}")).collect();
    let bundle = plain(&targets.iter().map(|id| (id.as_str(), &b""[..])).collect::<Vec<_>>());
    let library = fat_with(&[bundle]).bytes;
    let mut members = vec![packed("x/lib.so", &library)];
    members.extend((0..2500).map(|number| Member::stored(&format!("x/{number}"), b"")));
    let directory = directory();
    let path = wheel(&directory, &zipped(&members));
    let resources = resources();
    let input = Input::open(&path, &resources).unwrap();
    let plan = |options: &PlanOptions| Plan::make(&input, options, &BundleJobs::new(&resources), &Progress::default());
    let error = plan(&PlanOptions::default()).unwrap_err().to_string();
    assert!(error.contains("4000 targets") && error.contains("--gpu-targets"), "{error}");
    let targets = Targets { wanted: Some(vec!["gfx7".parse().unwrap()]), ..Targets::default() };
    let some = PlanOptions { targets, ..PlanOptions::default() };
    assert!((1..9).contains(&plan(&some).unwrap().keys.len()));
}

/// A member that is known to be damaged goes into no wheel, and a wheel that cannot be completed leaves no file.
#[test]
fn a_damaged_library_is_not_copied_into_the_host_wheel() {
    let target = "hip-amdgcn-amd-amdhsa--gfx942";
    let library = fat_with(&[plain(&[(target, b"code")])]).bytes;
    let noise: Vec<u8> = (0..200_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut damaged = packed("x/bad.so", &[&library[..], &noise].concat());
    let middle = damaged.packed.len() / 2;
    damaged.packed[middle..middle + 64].fill(0xFF);
    let record = format!("x/bad.so,sha256={},{}\n", "A".repeat(43), damaged.size);
    let members = [packed("x/lib.so", &library), damaged, packed("x-1.dist-info/RECORD", record.as_bytes())];
    let directory = directory();
    let path = directory.path().join("x-1-py3-none-any.whl");
    std::fs::write(&path, zipped(&members)).unwrap();
    for format in ["wheel", "directory"] {
        let output = directory.path().join(format);
        let done = std::process::Command::new(env!("CARGO_BIN_EXE_kpackfs"))
            .args(["split", "--no-cache", "--format", format, "--output"])
            .args([&output, &path])
            .output()
            .unwrap();
        let message = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(1), "{message}");
        assert!(message.lines().last().unwrap().contains("x/bad.so"), "{message}");
        let mut find = std::process::Command::new("find");
        let find = find.arg(&output).args(["-name", "*.partial", "-o", "-name", "bad.so", "-o", "-name", "x-1-*.whl"]);
        let found = find.output().unwrap();
        assert_eq!(String::from_utf8(found.stdout).unwrap(), "");
    }
}
