//! Takes arbitrary bytes for a raw deflate stream: random access, false claims, and streams that are spliced from it.

use std::sync::Arc;

use kpackfs::deflate::{DeflateLevel, splice};
use kpackfs::index::Index;
use kpackfs::metrics::Counters;
use kpackfs::resources::Resources;
use kpackfs::rope::{Content, Edit, Segment, edited};
use kpackfs::source::{EntryKind, EntryPath, Input};

use super::support::{MOST, Random, directory, inflate, read, resources, same_in_pieces, wheel};
use super::zipped::{Member, zipped};

/// Checks bytes that may be a deflate stream.
pub(crate) fn run(bytes: &[u8]) {
    let (truth, ended) = inflate(bytes, MOST);
    if truth.len() as u64 > MOST {
        return;
    }
    let mut random = Random::of(bytes);
    let (size, crc32) = (truth.len() as u64, crc32fast::hash(&truth));
    let place = directory();
    let open = |size, crc32, resources: &Arc<Resources>| {
        let member = Member { name: b"x".to_vec(), packed: bytes.to_vec(), method: 8, size, crc32 };
        let path = wheel(&place, &zipped(&[member]));
        match content(&path, resources) {
            Some(content) => content,
            None => panic!("a member that claims {size} bytes"),
        }
    };
    let member = open(size, crc32, &resources());
    let all = same_in_pieces(&*member, &truth, &mut random);
    if !ended {
        // What can be decoded is served, but a pass over the whole stream finds that it has no end.
        assert!(all && (size == 0 || member.check().is_err()), "a stream without an end");
        return;
    }
    assert!(all && read(&*member).expect("a whole stream") == truth);
    for (false_size, false_crc) in [(size + 1, crc32), (size.saturating_sub(1), crc32), (size, !crc32)] {
        // A claimed size that is more than a stream can inflate to is refused when the member is listed.
        if false_size == 0 || false_size > 1032 * bytes.len() as u64 {
            continue;
        }
        let member = open(false_size, false_crc, &resources());
        assert!(read(&*member).is_err(), "it claims {false_size} bytes of {size}");
    }
    spliced(&open(size, crc32, &resources()), &truth, &mut random);
    recalled(bytes, &truth, &mut random);
}

/// Splices another stream from this one.
fn spliced(member: &Arc<dyn Content>, truth: &[u8], random: &mut Random) {
    let size = truth.len() as u64;
    let mut edits: Vec<Edit> = Vec::new();
    let mut at = 0;
    for _ in 0..random.below(4) {
        let start = at + random.below(size - at + 1);
        let end = start + random.below((size - start).min(1 << 16) + 1);
        let bytes: Vec<u8> = (0..random.below(3000)).map(|_| random.next().to_le_bytes()[0]).collect();
        edits.push(Edit { start, end, replacement: vec![Segment::literal(bytes), Segment::zeros(random.below(5000))] });
        at = end;
    }
    let expected = read(&edited(member, edits.clone()).expect("edits in order")).expect("what can be read");
    let joints =
        member.member().expect("a member").block_boundaries().expect("a whole stream").expect("it is deflated");
    assert!(joints.is_sorted_by(|a, b| a.output <= b.output && a.bit < b.bit) || joints.len() < 2, "{joints:?}");
    assert_eq!((joints.first().map(|first| first.bit), joints.last().map(|last| last.output)), (Some(0), Some(size)));
    let Some(made) =
        splice(member, &edits, DeflateLevel::default(), None, &Counters::default()).expect("what can be read")
    else {
        return;
    };
    assert_eq!((made.size, made.crc32), (expected.len() as u64, crc32fast::hash(&expected)));
    let stream = read(&made.stream).expect("a stream");
    let most = expected.len() as u64 + 1;
    assert!(inflate(&stream, most) == (expected.clone(), true), "it inflates to something else");
    let other = miniz_oxide::inflate::decompress_to_vec_with_limit(&stream, expected.len() + 1);
    // This decoder refuses some unusual blocks. What it accepts must be right.
    assert!(other.is_err() || other.is_ok_and(|other| other == expected), "another decoder");
}

/// Reads with the index entry of another session, and with a false one.
fn recalled(bytes: &[u8], truth: &[u8], random: &mut Random) {
    let place = directory();
    let (size, crc32) = (truth.len() as u64, crc32fast::hash(truth));
    let member = Member { name: b"x".to_vec(), packed: bytes.to_vec(), method: 8, size, crc32 };
    let path = wheel(&place, &zipped(&[member]));
    let session = || Resources::with_index(16 << 20, Index::open(place.path(), &path));
    let first = session();
    read(&*content(&path, &first).expect("it is there")).expect("a whole stream");
    if !first.index.is_changed() {
        return;
    }
    first.index.save().expect("a file can be written");
    let second = session();
    assert!(same_in_pieces(&*content(&path, &second).expect("it is there"), truth, random));
    let index = second.index.file().expect("it was saved").to_owned();
    super::records::damage(&index, random);
    // What the index says about the stream may be false now. Then the stream is scanned again.
    let third = session();
    let member = content(&path, &third).expect("it is there");
    assert!(same_in_pieces(&*member, truth, random), "an index that lies");
    assert!(read(&*member).expect("a whole stream") == truth, "an index that lies");
}

fn content(path: &std::path::Path, resources: &Arc<Resources>) -> Option<Arc<dyn Content>> {
    let input = Input::open(path, resources).expect("a wheel");
    match &input.entry(&EntryPath::new(b"x").expect("a name"))?.kind {
        EntryKind::File { content, .. } => Some(Arc::clone(content)),
        EntryKind::Directory | EntryKind::Symlink(_) => None,
    }
}
