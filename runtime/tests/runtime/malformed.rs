//! Every kind of malformed archive has an error code, and no memory is allocated for bytes that the file does not have.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use proptest::prelude::*;
use rocm_kpack::ErrorCode::{self, *};
use rocm_kpack::ffi::{kpack_close, kpack_free_kernel, kpack_get_kernel, kpack_open};
use rocm_kpack::{Archive, Scheme, Source};
use serde_json::{Value, json};

use crate::allocations::largest_allocation;
use crate::archives::{archive, around};
use crate::body;

const CODE: &[u8] = b"a code object, a code object, a code object";

fn plain() -> Value {
    json!({
        "format_version": 1, "group_name": "g", "gfx_arch_family": "gfx90a", "gfx_arches": ["gfx90a"],
        "compression_scheme": "none", "blobs": [{"offset": 64, "size": CODE.len()}],
        "toc": {"x#0": {"gfx90a": {"type": "hsaco", "ordinal": 0, "original_size": CODE.len()}}},
    })
}

/// An archive with this table of contents.
pub(crate) fn with_toc(stored: &[u8], toc: &Value) -> Vec<u8> {
    around(stored, &rmp_serde::to_vec_named(toc).unwrap())
}

/// An uncompressed archive in which the value at a JSON pointer is replaced or removed.
fn with(pointer: &str, value: impl Into<Option<Value>>) -> Vec<u8> {
    with_toc(CODE, &changed(plain(), pointer, value.into()))
}

fn changed(mut toc: Value, pointer: &str, value: Option<Value>) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = toc.pointer_mut(parent).unwrap();
    match (value, parent) {
        (Some(value), Value::Array(list)) => list[name.parse::<usize>().unwrap()] = value,
        (Some(value), parent) => parent[name] = value,
        (None, parent) => drop(parent.as_object_mut().unwrap().remove(name).unwrap()),
    }
    toc
}

/// A compressed archive with these bytes in place of count, lengths and frames, and with one value changed.
fn packed(stored: &[u8], pointer: &str, value: impl Into<Option<Value>>) -> Vec<u8> {
    let mut toc = plain();
    toc["compression_scheme"] = json!("zstd-per-kernel");
    toc["zstd_offset"] = json!(64);
    toc["zstd_size"] = json!(stored.len());
    with_toc(stored, &changed(toc, pointer, value.into()))
}

fn framed(frame: &[u8]) -> Vec<u8> {
    let length = u32::try_from(frame.len()).unwrap();
    [&1_u32.to_le_bytes()[..], &length.to_le_bytes(), frame].concat()
}

fn frame() -> Vec<u8> {
    zstd::bulk::compress(CODE, 3).unwrap()
}

/// A frame of zeros that declares its size, or does not.
fn zeros(size: usize, tells: bool) -> Vec<u8> {
    let mut compressor = zstd::bulk::Compressor::new(3).unwrap();
    compressor.set_parameter(zstd::zstd_safe::CParameter::ContentSizeFlag(tells)).unwrap();
    compressor.compress(&vec![0; size]).unwrap()
}

fn patched(at: usize, value: &[u8]) -> Vec<u8> {
    let mut bytes = with_toc(CODE, &plain());
    bytes[at..at + value.len()].copy_from_slice(value);
    bytes
}

