//! Splits a small fat wheel into wheels, and checks them with Python.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use kpackfs::database::Databases;
use kpackfs::kpack::{BundleJobs, Compression};
use kpackfs::metrics::Progress;
use kpackfs::resources::Resources;
use kpackfs::rope::{Content, Materialize, Rope, Segment};
use kpackfs::source::{Entry, EntryKind, Input};
use kpackfs::split::{Destination, Plan, PlanOptions as SplitOptions};
use kpackfs::wheel::VariantLabel;
use kpackfs::wheelparts::{
    Assembled, AssemblyOptions, DosTime, FatWheel, SplitWheel, Unchanged, WheelEntry, WheelOptions, WheelSet, Wheels,
};

const METADATA: &str = "Metadata-Version: 2.4\r\nName: Fat-Torch\r\nVersion: 2.10.0+rocm7.1\r\nSummary: a\u{2028}b\r\n\
    License-Expression: MIT\r\nLicense-File: LICENSE\r\nProvides-Extra: all\r\nRequires-Dist: numpy; extra == \"all\"\r\n\
    Description-Content-Type: text/markdown\r\n\r\n# Fat\x0c\n\nName: body\n";

const WHEEL: &str =
    "Wheel-Version: 1.0\nGenerator: setuptools (80)\nRoot-Is-Purelib: false\nTag: cp312-cp312-linux_x86_64\n";

const NAME: &str = "fat_torch-2.10.0+rocm7.1-1-cp312.cp313-cp312-manylinux2014_x86_64.manylinux_2_17_x86_64.whl";

const DIST_INFO: &str = "fat_torch-2.10.0+rocm7.1.dist-info";

/// An unpacked wheel in which little is usual.
fn unpacked(root: &Path) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let write = |path: &str, bytes: &[u8], mode: u32| {
        let path = root.join(path);
        crate::common::put(&path, bytes);
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    let fixture = |name: &str| fs::read(fixtures.join(name)).unwrap();
    write("torch/__init__.py", b"", 0o644);
    write("torch/lib/libtorch_hip.so", &fixture("plain.so"), 0o755);
    write("torch/lib/libfeatures.so", &fixture("features.so"), 0o700);
    write("torch/lib/libgeneric.so", &fixture("generic.so"), 0o755);
    write("torch/lib/libc10.so", &fixture("host-only.so"), 0o755);
    write("torch/lib/rocblas/library/Kernels.so-000-gfx1100.hsaco", b"database", 0o644);
    write("torch/data, \"quoted\".bin", &[1; 5000], 0o664);
    write("torch/ümläut.txt", "ä".repeat(900).as_bytes(), 0o600);
    write("torch/bin/tool", b"#!python\n", 0o744);
    write("fat_torch-2.10.0+rocm7.1.data/platlib/other/lib.so", &fixture("mixed.so"), 0o755);
    write(&format!("{DIST_INFO}/METADATA"), METADATA.as_bytes(), 0o644);
    write(&format!("{DIST_INFO}/WHEEL"), WHEEL.as_bytes(), 0o644);
    write(&format!("{DIST_INFO}/RECORD"), format!("{DIST_INFO}/RECORD,,\n").as_bytes(), 0o644);
    write(&format!("{DIST_INFO}/RECORD.jws"), b"{}", 0o644);
    write(&format!("{DIST_INFO}/licenses/LICENSE"), b"MIT", 0o644);
    write(&format!("{DIST_INFO}/entry_points.txt"), b"[console_scripts]\ntool = torch:tool\n", 0o644);
}

