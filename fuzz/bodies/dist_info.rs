//! Takes arbitrary bytes for METADATA, WHEEL, RECORD and the manifest of a part: the files made from them say what they should, and keep the
//! rest.

use std::collections::BTreeSet;

use kpackfs::gpu::BundleKey;
use kpackfs::source::EntryPath;
use kpackfs::split::PartManifest;
use kpackfs::wheel::{Claims, Devices, KnownExtras, Metadata, WheelFile, WheelName};

/// Checks bytes that may be a file of a dist-info directory.
pub(crate) fn run(bytes: &[u8]) {
    metadata(bytes);
    wheel(bytes);
    record(bytes);
    manifest(bytes);
}

fn key(name: &str) -> BundleKey {
    name.parse().expect("the name of a target")
}

fn metadata(bytes: &[u8]) {
    let path = EntryPath::root();
    let Ok(metadata) = Metadata::parse(bytes.to_vec(), &path) else { return };
    let keys = ["gfx1201", "gfx12_0", "gfx90a"].map(key);
    let devices = Devices::new("amd-x-device", keys.clone()).expect("names of distributions");
    let host = metadata.host(&devices).bytes;
    let inserted = insertion(bytes, &host);
    let again = Metadata::parse(host.clone(), &path).expect("what was made of a good one");
    assert_eq!((&again.name, &again.version), (&metadata.name, &metadata.version));
    let declared: BTreeSet<_> = metadata.extras();
    for extra in ["gfx1201", "device-gfx1201", "gfx90a", "device-gfx90a", "all", "device-all"] {
        assert!(again.extras().contains(extra), "{extra} of {declared:?}");
    }
    assert_eq!(again.licence_files().collect::<Vec<_>>(), metadata.licence_files().collect::<Vec<_>>());
    for line in inserted.lines().filter(|line| !line.is_empty()) {
        assert!(line.starts_with("Requires-Dist: ") || line.starts_with("Provides-Extra: "), "{line:?}");
    }
    let targets: Vec<_> = devices.targets().collect();
    insertion(&host, &metadata.variant(&devices, &targets).bytes);
    let split = metadata.for_host().expect("what was made of a good one");
    let restored = split.restored(&metadata.replaced_fields()).expect("a good one").expect("each field has its place");
    assert!(restored.bytes() == bytes, "nothing but requirements is changed");
    let requires = ["one; python_version > '3'".to_owned(), "two-@GFXARCH@".to_owned()];
    for key in &keys {
        let moved = metadata.device_requirements(key, &KnownExtras::default());
        let device =
            metadata.device(&devices, key, &requires, &moved, &["LICENCE".to_owned()]).expect("a key that is there");
        let (header, _) = device.split_once("\n\n").expect("an empty line");
        for line in header.split('\n') {
            let (field, value) = line.split_once(": ").expect("a field");
            assert!(field.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-'), "{line:?}");
            assert!(!value.contains(char::is_control), "{line:?}");
        }
        let device = Metadata::parse(device.into_bytes(), &path).expect("what was made of a good one");
        assert_eq!(Some(device.name.as_str()), devices.distribution(key));
        assert_eq!(device.version, metadata.version);
    }
}

/// The bytes that `longer` has in one place and `bytes` lacks.
fn insertion<'a>(bytes: &[u8], longer: &'a [u8]) -> &'a str {
    let start = bytes.iter().zip(longer).take_while(|(a, b)| a == b).count();
    let added = longer.len().checked_sub(bytes.len()).expect("nothing is lost");
    let end = start + added;
    assert!(bytes[start..] == longer[end..], "nothing but an insertion");
    // If they begin like the bytes after them, they may have been inserted earlier.
    let begins = |text: &&str| text.is_empty() || text.starts_with(['R', 'P', '\n', '\r']);
    let text = (0..=start).rev().find_map(|at| std::str::from_utf8(&longer[at..at + added]).ok().filter(begins));
    text.expect("lines of text")
}

fn wheel(bytes: &[u8]) {
    let path = EntryPath::root();
    let Ok(file) = WheelFile::parse(bytes.to_vec(), &path) else { return };
    let name = WheelName::parse("x-1-3-py2.py3-none-any.whl").expect("a name");
    let made = [file.host(&name), file.device(&name).into_bytes()];
    for made in made {
        let made = WheelFile::parse(made, &path).expect("what was made of a good one");
        assert_eq!(made.tags(), name.tags());
        assert_eq!((made.build(), made.root_is_purelib), (Some("3"), file.root_is_purelib));
    }
    if let Ok(name) = WheelName::of_unpacked("x-1.dist-info", &file.tags(), file.build()) {
        assert!(name.to_string().starts_with("x-1-"), "{name}");
        assert_eq!(WheelName::parse(&name.to_string()).expect("a name"), name);
        let expanded = |tags: Vec<String>| tags.into_iter().collect::<BTreeSet<_>>();
        let of_one = |tag: String| WheelName::parse(&format!("x-1-{tag}.whl")).expect("a tag of a name").tags();
        assert_eq!(expanded(name.tags()), file.tags().into_iter().flat_map(of_one).collect());
    }
}

fn record(bytes: &[u8]) {
    let claims = Claims::parse(bytes);
    // A line that claims a digest begins with the path.
    for line in bytes.split(|&byte| byte == b'\n') {
        let Some(name) = line.split(|&byte| byte == b',').next() else { continue };
        let Ok(path) = EntryPath::new(name) else { continue };
        if let Some(claim) = claims.get(&path) {
            let size = claim.size.to_string();
            assert!(bytes.windows(size.len()).any(|there| there == size.as_bytes()) || size == "0", "{size}");
        }
    }
}

fn manifest(bytes: &[u8]) {
    let Ok(manifest) = PartManifest::parse(bytes) else { return };
    let paths: BTreeSet<_> = manifest.files.iter().map(|file| &file.path).collect();
    assert_eq!(paths.len(), manifest.files.len(), "a path twice");
    assert!(manifest.files.iter().all(|file| file.digest.len() == manifest.digest.size()));
}
