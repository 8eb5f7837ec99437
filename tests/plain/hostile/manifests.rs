//! Tar archives, segments of frames, manifests and inputs of `kpack create`, malformed in every way.

use kpackfs::artifact::{Kpm, KpmEntry};
use kpackfs::split::Statement;

use crate::common::gzip;
use crate::hostile::Kind;
use crate::hostile::plain_bundle::plain;

/// A member of a tar archive: name, type, and content. The header can be changed before its checksum.
fn member(name: &str, kind: u8, content: &[u8], change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut header = [0; 512];
    header[..name.len()].copy_from_slice(name.as_bytes());
    header[100..107].copy_from_slice(b"0000644");
    header[124..135].copy_from_slice(format!("{:011o}", content.len()).as_bytes());
    header[136..147].copy_from_slice(b"00000000001");
    header[156] = kind;
    header[257..265].copy_from_slice(b"ustar\x0000");
    change(&mut header);
    header[148..156].fill(b' ');
    let sum: u32 = header.iter().map(|&byte| u32::from(byte)).sum();
    header[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    let mut member = [&header[..], content].concat();
    member.resize(member.len().next_multiple_of(512), 0);
    member
}

fn plainly(name: &str, kind: u8, content: &[u8]) -> Vec<u8> {
    member(name, kind, content, |_| ())
}

fn link(name: &str, kind: u8, target: &str) -> Vec<u8> {
    member(name, kind, b"", |header| header[157..157 + target.len()].copy_from_slice(target.as_bytes()))
}

/// Images: the first byte says what the others are (`fuzz/bodies/image.rs`).
pub(crate) fn images() -> Vec<Kind> {
    let layer = |members: &[Vec<u8>]| {
        let mut layer = [&members.concat()[..], &[0; 1024]].concat();
        layer.resize(4096, 0);
        layer
    };
    let lower = layer(&[plainly("a/x", b'0', b"1"), link("l", b'2', "/a")]);
    let image = |members: &[Vec<u8>]| [&[3], &*lower, &layer(members)].concat();
    vec![
        ("good", image(&[plainly("a/.wh.x", b'0', b""), plainly("b/z", b'0', b"3"), link("c", b'1', "b/z")])),
        ("a hard link to a later file", image(&[link("c", b'1', "b/z"), plainly("b/z", b'0', b"3")])),
        ("a file through a symlink", image(&[plainly("l/passwd", b'0', b"")])),
        ("a whiteout without a name", image(&[plainly("a/.wh.", b'0', b"")])),
        ("an index and a manifest", b"\0{\"schemaVersion\":2,\"manifests\":[],\"layers\":[]}".to_vec()),
        ("diff_ids that are numbers", b"\x02{\"rootfs\":{\"diff_ids\":[1,2]}}".to_vec()),
    ]
}

pub(crate) fn tars() -> Vec<Kind> {
    let end = [0; 1024];
    let ended = |members: &[Vec<u8>]| [&members.concat()[..], &end].concat();
    let file = plainly("a/b", b'0', b"content");
    let good = ended(&[plainly("a/", b'5', b""), file.clone(), link("a/c", b'1', "a/b"), link("a/d", b'2', "b")]);
    let zstd = zstd::bulk::compress(&good, 3).unwrap();
    let long = plainly("././@LongLink", b'L', &[&[b'n'; 200][..], b"/x\0"].concat());
    vec![
        ("good", good.clone()),
        ("no end", file.clone()),
        ("half a member", file[..700].to_vec()),
        ("a wrong checksum", [&file[..150], b"9", &file[151..], &end].concat()),
        ("a size of 8 GB", ended(&[member("a", b'0', b"", |header| header[124..135].fill(b'7'))])),
        ("a size of 2^63", ended(&[member("a", b'0', b"", |header| header[124..136].copy_from_slice(&[255; 12]))])),
        ("a name that leaves the tree", ended(&[plainly("../x", b'0', b"")])),
        ("an absolute name", ended(&[plainly("/etc/x", b'0', b"")])),
        ("a file in a file", ended(&[plainly("a", b'0', b""), plainly("a/b", b'0', b"")])),
        ("a directory that is a file before", ended(&[plainly("a", b'0', b""), plainly("a/", b'5', b"")])),
        ("a hard link to nothing", ended(&[link("a", b'1', "b")])),
        ("a hard link to itself", ended(&[link("a", b'1', "a")])),
        ("a symlink to nothing", ended(&[link("a", b'2', "")])),
        ("a device", ended(&[plainly("a", b'3', b"")])),
        ("a long name", ended(&[long.clone(), file.clone()])),
        ("a long name of nothing", ended(&[long])),
        ("a pax record of 2^64 bytes", ended(&[plainly("x", b'x', b"18446744073709551615 path=x\n"), file.clone()])),
        ("a pax time", ended(&[plainly("x", b'x', b"20 mtime=1.9999999\n\n"), file.clone()])),
        ("sparse", ended(&[plainly("a", b'S', b"")])),
        ("gzip", gzip(&good)),
        ("gzip, truncated", gzip(&good)[..60].to_vec()),
        ("gzip, two members", [gzip(&good), gzip(&good)].concat()),
        ("gzip, many flags", [&[0x1f, 0x8b, 8, 0x1f], &[0; 40][..]].concat()),
        ("zstd", zstd.clone()),
        ("zstd, truncated", zstd[..zstd.len() - 3].to_vec()),
        ("zstd, a window of 2 GB", [&[0x28, 0xB5, 0x2F, 0xFD, 0x00, 0xA8, 1, 0, 0][..], &[0; 40]].concat()),
        ("xz, a header only", b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46".to_vec()),
    ]
}

/// A record of a segment: the fields after the checksum, and what follows.
fn record(length: u64, start: u64, span: u64, rest: &[u8]) -> Vec<u8> {
    let mut fields = vec![7; 16];
    fields.extend([length, start, span].into_iter().flat_map(u64::to_le_bytes));
    [b"KPFR", &crc32fast::hash(&fields).to_le_bytes()[..], &fields, rest].concat()
}

pub(crate) fn segments() -> Vec<Kind> {
    let frame = |content: &[u8], sum: u32| [&sum.to_le_bytes()[..], content].concat();
    let good = record(5, 52, 57, &frame(b"frame", crc32fast::hash(b"frame")));
    vec![
        ("good", good.clone()),
        ("twice", [good.clone(), good.clone()].concat()),
        ("torn", [&good[..], &good[..30]].concat()),
        ("a wrong checksum", record(5, 52, 57, &frame(b"frame", 0))),
        ("a frame past the end", record(500, 52, 600, &frame(b"frame", 0))),
        ("a frame of 2^64 bytes", record(u64::MAX, 52, u64::MAX, b"")),
        ("a frame in its header", record(5, 3, 57, b"")),
        ("no progress", record(0, 48, 0, b"")),
        ("a span of 2^64", [record(0, 48, u64::MAX, b""), good].concat()),
    ]
}

pub(crate) fn artifact_manifests() -> Vec<Kind> {
    vec![
        ("good", b"math-libs/BLAS/rocBLAS/stage\nkpack/stage\n".to_vec()),
        ("slashes and dots", b"./a//b/./\n.\n\n a \r\na\n".to_vec()),
        ("a prefix that leaves", b"a/../../b\n".to_vec()),
        ("an absolute prefix", b"/a\n".to_vec()),
        ("NUL", b"a\0b\n".to_vec()),
        ("a long line", vec![b'a'; 5000]),
        ("many lines", (0..4000).flat_map(|number| format!("{number:x}\n").into_bytes()).collect()),
    ]
}

pub(crate) fn kpms() -> Vec<Kind> {
    let mut good = Kpm::new("x_lib", "stage");
    let entry = KpmEntry { file: "x_lib_gfx942.kpack".to_owned(), size: 1 << 40, kernel_count: 3 };
    good.kpack_files.insert("gfx942".to_owned(), entry);
    let good = good.to_bytes();
    vec![
        ("truncated", good[..good.len() - 2].to_vec()),
        ("something behind", [&good[..], b"\xc1"].concat()),
        ("good", good),
        ("a map of 4 G pairs", vec![0xDF, 0xFF, 0xFF, 0xFF, 0xFF]),
        ("an array in place of a map", b"\x94\x01\xa1x\xa1y\x80".to_vec()),
        ("lists in lists", vec![0x91; 3000]),
        ("a text of 4 GB", b"\x84\xaeformat_version\x01\xaecomponent_name\xdb\xff\xff\xff\xff".to_vec()),
    ]
}

pub(crate) fn statements() -> Vec<Kind> {
    vec![
        ("good", Statement { parts: vec!["host".to_owned()], ..Statement::default() }.to_json().into_bytes()),
        ("version 1", br#"{"json_version": 1}"#.to_vec()),
        ("version 99", br#"{"json_version": 99}"#.to_vec()),
        ("a part that leaves", br#"{"json_version": 1, "parts": ["../x"]}"#.to_vec()),
        ("no targets", br#"{"json_version": 1, "gpu_targets": ["../x", ""]}"#.to_vec()),
        ("numbers for texts", br#"{"json_version": 1, "parts": [1, 2]}"#.to_vec()),
        ("depth", vec![b'['; 3000]),
        ("truncated", br#"{"json_version": 1, "par"#.to_vec()),
    ]
}

pub(crate) fn collections() -> Vec<Kind> {
    let stated = |gpus: &str| format!(r#"{{"json_version": 1, "gpu_targets": [{gpus}], "form": "thin"}}"#).into_bytes();
    vec![
        ("good", stated(r#""gfx1100", "gfx90a:xnack-""#)),
        ("many GPUs", stated(&format!(r#"{}"gfx942""#, r#""","#.repeat(5000)))),
        ("a GPU that leaves", stated(r#""../x""#)),
        ("no GPU", stated("")),
        ("numbers for texts", stated("1, 2")),
        ("depth", stated(&"[".repeat(3000))),
        ("truncated", br#"{"gpu_targets": ["gf"#.to_vec()),
    ]
}

pub(crate) fn part_manifests() -> Vec<Kind> {
    let head = r#"{"json_version": 1, "split_id": "x", "part": "host", "digest": "xxh3-128", "files": "#;
    let file = |digest: &str| format!(r#"{{"path": "x", "size": 1, "digest": "{digest}"}}"#);
    let sum = "0".repeat(32);
    let with = |files: &str| format!("{head}[{files}]}}").into_bytes();
    let good = with(&format!(
        r#"{{"path": "x.kpack", "size": 1, "digest": "{sum}", "entries": [["x.so#0", "gfx942", 1, "{sum}"]]}}"#
    ));
    let parts = format!(r#""parts": [{}"host"], "files""#, r#""host","#.repeat(2000));
    vec![
        ("a version of the future", String::from_utf8(with("")).unwrap().replacen('1', "9", 1).into_bytes()),
        ("a digest of another size", with(&file("00"))),
        ("a digest that is no hexadecimal", with(&file(&"g".repeat(32)))),
        ("a path twice", with(&[file(&sum), file(&sum)].join(","))),
        ("numbers for texts", with("1, 2")),
        ("many parts", String::from_utf8(with("")).unwrap().replace(r#""files""#, &parts).into_bytes()),
        ("truncated", good[..good.len() / 2].to_vec()),
        ("good", good),
    ]
}

pub(crate) fn packed() -> Vec<Kind> {
    let code = |machine: u8, version: u8| {
        let mut code = vec![0; 64];
        code[..9].copy_from_slice(b"\x7fELF\x02\x01\x01\x40\x02");
        (code[8], code[16], code[18], code[48]) = (version, 3, 224, machine);
        code
    };
    vec![
        ("empty", Vec::new()),
        ("for gfx90a", code(0x3f, 2)),
        ("for a generic processor", code(0x51, 4)),
        ("for an unknown processor", code(0xff, 2)),
        ("of another version", code(0x3f, 77)),
        ("half a header", code(0x3f, 2)[..50].to_vec()),
        ("a bundle", plain(&[("hip-amdgcn-amd-amdhsa--gfx90a", &code(0x3f, 2))])),
        ("zeros", vec![0; 9000]),
    ]
}
