//! Takes arbitrary bytes for code objects, and makes an archive and a bundle of them, as `kpack create` does.

use std::sync::Arc;

use kpackfs::fatbin::{CODE_HEADER, CodeObject, bundle_of, code_problem, code_target, read_bundle};
use kpackfs::gpu::TargetId;
use kpackfs::kpack::{ArchiveEntry, ArchiveReader, ArchiveRope, BundleJobs, Compression, DEFAULT_LEVEL, Frame};
use kpackfs::rope::{Content, Materialize, Rope, Segment};

use super::support::{Random, read, resources};

/// Checks bytes that may be code objects: an archive and a bundle made of them return them.
pub(crate) fn run(bytes: &[u8]) {
    let mut random = Random::of(bytes);
    let fallback: TargetId = "gfx90a".parse().expect("a target");
    let target = code_target(&bytes[..bytes.len().min(CODE_HEADER)]).unwrap_or(fallback);
    let problem = code_problem(&bytes[..bytes.len().min(CODE_HEADER)], &target);
    assert!(problem.is_none_or(|problem| !problem.is_empty()));
    let resources = resources();
    let object = |bytes: &[u8]| -> CodeObject {
        let content: Arc<dyn Content> = Arc::new(Rope::new([Segment::literal(bytes.to_vec())]).expect("in memory"));
        CodeObject::new(target.clone(), content)
    };
    let middle = usize::try_from(random.below(bytes.len() as u64 + 1)).expect("in memory");
    let codes = [bytes, &bytes[..middle]];
    let compression =
        if random.next().is_multiple_of(2) { Compression::None } else { Compression::Zstd(DEFAULT_LEVEL) };
    let entry = |(binary, code): (usize, &&[u8])| {
        let frame = Arc::new(Frame::new(object(code), DEFAULT_LEVEL, &resources));
        ArchiveEntry { binary, kernel_name: format!("{binary}.hsaco").into(), wrapper: None, frame }
    };
    let entries = codes.iter().enumerate().map(entry).collect();
    let archive = ArchiveRope::new("x", target.clone(), compression, entries, &BundleJobs::new(&resources));
    let reader = ArchiveReader::open(archive.make().expect("an archive")).expect("as it was made");
    for (number, code) in codes.iter().enumerate() {
        let found = reader.get(&format!("{number}.hsaco"), &target.to_string()).expect("as it was made");
        assert_eq!(found.as_deref(), Some(*code));
    }
    let bundle: Arc<dyn Content> = Arc::new(bundle_of(&[object(bytes)]).expect("a bundle"));
    let objects = read_bundle(&bundle, 0, bundle.size(), &resources).expect("as it was made");
    let found = objects.iter().find(|object| object.target == target).expect("its target");
    assert!(read(&*found.content).expect("it is in memory") == bytes);
}
