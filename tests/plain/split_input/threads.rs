//! Archives that cost more than they show: frames with windows that fill the memory, and entries that share a frame. Many threads
//! do no more work than one.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use kpackfs::join::join;
use kpackfs::kpack::{BundleJobs, Toc, TocEntry};
use kpackfs::metrics::Progress;
use kpackfs::resources::Resources;
use kpackfs::source::{EntryPath, Input};
use kpackfs::split::Plan;
use kpackfs::{export, view};
use tempfile::TempDir;

use super::{FIXTURES, Opened, options, write};

/// Bytes of a code object.
const CODE: usize = 4 << 20;
/// Room for one decoder with a window of 128 KiB, or for less than one code object.
const MEMORY: u64 = 2 << 20;
/// Binaries, each with an archive of its own.
const BINARIES: usize = 8;

/// Code for gfx90a that repeats itself.
fn code() -> Vec<u8> {
    let mut code = b"\x7fELF\x02\x01\x01\x40\x03".to_vec();
    code.resize(CODE, 0);
    code[16..20].copy_from_slice(&[3, 0, 224, 0]);
    // `e_flags`: gfx90a, with any setting of xnack and sramecc.
    code[48..52].copy_from_slice(&0x53f_u32.to_le_bytes());
    code
}

/// A frame with a window of this logarithm.
fn frame(window_log: u32) -> Vec<u8> {
    let mut encoder = zstd::stream::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(window_log).unwrap();
    encoder.set_pledged_src_size(Some(CODE as u64)).unwrap();
    encoder.write_all(&code()).unwrap();
    encoder.finish().unwrap()
}

/// An archive with one frame, to which all of these names lead.
fn archive(frame: &[u8], names: impl Iterator<Item = String>) -> Vec<u8> {
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap().to_le_bytes();
    let body = [&1_u32.to_le_bytes()[..], &length(frame), frame].concat();
    let entry = TocEntry { kind: "hsaco".to_owned(), ordinal: 0, original_size: CODE as u64 };
    let toc = Toc {
        format_version: 1,
        group_name: "x".to_owned(),
        gfx_arch_family: "gfx90a".to_owned(),
        gfx_arches: vec!["gfx90a".to_owned()],
        compression_scheme: "zstd-per-kernel".to_owned(),
        zstd_offset: Some(rocm_kpack::HEADER_SIZE),
        zstd_size: Some(body.len() as u64),
        blobs: None,
        toc: names.map(|name| (name, BTreeMap::from([("gfx90a".to_owned(), entry.clone())]))).collect(),
    };
    [rocm_kpack::header(rocm_kpack::HEADER_SIZE + body.len() as u64), body, toc.encode()].concat()
}

/// An installation with this many split binaries, each of which asks for `lib/x.so#0` in its own archive.
fn installation(count: usize, archive: &[u8]) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    let at = |path: &str| place.path().join(path);
    fs::create_dir_all(at("fat/lib")).unwrap();
    fs::copy(Path::new(FIXTURES).join("small.so"), at("fat/lib/x.so")).unwrap();
    let fat = Opened::new(&at("fat"));
    write(&fat, &fat.plan(), &at("out"));
    let split = fs::read(at("out/host/lib/x.so")).unwrap();
    let marker = split.windows(7).position(|bytes| bytes == b"/rocm_@").unwrap();
    fs::create_dir_all(at("in/lib")).unwrap();
    fs::create_dir_all(at("in/.kpack")).unwrap();
    for number in 0..count {
        let stem = format!("r{number:03}");
        let mut binary = split.clone();
        binary[marker + 1..marker + 5].copy_from_slice(stem.as_bytes());
        fs::write(at(&format!("in/lib/x{number}.so")), binary).unwrap();
        fs::write(at(&format!("in/.kpack/{stem}_gfx90a.kpack")), archive).unwrap();
    }
    place
}

/// Writes the fat binaries on this many threads, and returns the bytes that are decompressed.
fn work_of(place: &TempDir, threads: usize) -> u64 {
    let resources = Resources::new(MEMORY);
    let mut input = Input::open(&place.path().join("in"), &resources).unwrap();
    let joined = join(&mut input, &resources, &Progress::default());
    assert_eq!(joined.binaries.len(), BINARIES, "{:?}", joined.warnings);
    let plan =
        Plan::of_joined(&input, &joined, &options(), &BundleJobs::new(&resources), &Progress::default()).unwrap();
    let tree = view::lay_out(&input, &plan, None, &[]).unwrap();
    let out = place.path().join(format!("fat-{threads}"));
    let before = resources.counters.bytes_decompressed.get();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    let views = [(EntryPath::new(b"fat").unwrap(), out.clone())];
    pool.install(|| export::write(&tree, &views, &Progress::default())).unwrap();
    let header = &code()[..64];
    for number in 0..BINARIES {
        let fat = fs::read(out.join(format!("lib/x{number}.so"))).unwrap();
        assert!(fat.windows(64).any(|bytes| bytes == header), "x{number}.so");
    }
    resources.counters.bytes_decompressed.get() - before
}

/// Threads with memory for one decoder took it from each other, and began again for each MiB.
#[test]
fn sixteen_threads_decompress_no_more_than_one() {
    // Decoded as a stream, and in memory.
    for window_log in [17, 22] {
        let place = installation(BINARIES, &archive(&frame(window_log), ["lib/x.so#0".to_owned()].into_iter()));
        let [one, many] = [1, 16].map(|threads| work_of(&place, threads));
        assert_eq!((one, many), ((BINARIES * CODE) as u64, (BINARIES * CODE) as u64), "window 2^{window_log}");
    }
}

#[test]
fn entries_that_share_a_frame_are_compressed_once_and_the_warning_counts_them() {
    const ENTRIES: usize = 200;
    let names = (0..ENTRIES).map(|number| format!("lib/x.so#{number}"));
    let archive = archive(&frame(17), names);
    let place = installation(1, &archive);
    let split = Opened::new(&place.path().join("in"));
    let size = ENTRIES * CODE;
    let expected = format!(".kpack/r000_gfx90a.kpack: its {ENTRIES} code objects claim to become {size} bytes out of ");
    assert!(split.joined.warnings.iter().any(|it| it.starts_with(&expected)), "{:?}", split.joined.warnings);
    let plan = split.plan();
    write(&split, &plan, &place.path().join("again"));
    assert_eq!(split.resources.counters.frames_made.get(), 1);
    let bytes = fs::read(place.path().join("again/gfx90a/.kpack/r000_gfx90a.kpack")).unwrap();
    let again = rocm_kpack::Archive::open(bytes.as_slice()).unwrap();
    assert_eq!(again.toc().unwrap().toc.len(), ENTRIES);
    assert!(again.get("lib/x.so#7", "gfx90a").unwrap().unwrap() == code());
}
