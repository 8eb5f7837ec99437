//! A layer: a tar archive of changes to the layers below (OCI Image Format Specification, "Image Layer Filesystem
//! Changeset").

use std::ops::Range;
use std::sync::Arc;

use oci_spec::image::{Descriptor, MediaType};
use tar::EntryType;

use super::layout::packing_in;
use super::{ImageError, Layout};
use crate::index::{Index, RecordKind};
use crate::memory::{Parser, ParserMemory};
use crate::resources::Resources;
use crate::rope::{Content, Identity, Sha256};
use crate::source::{Attributes, EntryPath, TarCompression, TarMember, kind_name, open_archive, path_of, read_members};
use crate::split::hex;

/// How the name of a file begins that removes the file with the rest of the name.
const WHITEOUT: &[u8] = b".wh.";
/// The name of a file that removes everything of its directory that lower layers have.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// How the names of other files begin that some storage drivers leave. They mean nothing.
const META: &[u8] = b".wh..wh.";

/// Media types of layers that have the same name but for this ending, and how they are compressed.
const COMPRESSIONS: [(&str, TarCompression); 5] = [
    (".tar+gzip", TarCompression::Gzip),
    (".tar.gzip", TarCompression::Gzip),
    (".tar+zstd", TarCompression::Zstd),
    (".tar.zstd", TarCompression::Zstd),
    (".tar", TarCompression::Plain),
];
const KINDS: [&str; 4] = [
    "application/vnd.oci.image.layer.v1",
    "application/vnd.oci.image.layer.nondistributable.v1",
    "application/vnd.docker.image.rootfs.diff",
    "application/vnd.docker.image.rootfs.foreign.diff",
];

/// A layer of an image.
#[derive(Debug)]
pub(crate) struct Layer {
    /// Its digest, which names it in messages.
    pub(crate) digest: String,
    /// The tar archive.
    pub(crate) archive: Arc<dyn Content>,
    compression: TarCompression,
    /// In the order of the archive.
    pub(crate) members: Vec<LayerMember>,
    #[expect(dead_code, reason = "the members count as long as it is there")]
    table: ParserMemory,
}

/// A member of a layer.
#[derive(Clone, Debug)]
pub(crate) struct LayerMember {
    /// Its path. That of a whiteout is what it removes, and that of an opaque mark its directory.
    pub(crate) path: EntryPath,
    pub(crate) kind: LayerMemberKind,
    pub(crate) attributes: Attributes,
    /// The bytes of its content.
    pub(crate) content: Range<u64>,
    /// All of its blocks in the archive: its headers, with those that extend them, and its content.
    pub(crate) blocks: Range<u64>,
}

/// What a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LayerMemberKind {
    Directory,
    File,
    /// A further name of this file.
    HardLink(EntryPath),
    Symlink(Arc<[u8]>),
    /// A device or a FIFO.
    Special,
    Whiteout,
    Opaque,
    /// The root, a global header, or a mark of a storage driver.
    Other,
}

impl Layer {
    /// Opens the blob of a layer and reads its headers.
    pub(super) fn open(layout: &Layout, of: &Descriptor, resources: &Arc<Resources>) -> Result<Self, ImageError> {
        let digest = of.digest().to_string();
        let stated = compression(of.media_type()).ok_or_else(|| ImageError::MediaType {
            what: format!("layer {digest}"),
            media_type: of.media_type().to_string(),
            expected: "those of tar archives, plain or compressed with gzip or zstd",
        })?;
        let (blob, path) = (layout.check(of)?, layout.blob(of.digest())?);
        if packing_in(&path, &*blob)? != Some(stated) {
            let reason = format!("it is not compressed as its media type {} says", of.media_type());
            return Err(ImageError::Blob { path, reason });
        }
        let failed = |source| ImageError::Layer { layer: digest.clone(), source };
        let archive = open_archive(&path, &blob, stated, resources).map_err(failed)?;
        let (mut members, table) = (Vec::new(), ParserMemory::new(Parser::Tar));
        // Its digest says that it is whole, so it may end without empty blocks, as layers of umoci do.
        read_members(&path, &archive, &mut |member| {
            let member = LayerMember::of(&member, &*archive)?;
            let counted = table.add_entry(member.path.as_bytes()).and_then(|()| table.grow(member.link_length()));
            counted.map_err(|error| error.to_string())?;
            members.push(member);
            Ok(())
        })
        .map_err(failed)?;
        Ok(Self { digest, archive, compression: stated, members, table })
    }

