//! The steps of planning and reading, each measured alone, with generated inputs and fixtures.
//!
//! `cargo bench --bench pieces`

#![expect(clippy::unwrap_used, reason = "a bench that cannot be set up has nothing to tell")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use divan::counter::BytesCount;
use divan::{Bencher, Divan, black_box};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use kpackfs::binary::FatBinary;
use kpackfs::deflate::{DeflateLevel, splice};
use kpackfs::gpu::{BundleKey, TargetId};
use kpackfs::kpack::{self, ArchiveReader};
use kpackfs::metrics::Counters;
use kpackfs::resources::Resources;
use kpackfs::rope::{Content, Edit, Rope, Segment};
use kpackfs::source::{EntryKind, EntryPath, Input};

use kpackfs::wheel::Claims;
use kpackfs::wheelparts::{self, DosTime, FatWheel, SplitWheel, WheelEntry, Wheels};
use tempfile::TempDir;

/// Files of the generated wheel. The largest ROCm wheels have some ten thousand.
const FILES: usize = 10_000;

const METADATA: &str = "Metadata-Version: 2.1\nName: made\nVersion: 1\n";
const WHEEL: &str = "Wheel-Version: 1.0\nGenerator: made\nRoot-Is-Purelib: false\nTag: py3-none-linux_x86_64\n";

fn main() {
    Divan::default().max_time(Duration::from_millis(300)).config_with_args().main();
}

fn resources() -> Arc<Resources> {
    Resources::new(64 << 20)
}

fn literal(bytes: impl Into<Arc<[u8]>>) -> Arc<dyn Content> {
    Arc::new(Rope::new([Segment::literal(bytes)]).unwrap())
}

fn path(name: &str) -> EntryPath {
    EntryPath::new(name.as_bytes()).unwrap()
}

/// The layout of an archive: many segments, most of them short.
#[divan::bench(args = [1, 100, 100_000])]
fn read_128_kib_of_a_rope(bencher: Bencher, segments: usize) {
    let length = (4 << 20) / segments;
    let piece = literal(vec![7; length]);
    let rope = Rope::new((0..segments).map(|_| Segment::whole(Arc::clone(&piece)))).unwrap();
    let mut buffer = vec![0; 128 << 10];
    let last = rope.size() - buffer.len() as u64;
    let mut at = 0;
    bencher.counter(BytesCount::of_slice(&buffer.clone())).bench_local(|| {
        at = (at + 1_234_567) % last;
        rope.read_at(at, black_box(&mut buffer)).unwrap();
    });
}

#[divan::bench(args = ["plain.so", "mixed-shuffled.so", "relr.so", "host-only.so", "win.dll"])]
fn scan_a_binary(bencher: Bencher, fixture: &str) {
    let content = literal(std::fs::read(Path::new("tests/fixtures").join(fixture)).unwrap());
    bencher.bench_local(|| {
        let binary = FatBinary::scan(black_box(&content)).unwrap();
        binary.map(|binary| binary.edits(b"marker").unwrap())
    });
}

/// A wheel of small stored files, and one that is deflated.
struct Made {
    directory: TempDir,
    record: Vec<u8>,
}

/// Bytes that deflate well, but not extremely well.
fn compressible(size: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()
    };
    std::iter::repeat_with(|| format!("{:02x} kernel ", next()[0] & 0x3F).into_bytes()).flatten().take(size).collect()
}

fn deflated_file(name: &str, bytes: Vec<u8>) -> WheelEntry {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::new(6));
    encoder.write_all(&bytes).unwrap();
    WheelEntry { deflated: Some(literal(encoder.finish().unwrap())), ..WheelEntry::stored(path(name), literal(bytes)) }
}

static MADE: LazyLock<Made> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let mut files: Vec<_> = (0..FILES)
        .map(|number| {
            WheelEntry::stored(path(&format!("made/package_{}/{number}.py", number % 100)), literal(*b"pass\n"))
        })
        .collect();
    let digest = "A".repeat(43);
    let mut record = String::new();
    for file in &files {
        writeln!(record, "{},sha256={digest},5", file.path).unwrap();
    }
    files.push(deflated_file("made/library.bin", compressible(8 << 20)));
    for (name, text) in [("METADATA", METADATA), ("WHEEL", WHEEL), ("RECORD", &record)] {
        files.push(WheelEntry::stored(path(&format!("made-1.dist-info/{name}")), literal(text.as_bytes())));
    }
    let bytes = wheelparts::archive(&files, DosTime::default()).unwrap().to_vec().unwrap();
    std::fs::write(directory.path().join("made-1-py3-none-linux_x86_64.whl"), bytes).unwrap();
    Made { directory, record: record.into_bytes() }
});

