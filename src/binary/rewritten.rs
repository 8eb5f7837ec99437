//! A binary without device code, or with less of it.

use std::sync::Arc;

use super::changes::{self, Patch, PatchPiece};
use super::{BinaryError, FatBinary, Replaced};
use crate::fatbin::COMPRESSION;
use crate::gpu::GpuSet;
use crate::index::{Index, RecordKind};
use crate::memory::{Parser, ParserMemory};
use crate::rope::{Backing, Content, Edit, Extent, Identity, InOrderReader, ReadError, Rope, Segment};

/// The version of layouts. A new one changes bytes, and so digests.
const LAYOUT: u64 = 2;

/// The rewritten form of a fat binary.
#[derive(Debug)]
pub struct Rewritten {
    pub(crate) original: Arc<dyn Content>,
    pub(crate) edits: Arc<[Edit]>,
    rope: Rope,
    identity: Option<Identity>,
    /// The file of the input with the same bytes, if there is one.
    pub(crate) kept: Option<Arc<dyn Content>>,
    /// The memory of the edits.
    _table: ParserMemory,
}

impl Rewritten {
    /// The host binary `kept` of the input, from which `original` was joined.
    pub fn kept(original: &Arc<dyn Content>, kept: &Arc<dyn Content>) -> Result<Self, ReadError> {
        let replacement = vec![Segment::whole(Arc::clone(kept))];
        let edits = Arc::new([Edit { start: 0, end: original.size(), replacement: replacement.clone() }]);
        let (rope, identity) = (Rope::new(replacement)?, kept.identity());
        let table = ParserMemory::new(Parser::Bundle);
        Ok(Self { original: Arc::clone(original), edits, rope, identity, kept: Some(Arc::clone(kept)), _table: table })
    }

    /// The stored result of rewriting `original` with `marker`, if there is one.
    pub fn get(index: &Index, original: &Arc<dyn Content>, marker: &[u8]) -> Option<Self> {
        let identity = identity(&**original, marker)?;
        let changes: Vec<Patch> = index.get(RecordKind::Rewritten, &identity)?;
        Self::new(original, &changes, &[], Some(identity)).ok()
    }

    /// Rewrites `original` so that its wrappers point to `marker`, and stores the result.
    pub fn make(
        index: &Index,
        original: &Arc<dyn Content>,
        fat: &FatBinary,
        marker: &[u8],
    ) -> Result<Self, BinaryError> {
        let identity = identity(&**original, marker);
        let changes = fat.host_changes(marker)?;
        let made = Self::new(original, &changes, &[], identity)?;
        if let Some(identity) = identity {
            index.put(RecordKind::Rewritten, &identity, &changes);
        }
        Ok(made)
    }

    /// The binary after [`ThinChanges`], with the compressed bundles that they need.
    pub fn thin(
        original: &Arc<dyn Content>,
        changes: &ThinChanges,
        compressed: &[Option<Arc<dyn Content>>],
    ) -> Result<Self, BinaryError> {
        Self::new(original, &changes.changes, compressed, changes.identity)
    }

    fn new(
        original: &Arc<dyn Content>,
        changes: &[Patch],
        compressed: &[Option<Arc<dyn Content>>],
        identity: Option<Identity>,
    ) -> Result<Self, BinaryError> {
        let table = ParserMemory::new(Parser::Bundle);
        table.grow(changes::literal_bytes(changes)).map_err(ReadError::from)?;
        let edits = changes::edits(original, changes, compressed)?;
        let rope = changes::rope(original, edits.clone())?;
        Ok(Self { original: Arc::clone(original), edits: edits.into(), rope, identity, kept: None, _table: table })
    }
}

/// The changes that reduce a binary to the code of some GPUs.
#[derive(Debug)]
pub struct ThinChanges {
    changes: Vec<Patch>,
    identity: Option<Identity>,
}

