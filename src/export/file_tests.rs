use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::export::Reflink;
use crate::resources::Resources;
use crate::rope::{Rope, Segment, Xxh3};
use crate::source::{EntryKind, Input as Tree};
use crate::split::FileDigest;

const BLOCK: u64 = 4096;

/// A kernel that shares blocks by copying. It refuses what real filesystems refuse.
#[derive(Default)]
struct Simulated {
    shared: AtomicU64,
    copied: AtomicU64,
    /// An error to return instead.
    refusal: Option<(Way, Errno)>,
    /// The most bytes that one call copies.
    most: Option<u64>,
    /// Runs before each answer.
    before: Option<Box<dyn Fn() + Sync>>,
}

impl Simulated {
    fn refuse(&self, way: Way) -> Result<(), Errno> {
        self.before.iter().for_each(|before| before());
        match self.refusal {
            Some((refused, error)) if refused == way => Err(error),
            _ => Ok(()),
        }
    }
}

fn transfer(from: &File, offset: u64, to: &File, at: u64, length: u64) -> u64 {
    let mut bytes = vec![0; usize::try_from(length).unwrap()];
    let mut done = 0;
    while done < bytes.len() {
        match from.read_at(&mut bytes[done..], offset + done as u64).unwrap() {
            0 => break,
            count => done += count,
        }
    }
    to.write_all_at(&bytes[..done], at).unwrap();
    done as u64
}

impl SystemCalls for Simulated {
    fn share(&self, from: &File, offset: u64, to: &File, at: u64, length: u64) -> Result<(), Errno> {
        self.refuse(Way::Share)?;
        let (size, target) = (from.metadata().unwrap().len(), to.metadata().unwrap().len());
        let is_end = offset + length == size && at + length >= target;
        let are_aligned = [offset, at].iter().all(|it| it.is_multiple_of(BLOCK));
        if !are_aligned || offset + length > size || !(length.is_multiple_of(BLOCK) || is_end) {
            return Err(Errno::INVAL);
        }
        self.shared.fetch_add(transfer(from, offset, to, at, length), Ordering::Relaxed);
        Ok(())
    }

    fn copy(&self, from: &File, offset: u64, to: &File, at: u64, length: u64) -> Result<u64, Errno> {
        self.refuse(Way::Copy)?;
        let copied = transfer(from, offset, to, at, length.min(self.most.unwrap_or(u64::MAX)));
        self.copied.fetch_add(copied, Ordering::Relaxed);
        Ok(copied)
    }
}

/// A directory with a file of these bytes, and the file as a content.
fn file(bytes: &[u8]) -> (tempfile::TempDir, Arc<dyn Content>) {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("data"), bytes).unwrap();
    let content = content(&place);
    (place, content)
}

fn content(place: &tempfile::TempDir) -> Arc<dyn Content> {
    let input = Tree::open(place.path(), &Resources::new(1 << 20)).unwrap();
    match &input.entries[0].kind {
        EntryKind::File { content, .. } => Arc::clone(content),
        other => panic!("{other:?}"),
    }
}