fn made_wheel() -> PathBuf {
    MADE.directory.path().join("made-1-py3-none-linux_x86_64.whl")
}

fn member(input: &Input, name: &str) -> Arc<dyn Content> {
    match input.entry(&path(name)).map(|entry| &entry.kind) {
        Some(EntryKind::File { content, .. }) => Arc::clone(content),
        _ => unreachable!("the wheel was made with it"),
    }
}

#[divan::bench]
fn list_a_wheel(bencher: Bencher) {
    let wheel = made_wheel();
    bencher.bench_local(|| Input::open(&wheel, &resources()).unwrap());
}

#[divan::bench]
fn parse_a_record(bencher: Bencher) {
    bencher.counter(BytesCount::of_slice(&MADE.record)).bench_local(|| Claims::parse(black_box(&MADE.record)));
}

/// Without the digests, which are only computed when they are read.
#[divan::bench]
fn assemble_a_wheel_with_its_record(bencher: Bencher) {
    let input = Input::open(&made_wheel(), &resources()).unwrap();
    let keys: [BundleKey; 1] = ["gfx942".parse().unwrap()];
    let wheels = Wheels::new(
        FatWheel::joined(&input, None, &resources()).unwrap(),
        keys,
        &wheelparts::AssemblyOptions::default(),
    )
    .unwrap();
    let file = |number: usize| WheelEntry::stored(path(&format!("made/{number}.py")), literal(*b"pass\n"));
    let files: Vec<_> = (0..FILES).map(file).collect();
    bencher.with_inputs(|| files.clone()).bench_local_values(|files| {
        wheels.assemble(&SplitWheel::Host, files).unwrap().wheel(DosTime::default()).unwrap()
    });
}

/// The table of contents of an archive with as many code objects as the largest known archives.
#[divan::bench]
fn open_an_archive(bencher: Bencher) {
    let entries: serde_json::Map<_, _> = (0..FILES)
        .map(|number| {
            let entry = serde_json::json!({ "type": "hsaco", "ordinal": number, "original_size": 8 });
            (format!("lib/library_{}.so#{number}", number % 20), serde_json::json!({ "gfx942": entry }))
        })
        .collect();
    let blobs: Vec<_> = (0..FILES).map(|number| serde_json::json!({ "offset": 64 + 8 * number, "size": 8 })).collect();
    let toc = serde_json::json!({
        "format_version": 1, "group_name": "made", "gfx_arch_family": "gfx942", "gfx_arches": ["gfx942"],
        "compression_scheme": "none", "blobs": blobs, "toc": entries,
    });
    let end = 64 + 8 * FILES as u64;
    let mut archive = [&kpack::MAGIC[..], &1_u32.to_le_bytes(), &end.to_le_bytes(), &[0; 48]].concat();
    archive.resize(64 + 8 * FILES, 0);
    archive.extend(rmp_serde::to_vec_named(&toc).unwrap());
    let archive = literal(archive);
    bencher.bench_local(|| ArchiveReader::open(Arc::clone(&archive)).unwrap());
}

#[divan::bench(args = ["gfx942", "gfx90a:xnack-", "gfx9-4-generic", "gfx9999"])]
fn look_up_a_target(target: &str) -> Vec<BundleKey> {
    let target: TargetId = black_box(target).parse().unwrap();
    BundleKey::of(&target).packaging_chain()
}

#[divan::bench(args = [90_402, 130_000])]
fn look_up_a_version(version: u32) -> TargetId {
    TargetId::of_version(black_box(version))
}

/// The first pass over a deflate stream.
#[divan::bench(sample_count = 10)]
fn find_the_joints_of_a_stream(bencher: Bencher) {
    let wheel = made_wheel();
    bencher
        .counter(BytesCount::new(8_usize << 20))
        .with_inputs(|| member(&Input::open(&wheel, &resources()).unwrap(), "made/library.bin"))
        .bench_local_values(|member| member.member().unwrap().block_boundaries().unwrap());
}

#[divan::bench]
fn splice_a_stream(bencher: Bencher) {
    let member = member(&Input::open(&made_wheel(), &resources()).unwrap(), "made/library.bin");
    let edits = [Edit::patch(100, *b"changed"), Edit::cut(3 << 20, 5 << 20), Edit::patch(7 << 20, *b"changed")];
    member.member().unwrap().block_boundaries().unwrap();
    bencher.bench_local(|| splice(&member, &edits, DeflateLevel::default(), None, &Counters::default()).unwrap());
}
