//! The name of an image in a layout on disk, as skopeo writes it: `oci:DIR[:TAG]` (containers-transports(5)).

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// How such a name begins.
const SCHEME: &[u8] = b"oci:";

/// An image in a layout on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageReference {
    /// The directory of the layout.
    pub directory: PathBuf,
    /// The tag; `None` for the only image of the layout.
    pub tag: Option<String>,
}

impl ImageReference {
    /// Parses a name. `None` if it names no image. A colon ends the directory, unless there is a directory whose name has
    /// it.
    pub fn parse(name: &Path) -> Option<Self> {
        let rest = name.as_os_str().as_bytes().strip_prefix(SCHEME)?;
        let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
        let whole = path(rest);
        let colon = rest.iter().rposition(|&byte| byte == b':').filter(|_| !whole.is_dir());
        let (directory, tag) = match colon {
            Some(at) => (path(rest.get(..at)?), rest.get(at + 1..)?),
            None => (whole, &[][..]),
        };
        let tag = std::str::from_utf8(tag).ok()?;
        if tag.contains('/') {
            return Some(Self { directory: path(rest), tag: None });
        }
        Some(Self { directory, tag: (!tag.is_empty()).then(|| tag.to_owned()) })
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "oci:{}", self.directory.display())?;
        self.tag.as_ref().map_or(Ok(()), |tag| write!(formatter, ":{tag}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_images() {
        for (name, expected) in [
            ("oci:a", Some(("a", None))),
            ("oci:a:b", Some(("a", Some("b")))),
            ("oci:/x/a.b:7.2-full", Some(("/x/a.b", Some("7.2-full")))),
            ("oci:a:", Some(("a", None))),
            ("oci:/a:b/c", Some(("/a:b/c", None))),
            ("oci", None),
            ("x.tar", None),
        ] {
            let expected = expected.map(|(directory, tag)| ImageReference {
                directory: PathBuf::from(directory),
                tag: tag.map(str::to_owned),
            });
            assert_eq!(ImageReference::parse(Path::new(name)), expected, "{name}");
        }
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("a:b");
        std::fs::create_dir(&directory).unwrap();
        let name = format!("oci:{}", directory.display());
        assert_eq!(ImageReference::parse(Path::new(&name)), Some(ImageReference { directory, tag: None }));
    }
}
