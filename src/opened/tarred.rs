//! What a tar archive is, by the names of its first members.

use std::collections::BTreeSet;
use std::path::Path;

use crate::image::{BLOBS, INDEX, MARK};
use crate::source::{EntryPath, SourceError, TarCompression, TarNames, is_no_tar};

/// What a tar archive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TarredForm {
    /// A layout of images (containers-transports(5), "oci-archive"; also what `docker save` writes since version 25).
    Layout(TarCompression),
    /// Images as `docker save` wrote them before (containers-transports(5), "docker-archive").
    DockerArchive,
    /// A source distribution (`PyPA`, "Source distribution format").
    Sdist,
    /// Anything else.
    Tree,
    /// None: a compressed file of another kind.
    NoTar(TarCompression),
}

/// The list of images in a docker archive (moby, "Docker Image Specification v1.2").
const DOCKER_INDEX: &[u8] = b"manifest.json";

/// The layer in a directory of a docker archive.
const DOCKER_LAYER: &[u8] = b"layer.tar";

/// How the name of a source distribution ends.
const SDIST: &[u8] = b".tar.gz";

/// Members without a sign of an image after which an archive is none.
const UNSIGNED: usize = 16;

/// A member by which an archive is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TarSign {
    Mark,
    Index,
    Blob,
    DockerIndex,
    DockerLayer,
    /// It has the name of a layer, in a directory whose name is no digest. Trees may have one as well.
    NamedLayer,
    PackageInfo,
}

/// Signs after which further members are looked at.
const IMAGE: [TarSign; 4] = [TarSign::Mark, TarSign::Blob, TarSign::DockerLayer, TarSign::NamedLayer];

impl TarredForm {
    /// The form of an archive that is compressed in this way.
    pub(super) fn of(path: &Path, packing: TarCompression) -> Result<Self, SourceError> {
        let names = TarNames::open(path, packing).map_err(SourceError::at(path))?;
        let (mut found, mut top) = (BTreeSet::new(), None);
        for (seen, name) in names.filter(|name| !name.is_root()).enumerate() {
            let top = top.get_or_insert_with(|| name.as_bytes().split(|byte| *byte == b'/').next().map(<[u8]>::to_vec));
            found.extend(TarSign::of(&name, top.as_deref().unwrap_or_default()));
            let has = |sign| found.contains(&sign);
            // The mark and the index come last, since programs sort the members.
            let is_image = IMAGE.into_iter().any(has);
            if has(TarSign::Mark) && has(TarSign::Index) || seen > UNSIGNED && !is_image {
                break;
            }
        }
        if top.is_none() && is_no_tar(path, packing).map_err(SourceError::at(path))? {
            return Ok(Self::NoTar(packing));
        }
        let has = |sign| found.contains(&sign);
        let is_named_sdist = packing == TarCompression::Gzip && path.as_os_str().as_encoded_bytes().ends_with(SDIST);
        Ok(match () {
            () if has(TarSign::Mark) && has(TarSign::Index) => Self::Layout(packing),
            // It is damaged, or more than the beginning would have to be unpacked.
            () if has(TarSign::Blob) && !has(TarSign::DockerIndex) => Self::Layout(packing),
            () if has(TarSign::Blob) || has(TarSign::DockerLayer) => Self::DockerArchive,
            () if has(TarSign::NamedLayer) && has(TarSign::DockerIndex) => Self::DockerArchive,
            () if has(TarSign::PackageInfo) && is_named_sdist => Self::Sdist,
            () => Self::Tree,
        })
    }
}

impl TarSign {
    /// What a member shows. `top` is the directory of the first member.
    fn of(path: &EntryPath, top: &[u8]) -> Option<Self> {
        let above = path.parent().unwrap_or_else(EntryPath::root);
        let is_digest = |name: &[u8]| name.len() == 64 && name.iter().all(u8::is_ascii_hexdigit);
        match (above.as_bytes(), path.name()) {
            (b"", name) if name == MARK.as_bytes() => Some(Self::Mark),
            (b"", name) if name == INDEX.as_bytes() => Some(Self::Index),
            (b"", name) if name == DOCKER_INDEX => Some(Self::DockerIndex),
            (b"", name) if name.strip_suffix(b".tar").is_some_and(is_digest) => Some(Self::DockerLayer),
            (above, name) if above == BLOBS.as_bytes() && is_digest(name) => Some(Self::Blob),
            (above, name) if name == DOCKER_LAYER && is_digest(above) => Some(Self::DockerLayer),
            (_, name) if name == DOCKER_LAYER && path.depth() == 2 => Some(Self::NamedLayer),
            (above, b"PKG-INFO") if above == top && top.contains(&b'-') => Some(Self::PackageInfo),
            _ => None,
        }
    }
}