    /// The digest of its archive (`diff_id`). All of it is read, once for an index.
    pub(super) fn diff_id(&self, index: &Index) -> Result<String, ImageError> {
        // Without compression, the archive is the blob, whose digest has been compared.
        if self.compression == TarCompression::Plain {
            return Ok(self.digest.clone());
        }
        let identity = Identity::describe("diff_id").add(self.digest.as_bytes()).finish();
        if let Some(known) = index.get(RecordKind::Digest, &identity) {
            return Ok(known);
        }
        let found = format!("sha256:{}", hex(&Sha256::of_content(&*self.archive)?));
        index.put(RecordKind::Digest, &identity, &found);
        Ok(found)
    }

    /// An error about a member.
    pub(super) fn bad(&self, member: &EntryPath, reason: impl Into<String>) -> ImageError {
        ImageError::Member { layer: self.digest.clone(), member: member.to_string(), reason: reason.into() }
    }
}

impl LayerMember {
    /// Bytes of the target of a link.
    fn link_length(&self) -> u64 {
        match &self.kind {
            LayerMemberKind::Symlink(target) => target.len() as u64,
            LayerMemberKind::HardLink(target) => target.as_bytes().len() as u64,
            _ => 0,
        }
    }

    fn of(member: &TarMember, archive: &dyn Content) -> Result<Self, String> {
        let (attributes, content, blocks) = (member.attributes, member.content.clone(), member.blocks.clone());
        // Some builders write absolute names.
        let path_of = |name: &[u8]| {
            let start = name.iter().position(|&byte| byte != b'/').unwrap_or(name.len());
            path_of(name.get(start..).unwrap_or_default()).map_err(|error| error.to_string())
        };
        let path = if member.kind == EntryType::XGlobalHeader { None } else { path_of(&member.name)? };
        let Some(path) = path else {
            return Ok(Self { path: EntryPath::root(), kind: LayerMemberKind::Other, attributes, content, blocks });
        };
        member.check_content(archive)?;
        let kind = match (path.name(), member.kind) {
            (OPAQUE, _) => LayerMemberKind::Opaque,
            (name, _) if name.starts_with(META) => LayerMemberKind::Other,
            (name, _) if name.starts_with(WHITEOUT) => LayerMemberKind::Whiteout,
            (_, EntryType::Directory) => LayerMemberKind::Directory,
            (_, EntryType::Regular | EntryType::Continuous) => LayerMemberKind::File,
            (_, EntryType::Symlink) => LayerMemberKind::Symlink(member.symlink_target()?),
            (_, EntryType::Link) => {
                let target = path_of(&member.link).map_err(|error| format!("a hard link: {error}"))?;
                LayerMemberKind::HardLink(target.ok_or_else(|| "a hard link to the root".to_owned())?)
            }
            (_, EntryType::Block | EntryType::Char | EntryType::Fifo) => LayerMemberKind::Special,
            (_, other) => return Err(format!("neither a file, a directory nor a link, but {}", kind_name(other))),
        };
        let path = match kind {
            LayerMemberKind::Opaque => path.parent().unwrap_or_else(EntryPath::root),
            LayerMemberKind::Whiteout => removed(&path)?,
            _ => path,
        };
        Ok(Self { path, kind, attributes, content, blocks })
    }
}

/// What a whiteout removes.
fn removed(whiteout: &EntryPath) -> Result<EntryPath, String> {
    let name = whiteout.name().strip_prefix(WHITEOUT).unwrap_or_default();
    if matches!(name, b"" | b"." | b"..") {
        return Err("a whiteout without a name".to_owned());
    }
    Ok(whiteout.parent().unwrap_or_else(EntryPath::root).child(name))
}

/// How layers of a media type are compressed; `None` for types that are not those of layers.
pub(super) fn compression(media_type: &MediaType) -> Option<TarCompression> {
    let name = media_type.to_string();
    let (kind, compression) = COMPRESSIONS.iter().find_map(|(ending, it)| Some((name.strip_suffix(ending)?, *it)))?;
    KINDS.contains(&kind).then_some(compression)
}
