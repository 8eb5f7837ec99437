//! Bundles that are equal byte for byte, in several inputs.

use super::*;

fn bundles_of(jobs: &Arc<BundleJobs>) -> Vec<Arc<ArchiveRope>> {
    archives_with(jobs, at_once, &|_, content| content)
}

fn assert_expected(archives: &[Arc<ArchiveRope>]) {
    for (archive, expected) in archives.iter().zip(expected()) {
        assert!(read(archive).unwrap() == expected);
    }
}

/// The content with one byte changed.
fn changed(content: &Arc<dyn Content>, at: usize) -> Arc<dyn Content> {
    let mut bytes = content.to_vec().unwrap();
    bytes[at] ^= 1;
    Arc::new(Rope::new([Segment::literal(bytes)]).unwrap())
}

#[test]
fn code_of_equal_bundles_is_compressed_once() {
    let directory = tempfile::tempdir().unwrap();
    let resources = with_store(64 << 20, directory.path(), 1 << 30);
    let jobs = BundleJobs::new(&resources);
    let [first, second, third] = [(); 3].map(|()| bundles_of(&jobs));
    assert_expected(&first[..1]);
    assert_eq!(work(&resources, || assert_expected(&second[..1])), (0, 0), "one archive");
    let (_, frames) = work(&resources, || assert_expected(&second));
    assert_eq!(frames, FRAMES_OF_ALL - FRAMES_OF_ONE, "what the first one has not made");
    assert_eq!(work(&resources, || assert_expected(&third)), (0, 0), "made of the first or of the second one");
}

#[test]
fn frames_in_memory_are_used_for_equal_bundles() {
    let resources = Resources::new(64 << 20);
    let jobs = BundleJobs::new(&resources);
    let [first, second] = [(); 2].map(|()| bundles_of(&jobs));
    assert_expected(&first);
    assert_eq!(work(&resources, || assert_expected(&second)), (0, 0));
}

#[test]
fn equal_headers_are_not_believed() {
    let resources = Resources::new(64 << 20);
    let jobs = BundleJobs::new(&resources);
    let first = bundles_of(&jobs);
    assert_expected(&first);
    // zstd's checksum is absent, so this is another code object with the same header.
    let end = |content: &Arc<dyn Content>| usize::try_from(content.size()).unwrap() - 1;
    let second = archives_with(&jobs, without_compression, &|_, content| content);
    assert_expected(&second);
    let third = archives_with(&jobs, without_compression, &|_, content| changed(&content, end(&content)));
    let alone =
        archives_from(&Resources::new(64 << 20), without_compression, &|_, content| changed(&content, end(&content)));
    let bytes = |archives: &[Arc<ArchiveRope>]| archives.iter().map(|it| read(it).unwrap()).collect::<Vec<_>>();
    let (_, frames) = work(&resources, || assert!(bytes(&third) == bytes(&alone)));
    assert_eq!(frames, FRAMES_OF_ALL);
    assert!(bytes(&third) != bytes(&second));
}

/// More of them cost no more memory and no more comparisons, and bundles that are gone make room.
#[test]
fn few_bundles_with_equal_headers_are_remembered() {
    let resources = Resources::new(64 << 20);
    let jobs = BundleJobs::new(&resources);
    let gone: Vec<_> = (0..10).map(|_| bundles_of(&jobs)).collect();
    let most = jobs.equal.most_candidates();
    assert!((2..=8).contains(&most), "{most}");
    drop(gone);
    let [first, second] = [(); 2].map(|()| bundles_of(&jobs));
    assert!(jobs.equal.most_candidates() <= most);
    assert_expected(&first);
    let (_, frames) = work(&resources, || assert_expected(&second));
    assert!(frames < FRAMES_OF_ALL, "{frames}");
}

/// A frame that was taken over is damaged in the store.
#[test]
fn a_damaged_frame_is_made_again_by_whoever_reads_it() {
    let directory = tempfile::tempdir().unwrap();
    let resources = with_store(64 << 20, directory.path(), 1 << 30);
    let jobs = BundleJobs::new(&resources);
    let [first, second] = [(); 2].map(|()| bundles_of(&jobs));
    assert_expected(&first);
    assert_expected(&second);
    let frame = &second[0].entries()[0].frame;
    let super::super::frame::MadeFrame::Stored(location) = frame.made().unwrap() else { panic!("not stored") };
    frame.forget_stored(&location);
    let (_, frames) = work(&resources, || assert_expected(&second));
    assert_eq!(frames, 1);
}

/// zstd in raw blocks (RFC 8878, 3.1.1.2), so that each byte of a code object is in the frame as it is.
fn without_compression(bytes: &[u8]) -> Vec<u8> {
    let size = u32::try_from(bytes.len()).unwrap();
    // A single segment, with a content size of 4 bytes and no checksum.
    let mut frame = [&[0x28, 0xB5, 0x2F, 0xFD, 0xA0][..], &size.to_le_bytes()].concat();
    let blocks = bytes.chunks(128 << 10);
    let last = blocks.len() - 1;
    for (number, block) in blocks.enumerate() {
        let header = u32::try_from(block.len()).unwrap() << 3 | u32::from(number == last);
        frame.extend(&header.to_le_bytes()[..3]);
        frame.extend(block);
    }
    frame
}
