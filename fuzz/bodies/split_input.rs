//! Takes arbitrary bytes for a marker and two archives next to a split binary, and joins them.

use std::path::PathBuf;
use std::sync::Arc;

use kpackfs::binary::FatBinary;
use kpackfs::fatbin::{CODE_HEADER, code_problem, read_bundle};
use kpackfs::join::join;
use kpackfs::kpack::ArchiveReader;
use kpackfs::metrics::Progress;
use kpackfs::rope::{Content, Rope, Segment};
use kpackfs::source::{Attributes, Entry, EntryKind, EntryPath, Input, InputKind};

use super::support::{MOST, read, resources};

/// An ELF file and a Windows image, with two wrappers each.
const FAT: [&[u8]; 2] =
    [include_bytes!("../../tests/fixtures/plain.so"), include_bytes!("../../tests/fixtures/win.dll")];

/// The paths of the binary and of the archives.
const PLACES: [&str; 3] = ["lib/x.so", ".kpack/x_gfx90a.kpack", ".kpack/x_gfx1030.kpack"];

/// Checks some bytes: the length of the marker in two bytes, the marker, the length of the first archive in four bytes,
/// and both archives.
pub(crate) fn run(bytes: &[u8]) {
    let Some((marker, archives)) = parts(bytes) else { return };
    for fat in FAT {
        split_and_join(fat, marker, archives);
    }
}

fn split_and_join(fat: &[u8], marker: &[u8], archives: [&[u8]; 2]) {
    let fat = FatBinary::scan(&content(fat)).expect("a fixture").expect("a fixture with code");
    let Ok(split) = fat.rewrite(marker) else { return };
    let split = read(&split).expect("what was planned can be read");
    let files = [&split, archives[0], archives[1]];
    let mut input = input(&files);
    let resources = resources();
    let joined = join(&mut input, &resources, &Progress::default());
    let find = |place: &str| input.entry(&EntryPath::new(place.as_bytes()).expect("a path"));
    let Some(EntryKind::File { content: binary, .. }) = find(PLACES[0]).map(|entry| &entry.kind) else {
        panic!("the binary is gone");
    };
    if joined.binaries.is_empty() {
        assert!(read(&**binary).expect("it is as it was") == split);
        assert!(PLACES.iter().all(|place| find(place).is_some()), "an archive is gone that is not used");
        return;
    }
    // Each code object comes from an archive, and is for the GPU that the archive states.
    let readers: Vec<_> = archives.iter().filter_map(|bytes| ArchiveReader::open(content(bytes)).ok()).collect();
    let wrappers = FatBinary::scan(binary).expect("it was looked through").expect("it has code").wrappers();
    assert_eq!(wrappers.len(), 2);
    for wrapper in wrappers {
        let objects = read_bundle(binary, wrapper.bundle, wrapper.limit, &resources).expect("a bundle");
        for object in objects.iter().filter(|object| object.content.size() <= MOST) {
            let Ok(code) = read(&*object.content) else { continue };
            let header = &code[..code.len().min(CODE_HEADER)];
            assert_eq!(code_problem(header, &object.target), None, "{object:?}");
            let has = |reader: &ArchiveReader| {
                let mut entries = reader.entries();
                entries.any(|(key, target, _)| reader.get(key, target).is_ok_and(|other| other.as_ref() == Some(&code)))
            };
            assert!(readers.iter().any(has), "{object:?}");
        }
    }
}

fn parts(bytes: &[u8]) -> Option<(&[u8], [&[u8]; 2])> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (marker, rest) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
    let (length, rest) = rest.split_first_chunk()?;
    let (first, second) = rest.split_at_checked(usize::try_from(u32::from_le_bytes(*length)).ok()?)?;
    Some((marker, [first, second]))
}

fn content(bytes: &[u8]) -> Arc<dyn Content> {
    Arc::new(Rope::new([Segment::literal(bytes)]).expect("a short one"))
}

fn input(files: &[&[u8]; 3]) -> Input {
    let attributes = Attributes { mode: 0o755, uid: 0, gid: 0, mtime: 0, mtime_nanoseconds: 0 };
    let entry = |path: &str, kind| Entry { path: EntryPath::new(path.as_bytes()).expect("a path"), kind, attributes };
    let mut entries = vec![entry("lib", EntryKind::Directory), entry(".kpack", EntryKind::Directory)];
    let file = |bytes: &[u8]| EntryKind::File { content: content(bytes), link_group: None };
    entries.extend(PLACES.iter().zip(files).map(|(place, bytes)| entry(place, file(bytes))));
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    let location = PathBuf::from("/input");
    Input {
        kind: InputKind::Tree,
        location,
        root: attributes,
        entries,
        warnings: Vec::new(),
        file: None,
        start: 0,
        is_joined: false,
        leftovers: Vec::new(),
        tables: Vec::new(),
    }
}
