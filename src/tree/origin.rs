//! The origin of a node, which its extended attributes report.

use std::fmt::{self, Write};
use std::sync::Arc;

use crate::source::EntryPath;

/// The prefix of the attributes' names. Attributes of `user` need no privilege (xattr(7)).
const NAMESPACE: &str = "user.kpackfs.";

/// The origin of a node.
#[derive(Clone, Debug, Default)]
pub struct Origin {
    /// How it was made.
    pub kind: OriginKind,
    /// The path in the input. For [`OriginKind::Made`], the path in the part.
    path: Option<EntryPath>,
    stated: Option<Arc<PartRecord>>,
}

/// Digests in the RECORD of a part.
pub trait States: Send + Sync + fmt::Debug {
    /// The SHA-256 of a file if it is known without reading the file. `path` is the path in the input, or in the part for a
    /// file that is made for it.
    fn sha256(&self, path: &EntryPath) -> Option<[u8; 32]>;
}

/// Shared digests of a part's RECORD. Each file of the part refers to it. The box makes the reference one pointer
/// instead of two.
#[derive(Debug)]
pub struct PartRecord(pub Box<dyn States>);

/// How a node was made of the input, the value of `user.kpackfs.kind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub enum OriginKind {
    /// An unchanged entry of the input.
    Unchanged,
    /// A binary without its device code, or a binary or bundle with less of it.
    Rewritten,
    /// A binary joined with the device code of its archives.
    Joined,
    /// An unchanged kernel database, moved to the part of its architecture.
    Database,
    /// An archive of device code.
    Archive,
    /// A wheel.
    Wheel,
    /// A report of the mount about itself.
    Report,
    /// Anything else that the input does not have: directories of views, links to them, manifests, the dist-info of a
    /// wheel.
    #[default]
    Made,
}

impl OriginKind {
    /// Whether the bytes of such a file are not those of an entry of the input.
    pub fn is_made(self) -> bool {
        !matches!(self, Self::Unchanged | Self::Database)
    }
}

impl Origin {
    /// A node of this kind that was not made from a single entry.
    pub fn made(kind: OriginKind) -> Self {
        Self { kind, ..Self::default() }
    }

    /// A node that was made from an entry of the input.
    pub fn of(kind: OriginKind, entry: &EntryPath) -> Self {
        Self { kind, path: Some(entry.clone()), stated: None }
    }

    /// A file that is made for a part, with its path in the part.
    pub fn made_for(part: &Arc<PartRecord>, path: &EntryPath) -> Self {
        Self { kind: OriginKind::Made, path: Some(path.clone()), stated: Some(Arc::clone(part)) }
    }

    /// The same origin, with a part that has the file.
    #[must_use]
    pub fn stated_by(self, part: &Arc<PartRecord>) -> Self {
        Self { stated: Some(Arc::clone(part)), ..self }
    }

    /// The origin of a file that a view shows in place of this one: other bytes made from the same entry.
    #[must_use]
    pub(crate) fn replaced(&self) -> Self {
        let kind = match self.kind {
            OriginKind::Unchanged | OriginKind::Database => OriginKind::Rewritten,
            kind => kind,
        };
        Self { kind, path: self.path.clone(), stated: None }
    }

    /// The entry of the input from which it was made, if there is a single one.
    pub fn entry(&self) -> Option<&EntryPath> {
        self.path.as_ref().filter(|_| self.kind != OriginKind::Made)
    }

    /// The value of an extended attribute: `kind`; `origin`, the path in the input (at most 4095 bytes); `sha256` in
    /// hexadecimal, as the RECORD of the view has it, if that needs no more than reading the input's RECORD.
    pub fn attribute(&self, name: &[u8]) -> Option<Vec<u8>> {
        match name.strip_prefix(NAMESPACE.as_bytes())? {
            b"kind" => Some(self.kind.into_str().into()),
            b"origin" => Some(self.entry()?.as_bytes().to_vec()),
            b"sha256" => {
                let sha256 = self.stated.as_ref()?.0.sha256(self.path.as_ref()?)?;
                let text = sha256.iter().try_fold(String::new(), |mut text, byte| {
                    write!(text, "{byte:02x}")?;
                    Ok::<_, std::fmt::Error>(text)
                });
                text.ok().map(String::into_bytes)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rope::{Rope, Segment};
    use crate::wheelparts::Digest;

    /// Has the digest of one file.
    #[derive(Debug)]
    struct StatedFile(EntryPath, Arc<Digest>);

    impl States for StatedFile {
        fn sha256(&self, path: &EntryPath) -> Option<[u8; 32]> {
            self.1.known_sha256().filter(|_| *path == self.0)
        }
    }

    #[test]
    fn attributes_tell_what_is_known() {
        let entry = EntryPath::new(b"lib/\xff.so").unwrap();
        let text = |origin: &Origin, name: &str| origin.attribute(name.as_bytes());
        let content = Arc::new(Rope::new([Segment::literal(*b"abc")]).unwrap());
        let digest = Arc::new(Digest::new("x", content, None));
        let part = Arc::new(PartRecord(Box::new(StatedFile(entry.clone(), Arc::clone(&digest)))));
        let origin = Origin::of(OriginKind::Rewritten, &entry).stated_by(&part);
        let made = Origin::made_for(&part, &entry);
        assert_eq!(text(&origin, "user.kpackfs.kind").unwrap(), b"rewritten");
        assert_eq!(text(&origin, "user.kpackfs.origin").unwrap(), b"lib/\xff.so");
        assert_eq!(text(&made, "user.kpackfs.origin"), None, "the input does not have it");
        assert_eq!(text(&origin, "user.kpackfs.sha256"), None, "nobody has computed it");
        digest.sha256().unwrap();
        // FIPS 180-2, appendix B.1.
        let expected = b"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        for origin in [&origin, &made] {
            assert_eq!(text(origin, "user.kpackfs.sha256").unwrap(), expected);
        }
        assert_eq!(text(&origin.replaced(), "user.kpackfs.sha256"), None, "of other bytes");
        for name in ["user.kpackfs.", "user.kpackfs.size", "user.mime_type", "system.posix_acl_access", "kind", ""] {
            assert_eq!(text(&origin, name), None, "{name}");
        }
        assert_eq!(text(&Origin::default(), "user.kpackfs.kind").unwrap(), b"made");
        assert_eq!(text(&Origin::default(), "user.kpackfs.origin"), None);
    }
}
