//! What the code objects of an archive claim to decompress to, compared with the bytes they take.

use std::collections::HashSet;

use crate::fatbin::is_absurd;
use crate::kpack::ArchiveReader;

/// The claims of all entries of an archive. Entries can share a frame, and each of them claims its size.
#[derive(Default)]
pub(super) struct ClaimedSizes {
    entries: u64,
    /// Bytes of the frames, each counted once.
    length: u64,
    /// Bytes that the entries claim to become.
    size: u64,
    /// The first entry whose own claim is absurd: its name, its frame's length, and the size that it claims.
    worst: Option<(String, u64, u64)>,
    /// Number of entries whose own claim is absurd.
    absurd: u64,
}

impl ClaimedSizes {
    pub(super) fn of(reader: &ArchiveReader) -> Self {
        let mut claims = Self::default();
        let mut seen = HashSet::new();
        for (key, target, entry) in reader.entries() {
            let Ok((blob, true)) = reader.stored(entry) else { continue };
            claims.entries += 1;
            claims.size = claims.size.saturating_add(entry.original_size);
            if seen.insert((blob.offset, blob.size)) {
                claims.length = claims.length.saturating_add(blob.size);
            }
            if is_absurd(blob.size, entry.original_size) {
                claims.absurd += 1;
                claims.worst.get_or_insert_with(|| (format!("{key} for {target}"), blob.size, entry.original_size));
            }
        }
        claims
    }

    /// A warning if code does not compress like that. It may be meant to exhaust memory or disk.
    pub(super) fn warning(&self) -> Option<String> {
        let said = |what: &str, length: u64, size: u64| {
            let times = size / length.max(1);
            format!(
                "{what} to become {size} bytes out of {length}, {times} times as much: code does not compress like that"
            )
        };
        if is_absurd(self.length, self.size) {
            return Some(said(&format!("its {} code objects claim", self.entries), self.length, self.size));
        }
        let (name, length, size) = self.worst.as_ref()?;
        let others = match self.absurd {
            1 => String::new(),
            count => format!("; so do {} others", count - 1),
        };
        Some(format!("{}{others}", said(&format!("{name} claims"), *length, *size)))
    }
}