/// Kind, bytes, the code from opening, and the code from loading.
type Kind = (&'static str, Vec<u8>, ErrorCode, ErrorCode);

fn kinds() -> Vec<Kind> {
    [headers(), tables(), compressed()].concat()
}

/// Archives with a wrong header or offset of the table of contents.
fn headers() -> Vec<Kind> {
    let good = with_toc(CODE, &plain());
    vec![
        ("empty", Vec::new(), IoError, Success),
        ("truncated in the header", good[..10].to_vec(), InvalidFormat, Success),
        ("a header only", good[..64].to_vec(), InvalidFormat, Success),
        ("wrong magic", patched(0, b"KPAX"), InvalidFormat, Success),
        ("version 0", patched(4, &[0]), UnsupportedVersion, Success),
        ("version 2", patched(4, &[2]), UnsupportedVersion, Success),
        ("table at the end", patched(8, &(good.len() as u64).to_le_bytes()), InvalidFormat, Success),
        ("table past the end", patched(8, &u64::MAX.to_le_bytes()), InvalidFormat, Success),
        ("table in the header", patched(8, &8_u64.to_le_bytes()), InvalidFormat, Success),
        ("table in the padding", patched(8, &16_u64.to_le_bytes()), MsgpackParseFailed, Success),
        ("table in the code", patched(8, &64_u64.to_le_bytes()), MsgpackParseFailed, Success),
        ("table truncated", good[..good.len() - 5].to_vec(), MsgpackParseFailed, Success),
        ("table of an unknown type", around(CODE, &[0xC1]), MsgpackParseFailed, Success),
        ("table is a list", around(CODE, &[0x91, 0xC0]), MsgpackParseFailed, Success),
        ("table of 4 G pairs", around(CODE, &[0xDF, 0xFF, 0xFF, 0xFF, 0xFF]), MsgpackParseFailed, Success),
        ("name of 4 GB", around(CODE, &[0x81, 0xDB, 0xFF, 0xFF, 0xFF, 0xFF]), MsgpackParseFailed, Success),
        ("depth", around(CODE, &[b"\x81\xA1a".as_slice(), &[0x91; 3000], &[0xC0]].concat()), Success, KernelNotFound),
        (
            "endless depth",
            around(CODE, &[b"\x81\xA1a".as_slice(), &[0x91; 3000]].concat()),
            MsgpackParseFailed,
            Success,
        ),
    ]
}

/// Archives with a wrong table of contents, or wrong uncompressed code objects.
fn tables() -> Vec<Kind> {
    let entry = "/toc/x#0/gfx90a";
    let field = |name: &str| format!("{entry}/{name}");
    let ordinal = |value: Value| with(&field("ordinal"), value);
    let size = |value: Value| with(&field("original_size"), value);
    let mut not_utf8 = with_toc(CODE, &plain());
    let name = not_utf8.windows(3).rposition(|bytes| bytes == b"x#0").unwrap();
    not_utf8[name] = 0xFF;
    vec![
        ("no targets", with("/gfx_arches", None), Success, Success),
        ("targets are a number", with("/gfx_arches", json!(7)), MsgpackParseFailed, Success),
        ("a target is a number", with("/gfx_arches", json!([7])), MsgpackParseFailed, Success),
        ("too many targets", with("/gfx_arches", json!(vec![""; 5000])), MsgpackParseFailed, Success),
        ("a target has a NUL", with("/gfx_arches", json!(["gfx\0"])), InvalidFormat, Success),
        ("unknown scheme", with("/compression_scheme", json!("lz4")), InvalidFormat, Success),
        ("scheme is a number", with("/compression_scheme", json!(0)), MsgpackParseFailed, Success),
        ("no scheme", with("/compression_scheme", None), Success, Success),
        ("no names", with("/toc", None), Success, KernelNotFound),
        ("names are a list", with("/toc", json!(["x#0"])), MsgpackParseFailed, Success),
        ("a name is not UTF-8", not_utf8, MsgpackParseFailed, Success),
        ("targets of a name are a text", with("/toc/x#0", json!("gfx90a")), Success, MsgpackParseFailed),
        ("entry is a number", with(entry, json!(7)), Success, MsgpackParseFailed),
        ("ordinal is a text", ordinal(json!("0")), MsgpackParseFailed, Success),
        ("ordinal is negative", ordinal(json!(-1)), MsgpackParseFailed, Success),
        ("ordinal is a fraction", ordinal(json!(0.5)), MsgpackParseFailed, Success),
        ("ordinal is too large", ordinal(json!(1)), Success, InvalidFormat),
        ("ordinal is huge", ordinal(json!(u64::MAX)), Success, InvalidFormat),
        ("no ordinal", with(&field("ordinal"), None), Success, MsgpackParseFailed),
        ("no original size", with(&field("original_size"), None), Success, MsgpackParseFailed),
        ("original size is a text", size(json!("43")), MsgpackParseFailed, Success),
        ("original size is negative", size(json!(-43)), MsgpackParseFailed, Success),
        ("original size is huge", size(json!(u64::MAX)), Success, InvalidFormat),
        ("original size is 1 TB", size(json!(1_u64 << 40)), Success, InvalidFormat),
        ("original size is another", size(json!(1)), Success, DecompressionFailed),
        ("no blobs", with("/blobs", None), Success, InvalidFormat),
        ("blobs are a number", with("/blobs", json!(1)), Success, MsgpackParseFailed),
        ("a blob is a number", with("/blobs/0", json!(1)), Success, MsgpackParseFailed),
        ("a blob has no size", with("/blobs/0/size", None), Success, InvalidFormat),
        ("a blob has no offset", with("/blobs/0/offset", None), Success, InvalidFormat),
        ("size of a blob is a text", with("/blobs/0/size", json!("43")), MsgpackParseFailed, Success),
        ("offset of a blob is a text", with("/blobs/0/offset", json!("64")), MsgpackParseFailed, Success),
        ("offset of a blob is negative", with("/blobs/0/offset", json!(-1)), MsgpackParseFailed, Success),
        ("size of a blob is huge", with("/blobs/0/size", json!(1_u64 << 62)), Success, InvalidFormat),
        ("a blob ends past all numbers", with("/blobs/0/size", json!(u64::MAX)), Success, InvalidFormat),
        ("a blob is past the end", with("/blobs/0/offset", json!(1 << 30)), Success, InvalidFormat),
        ("a blob is in the table", with("/blobs/0/offset", json!(65)), Success, InvalidFormat),
    ]
}

/// Archives with wrong compressed code objects.
fn compressed() -> Vec<Kind> {
    let original_size = "/toc/x#0/gfx90a/original_size";
    let (head, tail) = ("/zstd_size", Some(json!(framed(&frame()).len())));
    let mut lying = frame();
    // The content size is the byte after the magic and the descriptor.
    lying[5] += 1;
    let mut claims_gigabyte = zstd::bulk::compress(&vec![0; 1 << 20], 3).unwrap();
    let claim = claims_gigabyte.windows(4).position(|bytes| bytes == (1_u32 << 20).to_le_bytes()).unwrap();
    claims_gigabyte[claim..claim + 4].copy_from_slice(&(1_u32 << 30).to_le_bytes());
    vec![
        ("no place of frames", packed(&framed(&frame()), "/zstd_offset", None), Success, InvalidFormat),
        ("no size of frames", packed(&framed(&frame()), "/zstd_size", None), Success, InvalidFormat),
        ("frames past the end", packed(&framed(&frame()), "/zstd_offset", json!(1_u64 << 40)), Success, InvalidFormat),
        ("size of frames is huge", packed(&framed(&frame()), "/zstd_size", json!(u64::MAX)), Success, InvalidFormat),
        (
            "place of frames is a text",
            packed(&framed(&frame()), "/zstd_offset", json!("64")),
            MsgpackParseFailed,
            Success,
        ),
        ("size of frames is a text", packed(&framed(&frame()), "/zstd_size", json!("64")), MsgpackParseFailed, Success),
        ("no room for a count", packed(&framed(&frame()), "/zstd_size", json!(3)), Success, InvalidFormat),
        ("4 G frames", packed(&[0xFF; 4], "/zstd_size", json!(4)), Success, InvalidFormat),
        (
            "a frame of 4 GB",
            packed(&[1, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0], "/zstd_size", json!(9)),
            Success,
            InvalidFormat,
        ),
        ("an empty frame", packed(&framed(&[]), "/zstd_size", json!(8)), Success, DecompressionFailed),
        ("no frame", packed(&framed(CODE), head, json!(CODE.len() + 8)), Success, DecompressionFailed),
        ("half a frame", packed(&framed(&frame()[..9]), head, json!(17)), Success, DecompressionFailed),
        ("a frame claims another size", packed(&framed(&lying), head, tail), Success, DecompressionFailed),
        (
            "a bomb that tells",
            packed(&framed(&claims_gigabyte), original_size, json!(1 << 30)),
            Success,
            DecompressionFailed,
        ),
        (
            "a bomb that does not tell",
            packed(&framed(&zeros(1 << 20, false)), original_size, json!(1 << 30)),
            Success,
            DecompressionFailed,
        ),
        (
            "a frame becomes more than promised",
            packed(&framed(&zeros(1 << 20, false)), original_size, json!(100)),
            Success,
            DecompressionFailed,
        ),
        (
            "a frame becomes less than promised",
            packed(&framed(&zeros(1 << 10, false)), original_size, json!(1 << 12)),
            Success,
            DecompressionFailed,
        ),
    ]
}

/// The codes from opening an archive in a file and from loading `x#0` for gfx90a.
#[expect(unsafe_code, reason = "calls the C interface")]
fn answers(path: &Path) -> (ErrorCode, ErrorCode) {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    let (mut handle, mut code, mut size) = (null_mut(), null_mut(), 0);
    // SAFETY: strings, and places for results.
    unsafe {
        let opened = kpack_open(path.as_ptr(), &raw mut handle);
        if opened != Success {
            return (opened, Success);
        }
        let loaded = kpack_get_kernel(handle, c"x#0".as_ptr(), c"gfx90a".as_ptr(), &raw mut code, &raw mut size);
        assert_eq!(loaded == Success, !code.is_null());
        kpack_free_kernel(code);
        kpack_close(handle);
        (opened, loaded)
    }
}

#[test]
fn every_kind_has_an_error_code() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("archive.kpack");
    let kinds = kinds();
    for (kind, bytes, opening, loading) in &kinds {
        fs::write(&path, bytes).unwrap();
        assert_eq!(answers(&path), (*opening, *loading), "{kind}");
        body::run(bytes);
    }
    assert!(kinds.iter().filter(|kind| (kind.2, kind.3) != (Success, Success)).count() >= 27);
    assert!(largest_allocation() < 4 << 20, "{} bytes at once", largest_allocation());
}

