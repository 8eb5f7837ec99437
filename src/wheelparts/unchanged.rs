//! Unchanged files of the input in wheels.
//!
//! There may be hundreds of thousands, kept for as long as a mount lasts. So each stores only what cannot be computed
//! again. Its digest is made on demand.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::digest::Digest;
use super::entry::WheelEntry;
use super::input_record::InputRecord;
use crate::memory::Reservation;
use crate::metrics::MemoryClass;
use crate::resources::Resources;
use crate::rope::{Content, Packed, PackedContent};
use crate::source::{Entry, EntryKind, EntryPath};
use crate::wheel::Paths;

/// Bytes of a digest that is kept, without the name.
const KEPT: u64 = 320;

/// The digests of files of the input. Those that differ from RECORD, or that are asked for often, are kept.
#[derive(Debug)]
pub struct InputDigests {
    record: Arc<InputRecord>,
    resources: Arc<Resources>,
    /// By paths in the input.
    kept: Mutex<(HashMap<EntryPath, Arc<Digest>>, Reservation)>,
}

/// An unchanged file of the input in a wheel.
#[derive(Clone, Debug)]
pub struct Unchanged {
    /// Its path in the input.
    pub entry: EntryPath,
    content: Arc<dyn Content>,
    pub(super) executable: bool,
    /// Whether the SHA-256 that the input's RECORD claims counts until one is computed. Otherwise it is only compared with the
    /// computed one.
    stands: bool,
}

impl Unchanged {
    /// A file of the input; `None` if the entry is not a file.
    ///
    /// If the input is a zip file, the member is copied in its stored form, with the CRC-32 from the central directory.
    /// The SHA-256 is that of the input's RECORD, if there is one for a file of this size. The content is not read for
    /// it: a wrong digest in the input stays wrong, unless [`Digest`] reads the content, now (as `split` does for
    /// host and device wheels) or in an earlier session. Digests in the RECORD of an unpacked wheel are only compared,
    /// since nothing protects its files from changes.
    pub(crate) fn of(entry: &Entry) -> Option<Self> {
        let EntryKind::File { content, link_group } = &entry.kind else { return None };
        // RECORD may refer to the text of a former symlink.
        let stands = link_group.is_none() && content.member().is_some();
        let executable = entry.attributes.mode & 0o111 != 0;
        Some(Self { entry: entry.path.clone(), content: Arc::clone(content), executable, stands })
    }

    /// A file of the input, unless the part with these paths makes it again or omits it.
    pub fn taken_over(paths: &Paths<'_>, entry: &Entry) -> Option<Self> {
        let is_there = paths.keeps(&entry.path) || paths.of(&entry.path).is_some();
        is_there.then(|| Self::of(entry))?
    }

    /// Size in bytes.
    pub fn size(&self) -> u64 {
        self.content.size()
    }

    /// The input's deflate stream of it, if there is one.
    pub(super) fn packed(&self) -> Option<Packed> {
        self.content.member().map(PackedContent::packed).filter(|packed| packed.deflated)
    }

    fn file(&self, path: EntryPath, digest: Arc<Digest>) -> WheelEntry {
        WheelEntry { path, executable: self.executable, digest, deflated: self.packed().map(|packed| packed.bytes) }
    }
}

impl InputDigests {
    pub(super) fn new(record: &Arc<InputRecord>, resources: &Arc<Resources>) -> Arc<Self> {
        let kept = Mutex::new((HashMap::new(), resources.budget.account(MemoryClass::Streams, 0)));
        Arc::new(Self { record: Arc::clone(record), resources: Arc::clone(resources), kept })
    }

    /// The digest in RECORD of an entry, to be compared with what there is; with `stands` it counts until then.
    pub(super) fn original(&self, path: &EntryPath, content: &Arc<dyn Content>, stands: bool) -> Digest {
        let crc32 = content.member().map(|member| member.packed().crc32);
        let digest = Digest::remembered(path.to_text(), Arc::clone(content), crc32, &self.resources);
        digest.claimed(&self.record, path, stands)
    }

    /// An unchanged file as a file of a part, at this path.
    pub fn file(&self, path: EntryPath, unchanged: &Unchanged) -> WheelEntry {
        unchanged.file(path, self.digest(unchanged))
    }

    /// The same without asking RECORD, which its digest does when it is asked for. It is kept, because all device wheels have
    /// the file.
    pub(super) fn file_unasked(&self, path: EntryPath, unchanged: &Unchanged) -> WheelEntry {
        let made = || self.keep(unchanged, Arc::new(self.new_digest(unchanged)));
        unchanged.file(path, self.known(unchanged).unwrap_or_else(made))
    }

    /// The digest of an unchanged file. If it is the one in RECORD, the object is made again at each call.
    pub(super) fn digest(&self, unchanged: &Unchanged) -> Arc<Digest> {
        if let Some(digest) = self.known(unchanged) {
            return digest;
        }
        let digest = Arc::new(self.new_digest(unchanged));
        if digest.is_as_claimed() { digest } else { self.keep(unchanged, digest) }
    }

    fn known(&self, unchanged: &Unchanged) -> Option<Arc<Digest>> {
        self.kept.lock().0.get(&unchanged.entry).cloned()
    }

    /// Keeps a digest, unless another thread did so first. Returns the one that is kept. The lock is not held while a digest is
    /// made, since that accesses the index.
    pub(super) fn keep(&self, unchanged: &Unchanged, digest: Arc<Digest>) -> Arc<Digest> {
        let (digests, memory) = &mut *self.kept.lock();
        if let Some(kept) = digests.get(&unchanged.entry) {
            return Arc::clone(kept);
        }
        digests.insert(unchanged.entry.clone(), Arc::clone(&digest));
        memory.resize(memory.bytes() + KEPT + unchanged.entry.as_bytes().len() as u64);
        digest
    }

    fn new_digest(&self, unchanged: &Unchanged) -> Digest {
        self.original(&unchanged.entry, &unchanged.content, unchanged.stands)
    }
}
