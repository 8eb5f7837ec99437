//! Lists arbitrary bytes as a wheel and reads its members: completely, in pieces, and without kpackfs.

use kpackfs::rope::Content;
use kpackfs::source::{Entry, EntryKind, Input};

use super::support::{
    MOST, Random, content, directory, inflate, read, resources, same_in_pieces, stays_in_the_tree, wheel,
};

/// The number of members that are read; more would only take time.
const MEMBERS: usize = 16;

/// Checks bytes that may be a wheel.
pub(crate) fn run(bytes: &[u8]) {
    let directory = directory();
    let path = wheel(&directory, bytes);
    let Ok(input) = Input::open(&path, &resources()) else { return };
    for entry in &input.entries {
        stays_in_the_tree(&input, entry);
        assert!(is_short(entry), "{}", entry.path);
    }
    assert!(input.entries.windows(2).all(|pair| pair[0].path < pair[1].path), "sorted, and each path once");
    // Members claim in total no more than a file system can hold.
    let sizes = input.entries.iter().filter_map(|entry| content(entry)).map(Content::size);
    assert!(i64::try_from(sizes.fold(0_u64, |sum, size| sum.checked_add(size).expect("a sum"))).is_ok());
    let again = Input::open(&path, &resources()).expect("as before");
    let mut random = Random::of(bytes);
    for (entry, counterpart) in input.entries.iter().zip(&again.entries).take(MEMBERS) {
        assert_eq!(entry.path, counterpart.path);
        if let (Some(content), Some(counterpart)) = (content(entry), content(counterpart)) {
            check_member(content, counterpart, &mut random);
        }
    }
}

/// Whether a symlink is as short as those that a kernel takes.
fn is_short(entry: &Entry) -> bool {
    !matches!(&entry.kind, EntryKind::Symlink(target) if target.len() >= 4096)
}

/// Reads a member completely, and the same member of another listing in pieces.
fn check_member(member: &dyn Content, counterpart: &dyn Content, random: &mut Random) {
    let size = member.size();
    assert_eq!(size, counterpart.size());
    if size > MOST {
        // Whatever a member claims, the cost is bounded by the bytes that exist.
        drop(member.peek(&mut [0; 4096]));
        return;
    }
    // Once the member is known to be damaged, its packed bytes can no longer be read.
    let truth = truth(member);
    let whole = read(member);
    if let Ok(whole) = &whole
        && size > 0
    {
        assert!(truth.as_ref() == Some(whole), "{} bytes, not {:?}", whole.len(), truth.map(|truth| truth.len()));
    }
    let truth = truth.unwrap_or_default();
    let mut beginning = vec![0; usize::try_from(size.min(random.below(5000) + 1)).expect("small")];
    if counterpart.peek(&mut beginning).is_ok() {
        assert!(truth.starts_with(&beginning), "the first {} bytes", beginning.len());
    }
    let all = same_in_pieces(counterpart, &truth, random);
    assert!(all || whole.is_err(), "what can be read as a whole can be read in pieces");
    assert!(member.read_at(size, &mut [0]).is_err() && member.read_at(u64::MAX, &mut [0; 2]).is_err());
}

/// What the packed bytes inflate to, up to the first damage; `None` if they cannot be read.
fn truth(member: &dyn Content) -> Option<Vec<u8>> {
    let packed = member.member()?.packed();
    assert!(packed.bytes.size() <= MOST || packed.deflated);
    let bytes = (packed.bytes.size() <= MOST).then(|| read(&*packed.bytes).ok())??;
    if !packed.deflated {
        return Some(bytes);
    }
    Some(inflate(&bytes, MOST).0)
}