fn python(arguments: &[&str]) -> Option<String> {
    let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wheel_oracle.py");
    let output = match Command::new("python3").arg(oracle).args(arguments).output() {
        Ok(output) => output,
        Err(error) => {
            // It writes past the test harness, which hides the output of tests that pass.
            let skipped = format!("skipped: python3: {error}\n");
            std::io::stderr().write_all(skipped.as_bytes()).unwrap();
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// All wheels of an input, as a mount shows them and `split` writes them.
fn split(location: &Path, label: Option<&VariantLabel>, device_requires: Vec<String>) -> (Wheels, Vec<Assembled>) {
    let resources = Resources::new(64 << 20);
    let input = Input::open(location, &resources).unwrap();
    let options =
        SplitOptions { databases: Databases::all(), compression: Compression::Zstd(3), ..SplitOptions::default() };
    let plan = Plan::make(&input, &options, &BundleJobs::new(&resources), &Progress::default()).unwrap();
    assert!(!plan.keys.is_empty());
    let fat = FatWheel::joined(&input, None, &resources).unwrap();
    let options = AssemblyOptions { device_requires, ..AssemblyOptions::default() };
    let wheels = Wheels::new(fat, plan.keys.iter().cloned(), &options).unwrap();

    let unchanged = |part: &SplitWheel, entry: &Entry| {
        let paths = wheels.paths(part).unwrap();
        Some(wheels.digests.file(paths.of(&entry.path)?, &Unchanged::taken_over(&paths, entry)?))
    };
    let host = SplitWheel::Host;
    let places = input.entries.iter().zip(&plan.places);
    let payload = places.filter_map(|(entry, place)| match place {
        Destination::Host => unchanged(&host, entry),
        Destination::Rewritten { content, .. } => {
            // Takes the place of the splice, which makes a stream without deflating.
            let stream = deflated(&**content);
            let file = wheels.made(&host, &entry.path, entry.attributes.mode, content.clone()).unwrap();
            file.map(|file| WheelEntry { deflated: Some(stream), ..file })
        }
        Destination::Device(..) | Destination::Held | Destination::Unwanted(..) => None,
    });
    let payload: Vec<WheelEntry> = payload.collect();
    let finish = |part: &SplitWheel, mut files: Vec<WheelEntry>| {
        let paths: Vec<_> = files.iter().map(|file| file.path.clone()).collect();
        files.extend(wheels.dist_info(part, &paths).unwrap());
        wheels.assemble(part, files).unwrap()
    };
    let mut parts: Vec<Assembled> = Vec::new();
    parts.extend(label.map(|label| finish(&SplitWheel::Variant(label.clone()), payload.clone())));
    parts.push(finish(&host, payload));
    for key in &plan.keys {
        let part = SplitWheel::Device(key.clone());
        let places = input.entries.iter().zip(&plan.places);
        let databases = places.filter(|(_, place)| matches!(place, Destination::Device(of, _) if of == key));
        let mut files: Vec<WheelEntry> = databases.filter_map(|(entry, _)| unchanged(&part, entry)).collect();
        for archive in plan.archives.iter().filter(|archive| archive.key == *key) {
            let content = archive.archive.make().unwrap();
            files.extend(wheels.made(&part, &archive.path, archive.attributes.mode, content).unwrap());
        }
        parts.push(finish(&part, files));
    }
    assert!(input.entries.iter().any(|entry| matches!(entry.kind, EntryKind::Directory)));
    (wheels, parts)
}

fn deflated(content: &dyn Content) -> Arc<dyn Content> {
    let mut encoder = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::new(1));
    encoder.write_all(&content.to_vec().unwrap()).unwrap();
    Arc::new(Rope::new([Segment::literal(encoder.finish().unwrap())]).unwrap())
}

fn write(parts: &[Assembled], directory: &Path) -> Vec<PathBuf> {
    fs::create_dir_all(directory).unwrap();
    let write = |part: &Assembled| {
        let path = directory.join(part.name.to_string());
        let rope = part.wheel(DosTime::default()).unwrap();
        let mut file = fs::File::create(&path).unwrap();
        let mut buffer = vec![0; 1 << 20];
        let mut at = 0;
        while at < rope.size() {
            let length = buffer.len().min(usize::try_from(rope.size() - at).unwrap());
            rope.read_at(at, &mut buffer[..length]).unwrap();
            file.write_all(&buffer[..length]).unwrap();
            at += length as u64;
        }
        path
    };
    parts.iter().map(write).collect()
}

fn complaints(wheels: &[PathBuf]) -> String {
    let paths = wheels.iter().map(|path| path.to_str().unwrap());
    python(&["check"].into_iter().chain(paths).collect::<Vec<_>>()).unwrap_or_default()
}

#[test]
fn python_finds_nothing_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    unpacked(&tree);
    let fat = directory.path().join(NAME);
    if python(&["pack", tree.to_str().unwrap(), fat.to_str().unwrap()]).is_none() {
        return;
    }
    let label = VariantLabel::new("rocm7.1").unwrap();
    let requires = || vec!["rocm-sdk-device-@GFXARCH@==7.1".to_owned()];
    let (wheels, parts) = split(&fat, Some(&label), requires());
    let names: Vec<_> = parts.iter().map(|part| part.name.to_string()).collect();
    assert_eq!(names[0], NAME.replace(".whl", "-rocm7.1.whl"));
    assert_eq!(names[1], NAME);
    assert!(names[2..].iter().all(|name| name.starts_with("amd_fat_torch_device_gfx")), "{names:?}");
    let paths = write(&parts, &directory.path().join("wheels"));
    assert_eq!(complaints(&paths), "");

    // The packed and the unpacked wheel have the same content, so all RECORDs are the same.
    let record = |part: &Assembled| part.files.last().unwrap().digest.content.to_vec().unwrap();
    let (_, of_tree) = split(&tree, Some(&label), requires());
    for (packed, unpacked) in parts.iter().zip(&of_tree) {
        let is_host = packed.name.distribution == "fat_torch";
        let texts = [packed, unpacked].map(|part| String::from_utf8(record(part)).unwrap());
        // Without a file name, the tags are those of WHEEL.
        let without_wheel = texts.map(|text| text.lines().filter(|line| !line.contains("/WHEEL,")).collect::<String>());
        assert_eq!(without_wheel[0], without_wheel[1], "{}", packed.name);
        assert!(unpacked.name.to_string().ends_with("-cp312-cp312-linux_x86_64.whl") || is_host);
    }
    assert_eq!(complaints(&write(&of_tree, &directory.path().join("of-tree"))), "");

    let warnings = wheels.warnings();
    assert!(warnings.iter().any(|warning| warning.contains("extra all ")), "{warnings:?}");
    let index = wheels.variants_index(&label).unwrap();
    assert_eq!(index.0, "fat_torch-2.10.0+rocm7.1-variants.json");
    assert!(index.1.contains("gfx1100"));
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    unpacked(&tree);
    let all = || -> BTreeMap<String, Vec<u8>> {
        let (_, parts) = split(&tree, None, Vec::new());
        let wheel = |part: &Assembled| part.wheel(DosTime::default()).unwrap().to_vec().unwrap();
        // The second run goes backwards, so that digests are asked for in another order.
        parts.iter().rev().map(|part| (part.name.to_string(), wheel(part))).collect()
    };
    let first = all();
    let (_, parts) = split(&tree, None, Vec::new());
    for part in &parts {
        for digest in part.unknown_digests() {
            digest.sums().unwrap();
        }
        assert!(part.unknown_digests().is_empty());
        let rope = part.wheel(DosTime::default()).unwrap();
        let expected = &first[&part.name.to_string()];
        // Any read returns a slice of the whole, in any order.
        for start in [rope.size() - 30, 0, rope.size() / 2] {
            let mut piece = vec![0; 30];
            rope.read_at(start, &mut piece).unwrap();
            let start = usize::try_from(start).unwrap();
            assert_eq!(piece, expected[start..start + 30]);
        }
        assert_eq!(rope.to_vec().unwrap(), *expected);
    }
}

/// Without room for frames, each digest that is computed compresses the code objects of its archive again.
#[test]
fn digests_of_archives_that_are_known_are_not_computed_again() {
    let directory = tempfile::tempdir().unwrap();
    let tree = directory.path().join("tree");
    unpacked(&tree);
    let resources = Resources::new(0);
    let input = Input::open(&tree, &resources).unwrap();
    let options = SplitOptions::default();
    let plan = Plan::make(&input, &options, &BundleJobs::new(&resources), &Progress::default()).unwrap();
    let wheels = WheelSet::new(&input, &plan, &WheelOptions::default(), &resources).unwrap().unwrap();
    let devices: Vec<_> = wheels.devices.values().cloned().collect();
    let frames_made = || {
        let before = resources.counters.frames_made.get();
        WheelSet::make(&devices, true, &Progress::default()).unwrap();
        resources.counters.frames_made.get() - before
    };
    let (first, again) = (frames_made(), frames_made());
    assert!(first > 0 && again == 0, "{first} frames, then {again}");
}
