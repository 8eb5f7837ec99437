//! Bundles that are damaged, do not fit into memory, or contain large code objects.

use super::*;
use crate::fatbin::CodeObject;

#[test]
fn a_damaged_bundle_is_an_error_of_the_frames_behind_the_damage() {
    let damage = |number, content: Arc<dyn Content>| -> Arc<dyn Content> {
        if number != 3 {
            return content;
        }
        // The second block of the frame gets a type that there is not. The headers before the first take 33 bytes.
        let mut header = [0; 4];
        content.read_at(33, &mut header[..3]).unwrap();
        let second = 33 + 3 + u64::from(u32::from_le_bytes(header) >> 3);
        let mut kind = [0];
        content.read_at(second, &mut kind).unwrap();
        let range = |from, to| Segment::range(Arc::clone(&content), from, to - from).unwrap();
        let parts = [range(0, second), Segment::literal([kind[0] | 6]), range(second + 1, content.size())];
        Arc::new(Rope::new(parts).unwrap())
    };
    for order in [[0, 1, 2], [2, 1, 0]] {
        let directory = tempfile::tempdir().unwrap();
        let resources = with_store(64 << 20, directory.path(), 1 << 30);
        let archives = archives_from(&resources, at_once, &damage);
        for number in order {
            // Only the first of three code objects is in the first block.
            let is_sound = number == 0;
            assert_eq!(read(&archives[number]).is_ok(), is_sound);
            let frames: Vec<_> =
                archives[number].frames().map(|frame| archives[number].jobs.bytes(frame).is_ok()).collect();
            assert_eq!(frames, [true, true, true, is_sound, true, true]);
        }
    }
}

/// A bundle that does not fit is decoded in the order of its code objects, if its window is smaller than the bundle.
#[test]
fn bundles_with_small_windows_are_streamed() {
    let directory = tempfile::tempdir().unwrap();
    let resources = with_store(400_000, directory.path(), 1 << 30);
    let archives = archives_from(&resources, with_small_window, &|_, content| content);
    let decompressed = |run: &dyn Fn()| {
        let before = resources.counters.bytes_decompressed.get();
        run();
        resources.counters.bytes_decompressed.get() - before
    };
    let bytes = decompressed(&|| assert!(read(&archives[0]).unwrap() == expected()[0]));
    assert_eq!(bytes, BUNDLES * (4096 + CODE), "no further than to the end of the first code object");
    let bytes = decompressed(&|| {
        for (archive, expected) in archives.iter().zip(expected()) {
            assert!(read(archive).unwrap() == expected);
        }
    });
    assert!(bytes <= BUNDLES * BUNDLE, "{bytes}");
    assert_eq!(resources.counters.frames_made.get(), FRAMES_OF_ALL);
    // The uncompressed code objects.
    for (archive, number) in archives.iter().zip(0..) {
        let object = &archive.entries()[2].frame.object;
        let mut bytes = vec![0; usize::try_from(CODE).unwrap()];
        object.content.read_at(0, &mut bytes).unwrap();
        assert!(bytes == code(20 + number, CODE));
        object.content.read_at(5, &mut bytes[..10]).unwrap();
        assert!(bytes[..10] == code(20 + number, CODE)[5..15]);
    }
}

/// The frames of large code objects depend neither on where the bytes come from nor on the memory.
#[test]
fn large_code_objects_are_compressed_as_streams() {
    let size = crate::memory::STREAMED + 12_345;
    let mut large = code(7, 1 << 20);
    large.resize(usize::try_from(size).unwrap(), 3);
    let large = [&large[..], &code(8, 1 << 20)].concat();
    let frame_of = |object: CodeObject, resources: &Arc<Resources>| {
        BundleJobs::new(resources).bytes(&Arc::new(Frame::new(object, 3, resources))).unwrap()
    };
    let directory = tempfile::tempdir().unwrap();
    let target: TargetId = "gfx942".parse().unwrap();
    let raw: Arc<dyn Content> = Arc::new(Rope::new([Segment::literal(large.clone())]).unwrap());
    let object = CodeObject::new(target, Arc::clone(&raw));
    let expected = frame_of(object.clone(), &Resources::new(64 << 20));
    assert_eq!(zstd::bulk::decompress(&expected, large.len()).unwrap(), large);
    assert!(frame_of(object, &with_store(0, directory.path(), 1 << 30)) == expected);
    for compress in [at_once, with_small_window] {
        for budget in [256 << 20, 16 << 20] {
            let bytes = bundle(&[("gfx942", large.clone())], compress);
            let limit = bytes.len() as u64;
            let content: Arc<dyn Content> = Arc::new(Rope::new([Segment::literal(bytes)]).unwrap());
            let resources = with_store(budget, directory.path(), 1 << 30);
            let object = read_bundle(&content, 0, limit, &resources).unwrap().remove(0);
            assert!(frame_of(object, &resources) == expected);
        }
    }
}