fn noise(length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn written(content: &dyn Content, sharing: &Sharing<Simulated>) -> Result<(Vec<u8>, u64), ExportError> {
    let target = tempfile::NamedTempFile::new().unwrap();
    let done = AtomicU64::new(0);
    let metadata = target.as_file().metadata().unwrap();
    let sum = FileSum::new(FileDigest::Xxh3);
    write(content, Some(&sum), target.as_file(), &metadata, Path::new("x.so"), sharing, &done)?;
    assert_eq!(done.into_inner(), content.size());
    let blocks = target.as_file().metadata().unwrap().blocks() * 512;
    let bytes = fs::read(target.path()).unwrap();
    // However the bytes got there, the digest is known without reading the content again.
    assert_eq!(sum.of(&Rope::default()).unwrap(), Xxh3::of(&bytes));
    Ok((bytes, blocks))
}

fn sharing(reflink: Reflink, kernel: Simulated) -> Sharing<Simulated> {
    Sharing::new(kernel, reflink)
}

fn range(content: &Arc<dyn Content>, from: u64, length: u64) -> Segment {
    Segment::range(Arc::clone(content), from, length).unwrap()
}

/// Similar to a rewritten binary: patched, and shorter by some pages.
fn rewritten(original: &Arc<dyn Content>) -> Rope {
    let size = original.size();
    let cut = 40 * BLOCK;
    let segments = [
        Segment::literal(*b"header"),
        range(original, 6, cut - 6),
        Segment::zeros(BLOCK - 100),
        Segment::literal([7; 100]),
        range(original, cut + 20 * BLOCK, size - cut - 20 * BLOCK),
    ];
    Rope::new(segments).unwrap()
}

#[test]
fn whole_blocks_are_shared_and_the_rest_is_written() {
    let (_place, original) = file(&noise(100 * 4096 + 123));
    let rope = rewritten(&original);
    for (reflink, shared, copied) in
        [(Reflink::Auto, 79 * BLOCK + 123, 0), (Reflink::Always, 79 * BLOCK + 123, 0), (Reflink::Never, 0, 0)]
    {
        let sharing = sharing(reflink, Simulated::default());
        assert!(written(&rope, &sharing).unwrap().0 == rope.to_vec().unwrap(), "{reflink:?}");
        let Simulated { shared: found, copied: by_kernel, .. } = sharing.kernel;
        assert_eq!((found.into_inner(), by_kernel.into_inner()), (shared, copied), "{reflink:?}");
    }
    // Ranges with another alignment are copied by the kernel.
    let shifted = Rope::new([Segment::literal(*b"x"), Segment::whole(Arc::clone(&original))]).unwrap();
    let sharing = sharing(Reflink::Always, Simulated { most: Some(70_000), ..Simulated::default() });
    assert!(written(&shifted, &sharing).unwrap().0 == shifted.to_vec().unwrap());
    assert_eq!((sharing.kernel.shared.into_inner(), sharing.kernel.copied.into_inner()), (0, original.size()));
}

#[test]
fn refusals_lead_to_another_way() {
    let (_place, original) = file(&noise(100 * 4096 + 123));
    let rope = rewritten(&original);
    for error in [Errno::XDEV, Errno::OPNOTSUPP, Errno::INVAL, Errno::NOSYS, Errno::NOTTY, Errno::PERM] {
        for way in [Way::Share, Way::Copy] {
            let sharing = sharing(Reflink::Auto, Simulated { refusal: Some((way, error)), ..Simulated::default() });
            for _ in 0..2 {
                assert!(written(&rope, &sharing).unwrap().0 == rope.to_vec().unwrap(), "{way:?} {error}");
            }
        }
        let kernel = Simulated { refusal: Some((Way::Share, error)), ..Simulated::default() };
        let said = written(&rope, &sharing(Reflink::Always, kernel)).unwrap_err().to_string();
        assert!(said.starts_with("x.so: it cannot share blocks with the input: "), "{said}");
    }
}

/// Filesystems that cannot share are asked once.
#[test]
fn a_refusal_is_remembered_for_two_filesystems() {
    let (_place, original) = file(&noise(200_000));
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let before: Box<dyn Fn() + Sync> = Box::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let kernel =
        Simulated { refusal: Some((Way::Share, Errno::OPNOTSUPP)), before: Some(before), ..Simulated::default() };
    let sharing = sharing(Reflink::Auto, kernel);
    for expected in [2, 3, 4] {
        written(&*original, &sharing).unwrap();
        assert_eq!(calls.load(Ordering::Relaxed), expected, "one to share, and one copy for each file");
    }
}

#[test]
fn a_full_disk_is_an_error_with_the_name() {
    let (_place, original) = file(&noise(300_000));
    for error in [Errno::NOSPC, Errno::DQUOT, Errno::IO] {
        for way in [Way::Share, Way::Copy] {
            let reflink = Simulated { refusal: Some((way, error)), ..Simulated::default() };
            // The kernel copies ranges with another alignment.
            let shifted = Rope::new([Segment::literal(*b"x"), Segment::whole(Arc::clone(&original))]).unwrap();
            let content: &dyn Content = if way == Way::Share { &*original } else { &shifted };
            let said = written(content, &sharing(Reflink::Auto, reflink)).unwrap_err().to_string();
            assert_eq!(said, format!("x.so: {}", io::Error::from(error)));
        }
    }
}

/// A file that shrinks or changes meanwhile is named in the error, and none of its bytes are kept.
#[test]
fn a_file_that_changes_meanwhile_is_an_error() {
    for (reflink, size) in [(Reflink::Auto, 0), (Reflink::Auto, 200_000), (Reflink::Never, 100)] {
        for way in [Way::Share, Way::Copy] {
            let (place, original) = file(&noise(300_000));
            let path = place.path().join("data");
            let change = move || File::options().write(true).open(&path).unwrap().set_len(size).unwrap();
            let kernel = Simulated {
                refusal: (way == Way::Copy).then_some((Way::Share, Errno::INVAL)),
                before: Some(Box::new(change.clone())),
                ..Simulated::default()
            };
            if reflink == Reflink::Never {
                change();
            }
            let error = written(&*original, &sharing(reflink, kernel)).unwrap_err();
            let said = error.to_string();
            assert!(matches!(error, ExportError::Read { source: ReadError::Changed { .. }, .. }), "{said}");
            assert!(said.starts_with("x.so: ") && said.contains("data: changed"), "{said}");
        }
    }
}

#[test]
fn holes_stay_holes() {
    let place = tempfile::tempdir().unwrap();
    let sparse = File::create(place.path().join("data")).unwrap();
    sparse.set_len(8 << 20).unwrap();
    sparse.write_all_at(&noise(200_000), 3 << 20).unwrap();
    sparse.sync_all().unwrap();
    let original = content(&place);
    let padded = Rope::new([range(&original, 0, 5 << 20), Segment::zeros(64 << 20), Segment::literal(*b"end")]);
    let padded = padded.unwrap();
    for reflink in [Reflink::Auto, Reflink::Never] {
        // A filesystem that cannot share blocks.
        let kernel = || Simulated { refusal: Some((Way::Share, Errno::OPNOTSUPP)), ..Simulated::default() };
        let (bytes, blocks) = written(&*original, &sharing(reflink, kernel())).unwrap();
        assert!(bytes == original.to_vec().unwrap() && blocks < 1 << 20, "{reflink:?}: {blocks}");
        let (bytes, blocks) = written(&padded, &sharing(reflink, kernel())).unwrap();
        assert!(bytes == padded.to_vec().unwrap() && blocks < 1 << 20, "{reflink:?}: {blocks}");
    }
}

#[test]
fn what_is_too_short_to_be_shared_is_written_together() {
    let (_place, original) = file(&noise(700_000));
    let member = |number: u64| [Segment::literal(vec![1; 80]), range(&original, number * 600, 600)];
    let large = [range(&original, 0, BLOCK), Segment::zeros(BLOCK), range(&original, 5, 10)];
    let rope = Rope::new((0..300).flat_map(member).chain(large)).unwrap();
    let extents = merged(rope.extents(0, rope.size()));
    assert_eq!(extents.iter().map(|extent| extent.length).collect::<Vec<_>>(), [204_000, BLOCK, BLOCK, 10]);
    let many = Rope::new((0..5 * STEP / 80).map(|_| Segment::literal(vec![1; 80]))).unwrap();
    let extents = merged(many.extents(0, many.size()));
    assert!(extents.len() == 6 && extents.iter().all(|extent| extent.length <= STEP), "{extents:?}");
    for content in [rope, many] {
        assert!(
            written(&content, &sharing(Reflink::Never, Simulated::default())).unwrap().0 == content.to_vec().unwrap()
        );
    }
    // The end of a file can be shared, however short it is.
    let head = Segment::literal(vec![1; usize::try_from(BLOCK).unwrap()]);
    let tail = Rope::new([head, range(&original, 170 * BLOCK, 700_000 - 170 * BLOCK)]).unwrap();
    let kernel = sharing(Reflink::Always, Simulated::default());
    assert!(written(&tail, &kernel).unwrap().0 == tail.to_vec().unwrap());
    assert_eq!(kernel.kernel.shared.load(Ordering::Relaxed), 700_000 - 170 * BLOCK);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever segments a rope has, and whatever the kernel does, the bytes are those of the rope.
    #[test]
    fn what_is_written_is_what_is_read(
        pieces in prop::collection::vec((0..4_u8, 0..200_000_u64, 0..150_000_u64), 1..8),
        most in 1..100_000_u64,
        refused in 0..3_u8,
    ) {
        let (_place, original) = file(&noise(350_000));
        let segments = pieces.iter().map(|&(kind, from, length)| match kind {
            0 => Segment::zeros(length),
            1 => Segment::literal(vec![3; usize::try_from(length % 5000).unwrap()]),
            2 => range(&original, from, length),
            // Aligned, so that the kernel may share it.
            _ => range(&original, from / BLOCK * BLOCK, length / BLOCK * BLOCK),
        });
        let rope = Rope::new(segments).unwrap();
        let refusal = [None, Some((Way::Share, Errno::OPNOTSUPP)), Some((Way::Copy, Errno::XDEV))][usize::from(refused)];
        let kernel = Simulated { most: Some(most), refusal, ..Simulated::default() };
        prop_assert!(written(&rope, &sharing(Reflink::Auto, kernel)).unwrap().0 == rope.to_vec().unwrap());
    }
}
