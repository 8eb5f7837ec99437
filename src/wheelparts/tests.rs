//! RECORD, digests, and parts made of a hand-made input.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::record::record;
use super::*;
use crate::gpu::BundleKey;
use crate::resources::Resources;
use crate::rope::testing::literal;
use crate::rope::{Content, Packed, PackedContent, ReadError, check_range};
use crate::source::testing::path;
use crate::source::{Attributes, Entry, EntryKind, EntryPath, Input, InputKind};
use crate::wheel::{Claim, Claims, VariantLabel, WheelError, line_size};

/// A content that counts how much of it is read, and may be a member of a zip file.
#[derive(Debug)]
struct Counted {
    bytes: Vec<u8>,
    read: AtomicU64,
    packed: Option<u32>,
}

impl Counted {
    fn new(bytes: &[u8], packed: Option<u32>) -> Arc<Self> {
        Arc::new(Self { bytes: bytes.to_vec(), read: AtomicU64::new(0), packed })
    }
}

impl Content for Counted {
    fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        check_range(offset, buffer.len(), self.size())?;
        let start = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(&self.bytes[start..start + buffer.len()]);
        self.read.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    fn member(&self) -> Option<&dyn PackedContent> {
        self.packed.is_some().then_some(self)
    }
}

impl PackedContent for Counted {
    fn packed(&self) -> Packed {
        Packed { bytes: literal(&self.bytes), deflated: false, crc32: self.packed.unwrap() }
    }
}

const NOTHING: &str = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU";

proptest! {
    #[test]
    fn any_record_round_trips(files in proptest::collection::btree_map("[ -~ä-ö\n\r]{1,12}", proptest::collection::vec(any::<u8>(), 0..9), 0..8)) {
        let files: Vec<_> = files
            .into_iter()
            .filter_map(|(name, bytes)| Some((EntryPath::new(name.as_bytes()).ok()?, bytes)))
            .map(|(path, bytes)| WheelEntry::stored(path, literal(bytes)))
            .collect();
        let rope = record(&files, &path("a,\"b.dist-info/RECORD")).unwrap();
        let text = String::from_utf8(rope.to_vec().unwrap()).unwrap();
        prop_assert!(text.ends_with("\"a,\"\"b.dist-info/RECORD\",,\n"));
        let sizes = files.iter().map(|file| line_size(&file.path, Some(file.digest.content.size())).unwrap());
        let own = line_size(&path("a,\"b.dist-info/RECORD"), None).unwrap();
        prop_assert_eq!(sizes.sum::<u64>() + own, text.len() as u64);
        let claims = Claims::parse(text.as_bytes());
        for file in &files {
            let claim = Claim { sha256: file.digest.sha256().unwrap(), size: file.digest.content.size() };
            prop_assert_eq!(claims.get(&file.path), Some(claim));
        }
        let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
        let rows: Vec<_> = reader.records().map(|row| row.unwrap()[0].to_owned()).collect();
        prop_assert_eq!(rows.len(), files.len() + 1);
        prop_assert!(rows[..files.len()].is_sorted());
    }
}

#[test]
fn claims_that_are_no_use_are_ignored() {
    let hex = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let text = format!(
        "good,sha256={NOTHING},0\r\npadded,sha256={NOTHING}=,0\nhex,sha256={hex},0\nnosize,sha256={NOTHING},\nbare,,\n\
         other,sha512=abc,0\nfew\nlong,sha256={NOTHING},0,x\n\"a,b\",sha256={NOTHING},0\n\
         twice,sha256={NOTHING},0\ntwice,sha256={NOTHING},1\ntwice,sha256={NOTHING},0\n"
    );
    let claims = Claims::parse(text.as_bytes());
    for (name, is_good) in [
        ("good", true),
        ("padded", true),
        ("a,b", true),
        ("hex", false),
        ("nosize", false),
        ("bare", false),
        ("other", false),
        ("few", false),
        ("long", false),
        ("twice", false),
    ] {
        assert_eq!(claims.get(&path(name)).is_some(), is_good, "{name}");
    }
    assert_eq!(claims.get(&path("good")).unwrap().sha256[..2], [0xe3, 0xb0]);
}

#[test]
fn digests_are_computed_once_and_only_when_needed() {
    let counted = Counted::new(&vec![7; 3_000_000], None);
    let digest = Digest::new("x", Arc::clone(&counted) as Arc<dyn Content>, None);
    let crc32 = crc32fast::hash(&counted.bytes);
    assert_eq!((digest.crc32().unwrap(), digest.sums().unwrap().crc32), (crc32, crc32));
    digest.sha256().unwrap();
    assert_eq!(counted.read.load(Ordering::Relaxed), 3_000_000);
    let wrong = Digest::new("x", counted, Some(1));
    assert_eq!(wrong.crc32().unwrap(), 1, "a claim is taken over");
    assert!(matches!(wrong.sha256(), Err(ReadError::Damaged { .. })), "but not when the content is read");
}

