//! The name of an image in a layout on disk, as skopeo writes it: `oci:DIR[:TAG]`, or `oci-archive:FILE[:TAG]`
//! (containers-transports(5)).

use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// An image in a layout on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageReference {
    /// The directory or the archive of the layout.
    pub layout: PathBuf,
    /// Which of both it is.
    pub form: LayoutForm,
    /// The tag; `None` for the only image of the layout.
    pub tag: Option<String>,
}

/// What a layout is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutForm {
    /// A directory.
    Directory,
    /// A tar archive without compression.
    Archive,
}

impl LayoutForm {
    /// How the names of images in it begin.
    pub(super) fn scheme(self) -> &'static str {
        match self {
            Self::Directory => "oci:",
            Self::Archive => "oci-archive:",
        }
    }
}

impl ImageReference {
    /// Parses a name. `None` if it names no image. A colon ends the path of the layout, unless there is a layout whose name
    /// has it.
    pub fn parse(name: &Path) -> Option<Self> {
        let name = name.as_os_str().as_bytes();
        let in_form = |form: LayoutForm| Some((form, name.strip_prefix(form.scheme().as_bytes())?));
        let named = [LayoutForm::Directory, LayoutForm::Archive].into_iter().find_map(in_form);
        let (form, rest) = named.filter(|(_, rest)| !matches!(rest, [] | [b':', ..]))?;
        let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(bytes.to_vec()));
        let whole = path(rest);
        let is_there = match form {
            LayoutForm::Directory => whole.is_dir(),
            LayoutForm::Archive => whole.is_file(),
        };
        let colon = rest.iter().rposition(|&byte| byte == b':').filter(|_| !is_there);
        let (layout, tag) = match colon {
            Some(at) => (path(rest.get(..at)?), rest.get(at + 1..)?),
            None => (whole, &[][..]),
        };
        let tag = std::str::from_utf8(tag).ok()?;
        if tag.contains('/') {
            return Some(Self { layout: path(rest), form, tag: None });
        }
        Some(Self { layout, form, tag: (!tag.is_empty()).then(|| tag.to_owned()) })
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.form.scheme(), self.layout.display())?;
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
            ("oci:", None),
            ("oci::tag", None),
            ("oci-archive", None),
            ("x.tar", None),
        ] {
            for (form, name) in [
                (LayoutForm::Directory, name.to_owned()),
                (LayoutForm::Archive, name.replacen("oci:", "oci-archive:", 1)),
            ] {
                let expected = expected.map(|(layout, tag)| ImageReference {
                    layout: PathBuf::from(layout),
                    form,
                    tag: tag.map(str::to_owned),
                });
                assert_eq!(ImageReference::parse(Path::new(&name)), expected, "{name}");
            }
        }
        let place = tempfile::tempdir().unwrap();
        for (form, layout) in [(LayoutForm::Directory, "a:b"), (LayoutForm::Archive, "c:d")] {
            let layout = place.path().join(layout);
            match form {
                LayoutForm::Directory => std::fs::create_dir(&layout).unwrap(),
                LayoutForm::Archive => std::fs::write(&layout, "").unwrap(),
            }
            let image = ImageReference { layout, form, tag: None };
            assert_eq!(ImageReference::parse(Path::new(&image.to_string())), Some(image));
        }
    }
}