/// Bytes before the table of contents, the table, and bytes after it. `toc` gets its offset.
fn placed(before: &[u8], toc: &Value, behind: &[u8]) -> Vec<u8> {
    let header = [&b"KPAK\x01\0\0\0"[..], &(16 + before.len() as u64).to_le_bytes()].concat();
    [&header, before, &rmp_serde::to_vec_named(toc).unwrap(), behind].concat()
}

/// rocm-kpack's library accepts a table of contents at any offset from 16 on, and its own tests use that.
#[test]
fn a_header_has_sixteen_bytes_at_least() {
    let blob = |offset: usize| changed(plain(), "/blobs/0/offset", Some(json!(offset)));
    // A number below 256 takes two bytes, one below 65536 three.
    let length_of = |toc: &dyn Fn(usize) -> Value| {
        let guess = rmp_serde::to_vec_named(&toc(200)).unwrap().len();
        rmp_serde::to_vec_named(&toc(16 + guess)).unwrap().len()
    };
    let length = length_of(&blob);
    let frames = framed(&frame());
    let packed = |offset: usize| {
        let mut toc = plain();
        toc["compression_scheme"] = json!("zstd-per-kernel");
        (toc["zstd_offset"], toc["zstd_size"]) = (json!(offset), json!(frames.len()));
        toc
    };
    let packed_length = length_of(&packed);
    for (kind, bytes) in [
        ("code at once", placed(CODE, &blob(16), b"")),
        ("table at once, code behind it", placed(b"", &blob(16 + length), CODE)),
        ("an odd offset", placed(&[b"?", CODE].concat(), &blob(17), b"")),
        ("frames at once", placed(&frames, &packed(16), b"")),
        ("frames behind the table", placed(b"", &packed(16 + packed_length), &frames)),
    ] {
        let archive = Archive::open(bytes.as_slice()).unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(archive.get("x#0", "gfx90a").unwrap().unwrap(), CODE, "{kind}");
        body::run(&bytes);
    }
    for (kind, bytes, expected) in [
        ("nothing behind the header", placed(b"", &blob(16), b"")[..16].to_vec(), InvalidFormat),
        ("half a header", b"KPAK\x01\0\0\0".to_vec(), InvalidFormat),
        ("a blob that begins in the table", placed(b"", &blob(15 + length), CODE), InvalidFormat),
        ("a blob past the end", placed(b"", &blob(17 + length), CODE), InvalidFormat),
        ("frames that begin in the table", placed(b"", &packed(15 + packed_length), &frames), InvalidFormat),
    ] {
        let got = Archive::open(bytes.as_slice()).and_then(|archive| archive.get("x#0", "gfx90a"));
        assert_eq!(got.unwrap_err().code(), expected, "{kind}");
        body::run(&bytes);
    }
}