/// A wheel that appears to be read from a zip file.
fn input(name: &str, files: &[(&str, Arc<dyn Content>)]) -> Input {
    let attributes = Attributes { mode: 0o755, uid: 0, gid: 0, mtime: 0, mtime_nanoseconds: 0 };
    let mut entries: Vec<Entry> = files
        .iter()
        .map(|(name, content)| Entry {
            path: path(name),
            kind: EntryKind::File { content: Arc::clone(content), link_group: None },
            attributes: Attributes { mode: if name.contains(".so") { 0o755 } else { 0o600 }, ..attributes },
        })
        .collect();
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    let kind = InputKind::Wheel(path("My.Pkg-1.0+x.y.dist-info"));
    Input { entries, ..Input::empty(kind, PathBuf::from(name), attributes) }
}

const METADATA: &str =
    "Metadata-Version: 2.4\nName: My.Pkg\nVersion: 1.0+x.y\nLicense-File: COPYING\nLicense-File: gone\n\nbody\n";
const WHEEL: &str = "Wheel-Version: 1.0\nGenerator: old\nRoot-Is-Purelib: true\nTag: py3-none-linux_x86_64\n";

fn fat(record: &str, library: Arc<dyn Content>) -> (Input, Wheels) {
    let input = input(
        "My.Pkg-1.0+x.y-py3-none-manylinux2014_x86_64.whl",
        &[
            ("My.Pkg-1.0+x.y.dist-info/METADATA", literal(METADATA.as_bytes())),
            ("My.Pkg-1.0+x.y.dist-info/WHEEL", literal(WHEEL.as_bytes())),
            ("My.Pkg-1.0+x.y.dist-info/RECORD", literal(record.as_bytes())),
            ("My.Pkg-1.0+x.y.dist-info/RECORD.jws", literal(b"")),
            ("My.Pkg-1.0+x.y.dist-info/INSTALLER", literal(b"pip")),
            ("My.Pkg-1.0+x.y.dist-info/direct_url.json", literal(b"{}")),
            ("My.Pkg-1.0+x.y.dist-info/provenance_url.json", literal(b"{}")),
            ("My.Pkg-1.0+x.y.dist-info/uv_build.json", literal(b"{}")),
            ("My.Pkg-1.0+x.y.dist-info/uv_cache.json", literal(b"{}")),
            ("My.Pkg-1.0+x.y.dist-info/COPYING", literal(b"MIT")),
            ("My.Pkg-1.0+x.y.dist-info/licenses/a/NOTICE", literal(b"notice")),
            ("My.Pkg-1.0+x.y.dist-info/entry_points.txt", literal(b"")),
            ("My.Pkg-1.0+x.y.dist-info/variant.json", literal(b"{}")),
            ("My.Pkg-1.0+x.y.data/platlib/my_pkg/gfx942.co", literal(b"code")),
            ("my_pkg/lib.so", library),
        ],
    );
    let keys = ["gfx942", "gfx9"].map(|key| key.parse::<BundleKey>().unwrap());
    let wheels = Wheels::new(
        FatWheel::joined(&input, None, &Resources::new(1 << 20)).unwrap(),
        keys,
        &AssemblyOptions::default(),
    )
    .unwrap();
    (input, wheels)
}

fn names(files: &[WheelEntry]) -> Vec<String> {
    files.iter().map(|file| file.path.to_string()).collect()
}

fn part(input: &Input, wheels: &Wheels, part: &SplitWheel, wanted: &[&str]) -> Assembled {
    let taken = input.entries.iter().filter(|entry| wanted.iter().any(|wanted| entry.path.to_text().contains(wanted)));
    let paths = wheels.paths(part).unwrap();
    let unchanged = |entry: &Entry| Some(wheels.digests.file(paths.of(&entry.path)?, &Unchanged::of(entry)?));
    let mut files: Vec<_> = taken.filter_map(unchanged).collect();
    let payload: Vec<_> = files.iter().map(|file| file.path.clone()).collect();
    files.extend(wheels.dist_info(part, &payload).unwrap());
    wheels.assemble(part, files).unwrap()
}

#[test]
fn a_host_wheel_has_a_normal_name_and_new_dist_info() {
    let (input, wheels) = fat("", literal(b"library"));
    let host = part(&input, &wheels, &SplitWheel::Host, &["dist-info", "my_pkg/lib.so"]);
    assert_eq!(host.name.to_string(), "my_pkg-1.0+x.y-py3-none-manylinux2014_x86_64.whl");
    assert_eq!(
        names(&host.files),
        [
            "my_pkg/lib.so",
            "my_pkg-1.0+x.y.dist-info/COPYING",
            "my_pkg-1.0+x.y.dist-info/METADATA",
            "my_pkg-1.0+x.y.dist-info/WHEEL",
            "my_pkg-1.0+x.y.dist-info/entry_points.txt",
            "my_pkg-1.0+x.y.dist-info/licenses/a/NOTICE",
            "my_pkg-1.0+x.y.dist-info/RECORD",
        ]
    );
    assert_eq!(host.files.iter().filter(|file| file.executable).count(), 1);
    let warnings = wheels.warnings().join("\n");
    assert!(warnings.contains("\"gone\"") && warnings.contains("variant.json"), "{warnings}");
}

