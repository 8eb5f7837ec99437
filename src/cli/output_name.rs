//! What the name of an output is meant for. It is checked before a command is confined, which creates the directory.

use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser};

use super::prepare::answers;
use crate::bucket::is_bucket;
use crate::export::PackedFormat;
use crate::image::ImageReference;

/// Ends of names that are meant for no directory, nor for a format of `collect`.
const OTHER_FORMATS: &str =
    ".tar .tar.gz .tgz .tar.xz .tar.bz2 .tar.lz4 .7z .whl .kpack .appimage .deb .rpm .flatpak .snap";

const NO_BUCKET: &str = "to a bucket, only `split --format index` writes; name a directory";

/// Reads the name of a directory.
pub(super) fn directory() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| if is_bucket(&path) { Err(NO_BUCKET) } else { check_directory(path) })
}

/// Reads the name of a directory or of a place in a bucket.
pub(super) fn directory_or_bucket() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| if is_bucket(&path) { Ok(path) } else { check_directory(path) })
}

fn check_directory(path: PathBuf) -> Result<PathBuf, &'static str> {
    if ImageReference::parse(&path).is_some() {
        return Err("a directory is written, also of images; name it without oci: and tags, which are the GPUs");
    }
    if is_of_file(&path) {
        return Err("a directory is written, and this is the name of a file; name a directory, or end it with /");
    }
    Ok(path)
}

/// Reads the name of a directory or of a packed file.
pub(super) fn directory_or_packed() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| {
        if is_bucket(&path) {
            return Err(NO_BUCKET);
        }
        if is_of_file(&path) && PackedFormat::of(&path).is_none() {
            return Err("this format is not written; name a directory, a .zip file or a .tar.zst file");
        }
        Ok(path)
    })
}

/// Whether a name is that of a packed file, or stands for standard output, and there is no such directory.
fn is_of_file(path: &Path) -> bool {
    let name = path.as_os_str().to_string_lossy().to_ascii_lowercase();
    let is_packed = || PackedFormat::of(path).is_some() || OTHER_FORMATS.split(' ').any(|end| name.ends_with(end));
    (name == "-" || !name.ends_with('/') && is_packed()) && !answers(path, Path::is_dir)
}