/// zstd decompresses consecutive frames to their concatenation, and skippable frames to nothing (RFC 8878, 3).
#[test]
fn a_code_object_may_have_several_frames() {
    let part = |range: std::ops::Range<usize>| zstd::bulk::compress(&CODE[range], 3).unwrap();
    let (one, other) = (part(0..20), part(20..CODE.len()));
    let skippable = [&0x184D_2A53_u32.to_le_bytes()[..], &5_u32.to_le_bytes(), b"skip!"].concat();
    let silent = {
        let mut compressor = zstd::bulk::Compressor::new(3).unwrap();
        compressor.set_parameter(zstd::zstd_safe::CParameter::ContentSizeFlag(false)).unwrap();
        compressor.compress(&CODE[20..]).unwrap()
    };
    let with = |frames: &[&[u8]]| {
        let frames = framed(&frames.concat());
        packed(&frames, "/zstd_size", json!(frames.len()))
    };
    for (kind, bytes) in [
        ("two frames", with(&[&one, &other])),
        ("a skippable frame before it", with(&[&skippable, &frame()])),
        ("one behind it", with(&[&frame(), &skippable])),
        ("one between two", with(&[&one, &skippable, &other])),
        ("the second does not tell its size", with(&[&one, &silent])),
    ] {
        let archive = Archive::open(bytes.as_slice()).unwrap();
        assert_eq!(archive.get("x#0", "gfx90a").unwrap().unwrap(), CODE, "{kind}");
        body::run(&bytes);
    }
    for (kind, bytes) in [
        ("the second is missing", with(&[&one])),
        ("the second is not whole", with(&[&one, &other[..other.len() - 1]])),
        ("something that is no frame behind it", with(&[&frame(), b"no frame"])),
        ("one too many", with(&[&frame(), &one])),
        ("only a skippable frame", with(&[&skippable])),
    ] {
        let archive = Archive::open(bytes.as_slice()).unwrap();
        assert_eq!(archive.get("x#0", "gfx90a").unwrap_err().code(), DecompressionFailed, "{kind}");
        body::run(&bytes);
    }
}