#[test]
fn a_device_wheel_has_data_and_licences_under_its_own_name() {
    let (input, wheels) = fat("", literal(b"library"));
    let device = part(&input, &wheels, &SplitWheel::Device("gfx942".parse().unwrap()), &["gfx942"]);
    assert_eq!(device.name.to_string(), "amd_my_pkg_device_gfx942-1.0+x.y-py3-none-manylinux2014_x86_64.whl");
    let stem = "amd_my_pkg_device_gfx942-1.0+x.y";
    assert_eq!(
        names(&device.files),
        [
            format!("{stem}.data/platlib/my_pkg/gfx942.co"),
            format!("{stem}.dist-info/METADATA"),
            format!("{stem}.dist-info/WHEEL"),
            format!("{stem}.dist-info/licenses/COPYING"),
            format!("{stem}.dist-info/licenses/a/NOTICE"),
            format!("{stem}.dist-info/top_level.txt"),
            format!("{stem}.dist-info/RECORD"),
        ]
    );
    let text = |number: usize| String::from_utf8(device.files[number].digest.content.to_vec().unwrap()).unwrap();
    assert!(text(1).contains("\nLicense-File: COPYING\nLicense-File: a/NOTICE\n"), "{}", text(1));
    assert!(text(2).contains("Root-Is-Purelib: true\nTag: py3-none-manylinux2014_x86_64\n"));
    assert_eq!(text(5), "my_pkg\n");
    assert!(wheels.name(&SplitWheel::Device("gfx1100".parse().unwrap())).is_err());
}

#[test]
fn a_variant_wheel_is_the_host_wheel_with_markers() {
    let (input, wheels) = fat("", literal(b"library"));
    let label = VariantLabel::new("rocm7.1").unwrap();
    let variant = part(&input, &wheels, &SplitWheel::Variant(label.clone()), &["dist-info", "my_pkg/lib.so"]);
    assert_eq!(variant.name.to_string(), "my_pkg-1.0+x.y-py3-none-manylinux2014_x86_64-rocm7.1.whl");
    let mut expected = names(&part(&input, &wheels, &SplitWheel::Host, &["dist-info", "my_pkg/lib.so"]).files);
    expected.insert(6, "my_pkg-1.0+x.y.dist-info/variant.json".to_owned());
    assert_eq!(names(&variant.files), expected);
    let (index, json) = wheels.variants_index(&label).unwrap();
    assert_eq!(index, "my_pkg-1.0+x.y-variants.json");
    assert!(json.contains("\"gfx942\"") && !json.contains("gfx9\""));
}

#[test]
fn digests_of_unchanged_members_are_taken_over() {
    let claim = |size: usize| format!("my_pkg/lib.so,sha256={NOTHING},{size}\n");
    for (record, crc32, read) in [
        (claim(7), Some(5), 0),
        // A claim for another size is for another file.
        (claim(8), Some(crc32fast::hash(b"library")), 7),
        // A content outside of a zip file may have changed.
        (claim(7), None, 7),
    ] {
        let library = Counted::new(b"library", crc32);
        let (input, wheels) = fat(&record, Arc::clone(&library) as Arc<dyn Content>);
        let host = part(&input, &wheels, &SplitWheel::Host, &["my_pkg/lib.so"]);
        let bytes = host.wheel(DosTime::default()).unwrap().to_vec().unwrap();
        assert_eq!(String::from_utf8_lossy(&bytes).contains(NOTHING), read == 0);
        // The member's own bytes are read in any case.
        assert_eq!(library.read.load(Ordering::Relaxed), read + 7);
    }
}

#[test]
fn files_that_collide_are_refused() {
    let (_, wheels) = fat("", literal(b""));
    let file = || WheelEntry::stored(path("a/b"), literal(b""));
    assert!(matches!(wheels.assemble(&SplitWheel::Host, vec![file(), file()]), Err(WheelError::Twice(_))));
    let odd = WheelEntry::stored(EntryPath::new(b"a/\xff").unwrap(), literal(b""));
    assert!(matches!(wheels.assemble(&SplitWheel::Host, vec![odd]), Err(WheelError::NotUtf8(_))));
    let colon = WheelEntry::stored(path("a/x:xnack+.kpack"), literal(b""));
    let made = wheels.assemble(&SplitWheel::Host, vec![file(), colon]).unwrap();
    assert_eq!(warnings_of(&made.name, made.files.iter().map(|file| file.path.clone())).len(), 1);
}
