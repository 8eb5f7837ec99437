//! Forms of packages and images that are not read as they are. Each is named with what makes an input of it.

use std::path::Path;

use super::error::NotUnderstood;
use super::place::Place;
use super::tarred::TarredForm;
use crate::gpu::TargetId;
use crate::source::TarCompression;
use crate::view::{COLLECTED, COMMON, REPORTS};

/// A file format that is not read as it is.
struct PackedForm {
    /// What it is.
    what: &'static str,
    /// Its first bytes.
    magic: &'static [u8],
    /// The extension of its name, which is needed if other formats have the same first bytes.
    extension: Option<&'static str>,
    /// How it becomes an input. `{}` stands for its path.
    way: &'static str,
}

/// deb(5); the RPM file format (rpm.org, "Package format"); conda-package-handling, "Conda package formats";
/// `findings/iree-module-is-a-zip.sh`.
const FORMS: &[PackedForm] = &[
    PackedForm {
        what: "a Debian package, which is not read as it is",
        magic: b"!<arch>\ndebian-binary",
        extension: None,
        way: "unpack it and name DIR: dpkg-deb -x {} DIR",
    },
    PackedForm {
        what: "an RPM package, which is not read as it is",
        magic: &[0xed, 0xab, 0xee, 0xdb],
        extension: None,
        way: "unpack it and name DIR: mkdir DIR && rpm2cpio {} | cpio -idm -D DIR",
    },
    PackedForm {
        what: "a conda package, which is not read as it is",
        magic: b"PK",
        extension: Some("conda"),
        way: "unpack it and name DIR: cph extract --dest DIR {}",
    },
    PackedForm {
        what: "a module of IREE, which loads its code objects without HIP's wrappers",
        magic: b"PK",
        extension: Some("vmfb"),
        way: "compile one for each GPU (--iree-rocm-target) in place of splitting {}",
    },
];

/// Transports of containers-transports(5) that are not read. Each is copied into a layout first.
const TRANSPORTS: [&str; 5] = ["docker://", "docker-daemon:", "docker-archive:", "containers-storage:", "dir:"];

/// Programs that decompress a file, each to a file next to it.
const DECOMPRESSORS: [(TarCompression, &str); 3] =
    [(TarCompression::Gzip, "gunzip --keep"), (TarCompression::Zstd, "unzstd"), (TarCompression::Xz, "unxz --keep")];

/// Refuses a file of one of these formats.
pub(super) fn of_file(place: &Place) -> anyhow::Result<()> {
    let head = place.head()?;
    let is_it = |form: &&PackedForm| {
        head.starts_with(form.magic) && form.extension.is_none_or(|extension| place.has_extension(extension))
    };
    match FORMS.iter().find(is_it) {
        Some(form) => refused(&place.path, form.what, form.way.replace("{}", &place.path.display().to_string())),
        None => of_tar(place),
    }
}

/// Refuses a directory with the pieces of a collection: what all GPUs share, and what each of them adds.
pub(super) fn of_directory(place: &Place) -> anyhow::Result<()> {
    let Some(listing) = place.listing()? else { return Ok(()) };
    // Another tree may have a directory of this name, in which something was collected.
    let has_gpu =
        || listing.directory_names().iter().any(|name| name.parse().is_ok_and(|gpu: TargetId| gpu.is_known()));
    if !(place.path.join(COMMON).join(REPORTS).join(COLLECTED).exists() && has_gpu()) {
        return Ok(());
    }
    let way = format!("copy {COMMON} and the directory of a GPU into a new one, and name that");
    refused(&place.path, "what `collect --shared` wrote, of which each GPU needs two directories", way)
}

/// Refuses a tar archive of an image or of source code.
pub(super) fn of_tar(place: &Place) -> anyhow::Result<()> {
    let path = place.path.display();
    let (what, way) = match place.tarred()? {
        Some(TarredForm::DockerArchive) => (
            "an image as `docker save` wrote it before version 25, which is not read as it is",
            format!("copy it into a layout and name that: skopeo copy docker-archive:{path} oci:DIR:TAG"),
        ),
        Some(TarredForm::Sdist) => (
            "a source distribution, which has no built code",
            format!("build a wheel and name that: pip wheel --no-deps {path}"),
        ),
        Some(form @ (TarredForm::Layout(packing) | TarredForm::NoTar(packing))) => {
            let Some((_, program)) = DECOMPRESSORS.iter().find(|(of, _)| *of == packing) else { return Ok(()) };
            let what = match form {
                TarredForm::NoTar(_) => "a compressed file that is no tar archive",
                _ => "a compressed archive of images, which is not read as it is",
            };
            (what, format!("decompress it and name the result: {program} {path}"))
        }
        Some(TarredForm::Tree) | None => return Ok(()),
    };
    refused(&place.path, what, way)
}

fn refused(path: &Path, what: &'static str, way: String) -> anyhow::Result<()> {
    Err(NotUnderstood::Packed { path: path.to_owned(), what, way }.into())
}

/// Refuses a reference to an image that is in no layout on disk.
pub(super) fn of_reference(path: &Path) -> anyhow::Result<()> {
    let name = path.to_string_lossy();
    // A file or a directory may have such a name.
    if !TRANSPORTS.iter().any(|transport| name.starts_with(transport)) || path.exists() {
        return Ok(());
    }
    let way = format!("copy it into a layout and name that: skopeo copy {name} oci:DIR:TAG");
    refused(path, "a reference to an image that is in no layout on disk", way)
}