/// If a table of contents has equal names, the last one counts, and names stay sorted.
#[test]
fn of_equal_names_the_last_counts() {
    let entry =
        |ordinal: u8| [b"\x81\xA6gfx90a\x82\xA7ordinal".as_slice(), &[ordinal], b"\xADoriginal_size\x01"].concat();
    let pair = |name: &str, ordinal: u8| [&[0xA3], name.as_bytes(), &entry(ordinal)].concat();
    let names = [pair("z#0", 0), pair("a#0", 0), pair("z#0", 1)].concat();
    let blobs = b"\xA5blobs\x92\x82\xA6offset\x40\xA4size\x01\x82\xA6offset\x41\xA4size\x01";
    let toc = [b"\x82".as_slice(), blobs, b"\xA3toc\x83", &names].concat();
    let bytes = around(b"01", &toc);
    let archive = Archive::open(bytes.as_slice()).unwrap();
    assert_eq!(archive.names().unwrap().collect::<Vec<_>>(), ["a#0", "z#0"]);
    assert_eq!(archive.get("z#0", "gfx90a").unwrap().unwrap(), b"1");
    assert_eq!(archive.get("a#0", "gfx90a").unwrap().unwrap(), b"0");
    assert_eq!(archive.toc().unwrap().toc["z#0"]["gfx90a"].ordinal, 1);
    body::run(&bytes);
}