impl ThinChanges {
    /// The stored changes, if there are any.
    pub fn get(index: &Index, original: &Arc<dyn Content>, gpus: &GpuSet) -> Option<Self> {
        let identity = thin_identity(&**original, gpus)?;
        let changes = index.get(RecordKind::Rewritten, &identity)?;
        Some(Self { changes, identity: Some(identity) })
    }

    /// Computes the changes. `bundles` replace those of `fat` in the order of their offsets.
    pub fn make(
        index: &Index,
        original: &Arc<dyn Content>,
        fat: &FatBinary,
        gpus: &GpuSet,
        bundles: &[Replaced],
    ) -> Result<Self, BinaryError> {
        let identity = thin_identity(&**original, gpus);
        let changes = fat.thin_changes(bundles)?;
        if let Some(identity) = identity {
            index.put(RecordKind::Rewritten, &identity, &changes);
        }
        Ok(Self { changes, identity })
    }

    /// The compressed bundles in the file: their numbers, and their lengths in bytes.
    pub fn compressed(&self) -> impl Iterator<Item = (usize, u64)> {
        let pieces = self.changes.iter().flat_map(|change| &change.replacement);
        pieces.filter_map(|piece| match piece {
            PatchPiece::Made { number, length } => Some((*number, *length)),
            _ => None,
        })
    }
}

/// The version of zstd is part of the identity, since it affects the lengths of compressed bundles.
fn thin_identity(original: &dyn Content, gpus: &GpuSet) -> Option<Identity> {
    let mut identity = Identity::describe("device code of some GPUs");
    identity.number(LAYOUT).add(&original.identity()?.0).add(gpus.to_string().as_bytes()).add(COMPRESSION.as_bytes());
    Some(identity.number(zstd::zstd_safe::version_number().into()).finish())
}

fn identity(original: &dyn Content, marker: &[u8]) -> Option<Identity> {
    Some(Identity::describe("without device code").number(LAYOUT).add(&original.identity()?.0).add(marker).finish())
}

impl Content for Rewritten {
    fn size(&self) -> u64 {
        self.rope.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), ReadError> {
        self.rope.read_at(offset, buffer)
    }

    fn reader(&self, offset: u64) -> Box<dyn InOrderReader + '_> {
        self.rope.reader(offset)
    }

    fn extents(&self, offset: u64, length: u64) -> Vec<Extent<'_>> {
        self.rope.extents(offset, length)
    }

    fn is_nonblocking(&self, offset: u64, length: usize) -> bool {
        self.rope.is_nonblocking(offset, length)
    }

    fn backing(&self) -> Option<&dyn Backing> {
        self.rope.backing()
    }

    fn identity(&self) -> Option<Identity> {
        self.identity
    }
}

#[cfg(test)]
mod tests {

    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::rope::testing::literal;

    #[test]
    fn what_another_session_recalls_is_what_was_made() {
        let place = tempfile::tempdir().unwrap();
        let input = place.path().join("x.whl");
        fs::write(&input, "input").unwrap();
        let [index, next] = [(); 2].map(|()| Index::open(place.path(), &input));
        let mut made = Vec::new();
        for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                continue;
            }
            let bytes = fs::read(&path).unwrap();
            let original = literal(&bytes);
            let Ok(Some(fat)) = FatBinary::scan(&original) else { continue };
            let Ok(changes) = fat.host_changes(b"marker") else { continue };
            let rewritten = Rewritten::make(&index, &original, &fat, b"marker").unwrap();
            assert!(Rewritten::get(&index, &original, b"other").is_none());
            assert!(
                Rewritten::new(&literal(&bytes[..bytes.len() / 8]), &changes, &[], None).is_err(),
                "{}",
                path.display()
            );
            made.push((original, rewritten.to_vec().unwrap()));
        }
        index.save().unwrap();
        assert!(made.len() > 10, "{}", made.len());
        assert!(made.iter().all(|(original, _)| Rewritten::get(&next, original, b"marker").is_none()));
        let next = Index::open(place.path(), &input);
        for (original, expected) in made {
            assert!(Rewritten::get(&next, &original, b"marker").unwrap().to_vec().unwrap() == expected);
        }
    }
}
