//! Takes arbitrary bytes for a binary with device code: scans it, splits it, and examines the result as a loader does.

use std::sync::Arc;

use kpackfs::binary::{FatBinary, Imports, SplitBinary, data_ranges, marker};
use kpackfs::fatbin::{CodeObject, read_bundle};
use kpackfs::kpack::BundleJobs;
use kpackfs::rope::{Content, Edit, Rope, Segment};
use kpackfs::split::ThinBinary;
use rocm_kpack::Marker;

use super::support::{Random, Watched, read, resources, same_in_pieces};

/// Checks bytes that may be a binary.
pub(crate) fn run(bytes: &[u8]) {
    let watched = Watched::new(bytes);
    let content: Arc<dyn Content> = Arc::<Watched>::clone(&watched);
    let scanned = FatBinary::scan(&content);
    watched.check("scanning");
    // For a compressed file, other parts are examined first.
    let packed = Watched::deflated(bytes);
    let again: Arc<dyn Content> = Arc::<Watched>::clone(&packed);
    if let Ok(Some(again)) = FatBinary::scan(&again) {
        let fat = scanned.as_ref().expect("as when it is compressed").as_ref().expect("as when it is compressed");
        assert_eq!(fat.wrappers().len(), again.wrappers().len());
    }
    packed.check("scanning, compressed");
    let watched = Watched::new(bytes);
    let unsplit: Arc<dyn Content> = Arc::<Watched>::clone(&watched);
    let split = SplitBinary::read(&unsplit);
    watched.check("reading as split");
    if let Ok(Some(split)) = split {
        assert!(split.problems.len() <= 2000, "{} problems", split.problems.len());
    }
    let watched = Watched::new(bytes);
    let loaded: Arc<dyn Content> = Arc::<Watched>::clone(&watched);
    drop(Imports::read(&loaded));
    for range in data_ranges(&loaded).unwrap_or_default() {
        assert!(range.start <= range.end && range.end <= bytes.len() as u64, "{range:?}");
    }
    watched.check("reading what a loader reads");
    let Ok(Some(fat)) = scanned else { return };
    let wrappers = fat.wrappers();
    assert!(!wrappers.is_empty(), "code without wrappers");
    for wrapper in wrappers.iter().take(64) {
        assert!(wrapper.bundle < wrapper.limit && wrapper.limit <= bytes.len() as u64, "{wrapper:?}");
        drop(read_bundle(&content, wrapper.bundle, wrapper.limit, &resources()));
    }
    check_rewritten(bytes, &fat, wrappers.len());
    for gpus in ["gfx90a", "gfx1030+gfx90a:xnack-"] {
        check_thin(bytes, &content, &fat, gpus);
    }
}

/// The thin binary contains a part of each wrapper's code, byte for byte.
fn check_thin(bytes: &[u8], content: &Arc<dyn Content>, fat: &FatBinary, gpus: &str) {
    let (resources, gpus) = (resources(), Arc::new(gpus.parse().expect("targets")));
    let thin = ThinBinary::new("x", content, &gpus, &Arc::from([]), &BundleJobs::new(&resources));
    let Ok(rewritten) = thin.rewritten() else { return };
    assert!(rewritten.size() <= bytes.len() as u64 + (64 << 10), "{} bytes of {}", rewritten.size(), bytes.len());
    // A compressed code object may be damaged.
    let Ok(all) = read(&*rewritten) else { return };
    assert!(same_in_pieces(&*rewritten, &all, &mut Random::of(bytes)));
    let watched = Watched::new(&all);
    let new: Arc<dyn Content> = Arc::<Watched>::clone(&watched);
    let scanned = FatBinary::scan(&new).expect("it can be read").expect("it has device code still");
    let (before, after) = (fat.wrappers(), scanned.wrappers());
    assert_eq!(before.len(), after.len());
    for (old, new_wrapper) in before.iter().zip(&after).take(64) {
        let Ok(old) = read_bundle(content, old.bundle, old.limit, &resources) else { continue };
        let found = read_bundle(&new, new_wrapper.bundle, new_wrapper.limit, &resources).expect("a bundle");
        for object in found {
            // Bytes of a bundle that is damaged further on are served, but cannot be compared: it is never read whole.
            let same = |other: &CodeObject| {
                other.target == object.target
                    && read(&*other.content).is_ok_and(|all| Some(all) == read(&*object.content).ok())
            };
            if old.iter().any(|other| other.target == object.target && read(&*other.content).is_err()) {
                continue;
            }
            assert!(old.iter().any(same), "{object:?} of {old:?}");
        }
    }
}

fn check_rewritten(bytes: &[u8], fat: &FatBinary, wrappers: usize) {
    let marker = marker("lib/x.so", &["../.kpack/x_@GFXARCH@.kpack".to_owned()]);
    let Ok(edits) = fat.edits(&marker) else { return };
    let Ok(rope) = fat.rewrite(&marker) else { return };
    let size = rope.size();
    assert!(size <= bytes.len() as u64 + (64 << 10), "{size} bytes instead of {}", bytes.len());
    let rewritten = read(&rope).expect("what was planned can be read");
    assert_eq!(rewritten.len() as u64, size);
    assert!(rewritten == applied(bytes, edits), "the edits say something else");
    assert!(same_in_pieces(&rope, &rewritten, &mut Random::of(bytes)));
    let watched = Watched::new(&rewritten);
    let new: Arc<dyn Content> = Arc::<Watched>::clone(&watched);
    let split = SplitBinary::read(&new).expect("readable").expect("it is split");
    watched.check("reading the rewritten one");
    assert_eq!(split.wrappers.len(), wrappers);
    for (position, wrapper) in split.wrappers.iter().enumerate() {
        assert_eq!((wrapper.version, wrapper.index), (1, position as u64));
        let found = wrapper.marker.as_ref().expect("a pointer to the marker");
        let marker = Marker::decode(found).expect("a marker");
        assert_eq!((marker.kernel_name.as_str(), marker.kpack_search_paths.len()), ("lib/x.so", 1));
    }
    let code = split.problems.iter().find(|problem| problem.contains("still"));
    assert!(code.is_none(), "{code:?}");
    let again = FatBinary::scan(&new);
    assert!(matches!(again, Ok(None)), "{again:?}");
    // The original may have sections past its end.
    let difference = fat.first_difference(&new).unwrap_or_default();
    // Headers can declare any bytes a section that is not loaded, including bytes that have to change.
    assert!(difference.as_ref().is_none_or(|it| it.starts_with("section ")), "{difference:?}");
}

/// The edits, applied one by one, the last one first.
fn applied(bytes: &[u8], mut edits: Vec<Edit>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    edits.sort_by_key(|edit| (edit.start, edit.end));
    for edit in edits.into_iter().rev() {
        let replacement = Rope::new(edit.replacement.into_iter().filter(|it: &Segment| it.length() > 0));
        let replacement = read(&replacement.expect("a rope")).expect("bytes");
        let range = usize::try_from(edit.start).expect("in memory")..usize::try_from(edit.end).expect("in memory");
        bytes.splice(range, replacement);
    }
    bytes
}