proptest! {
    /// Whatever bytes change, both interfaces return the same, and nothing panics.
    #[test]
    fn any_change_has_an_answer(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        compressed: bool,
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let scheme = if compressed { Scheme::ZstdPerKernel } else { Scheme::None };
        let codes: &[(&str, &str, &[u8])] = &[("x#0", "gfx90a", CODE), ("x#1", "gfx90a", b""), ("y#0", "gfx942", CODE)];
        let mut bytes = archive(scheme, &["gfx90a", "gfx942"], codes);
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] ^= value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        body::run(&bytes);
    }
}

/// Loads the seeds of the fuzz target, and the inputs that fuzzing found.
#[test]
fn what_fuzzing_found_is_mended() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/regressions/runtime_archive");
    let files: Vec<_> = fs::read_dir(directory).unwrap().map(|file| file.unwrap().path()).collect();
    assert!(files.len() > 60, "{}", files.len());
    for file in files {
        println!("{}", file.display());
        body::run(&fs::read(file).unwrap());
    }
}

/// Writes the table above as files, to fuzz from: `cargo test -p rocm-kpack -- --ignored the_kinds_are_written`.
#[test]
#[ignore = "writes to the source tree"]
fn the_kinds_are_written() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/regressions/runtime_archive");
    let codes: &[(&str, &str, &[u8])] =
        &[("lib/a.so#0", "gfx90a", CODE), ("lib/a.so#1", "gfx90a", b""), ("lib/b.so#0", "gfx90a:xnack+", b"\x7FELF")];
    let good = [Scheme::None, Scheme::ZstdPerKernel].map(|scheme| {
        let bytes = archive(scheme, &["gfx90a", "gfx90a:xnack+"], codes);
        (scheme.name(), bytes)
    });
    let kinds = kinds().into_iter().map(|(kind, bytes, ..)| (kind, bytes));
    for (kind, bytes) in kinds.chain(good) {
        fs::write(directory.join(kind.replace(' ', "-")), bytes).unwrap();
    }
}

/// Code objects may follow the table of contents, whose length is stated nowhere.
#[test]
fn what_follows_the_table_of_contents_is_not_read() {
    struct Endless(Vec<u8>, AtomicU64);
    impl Source for &Endless {
        fn size(&self) -> u64 {
            1 << 42
        }
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
            self.1.fetch_add(buffer.len() as u64, Relaxed);
            let rest = self.0.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
            let (known, unknown) = buffer.split_at_mut(rest.len().min(buffer.len()));
            known.copy_from_slice(&rest[..known.len()]);
            unknown.fill(0);
            Ok(())
        }
    }
    let good = Endless(with_toc(CODE, &plain()), AtomicU64::new(0));
    assert_eq!(Archive::open(&good).unwrap().targets(), ["gfx90a"]);
    let none = Endless(around(CODE, &[]), AtomicU64::new(0));
    assert!(Archive::open(&none).is_err());
    // A table that is longer than the first read.
    let mut toc = plain();
    for number in 0..50_000 {
        toc["toc"][format!("x#{number}")] = toc["toc"]["x#0"].clone();
    }
    let long = Endless(with_toc(CODE, &toc), AtomicU64::new(0));
    assert_eq!(Archive::open(&long).unwrap().name_count(), 50_000);
    let read = [&good, &none, &long].map(|source| source.1.load(Relaxed));
    assert!(read[0] < 2 << 20 && read[1] < 2 << 20 && read[2] < 16 << 20, "{read:?}");
}
