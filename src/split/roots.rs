//! Overlay roots and group names: where archives are and what they are called.

use super::{Options, SplitError};
use crate::source::{EntryKind, EntryPath, Input};

/// The directories that can hold archives.
pub(super) enum Roots {
    /// Given by the user.
    Given(Vec<EntryPath>),
    /// The root of the input.
    Tree,
    /// Every top-level package.
    Packages,
}

/// A group name that cannot be a part of a file name.
#[derive(Debug, thiserror::Error)]
#[error("--group {0:?}: a group is a name of letters, digits, \".\", \"_\", \"-\" and \"+\"")]
pub struct GroupError(String);

impl Roots {
    pub(super) fn new(input: &Input, options: &Options) -> Result<Self, SplitError> {
        let Some(given) = &options.overlay_roots else {
            return Ok(if input.dist_info().is_some() { Self::Packages } else { Self::Tree });
        };
        let is_directory = |root: &EntryPath| {
            root.is_root() || input.entry(root).is_some_and(|entry| matches!(entry.kind, EntryKind::Directory))
        };
        match given.iter().find(|root| !is_directory(root)) {
            Some(missing) => Err(SplitError::NoSuchRoot(missing.clone())),
            None => Ok(Self::Given(given.clone())),
        }
    }

    /// The overlay root of a file; `None` if it lies below none.
    pub(super) fn of(&self, path: &EntryPath) -> Option<EntryPath> {
        match self {
            Self::Given(roots) => {
                let above = roots.iter().filter(|root| path.below(root).is_some());
                above.max_by_key(|root| root.depth()).cloned()
            }
            Self::Tree => Some(EntryPath::root()),
            Self::Packages => Some(package(path)),
        }
    }
}

/// The top-level package of a file in a wheel. What stands in a `*.data` directory is installed from the second level of
/// it (Binary distribution format, "The .data directory").
fn package(path: &EntryPath) -> EntryPath {
    let directories = path.depth() - 1;
    let is_data = path.components().next().is_some_and(|first| first.ends_with(b".data"));
    let depth = directories.min(if is_data { 3 } else { 1 });
    let components = path.components().take(depth);
    components.fold(EntryPath::root(), |root, component| root.child(component))
}

/// The first part of archive names: given, or the wheel's name in lower case with underscores.
pub(super) fn group(input: &Input, options: &Options) -> Result<String, GroupError> {
    let name = match (&options.group, input.dist_info()) {
        (Some(given), _) => given.clone(),
        (None, Some(dist_info)) => {
            let text = dist_info.to_text();
            let name = text.split('-').next().unwrap_or_default();
            name.to_lowercase().replace(|letter: char| !letter.is_ascii_alphanumeric(), "_")
        }
        (None, None) => "rocm".to_owned(),
    };
    let is_fine = |letter: char| letter.is_ascii_alphanumeric() || "._-+".contains(letter);
    if name.is_empty() || name.starts_with('.') || name.len() > 100 || !name.chars().all(is_fine) {
        return Err(GroupError(name));
    }
    Ok(name)
}

#[cfg(test)]
mod tests {
    use super::package;
    use crate::source::EntryPath;

    #[test]
    fn the_package_of_a_file() {
        for (path, expected) in [
            ("torch/lib/libtorch_hip.so", "torch"),
            ("extension.so", ""),
            ("torch-2.0.data/platlib/torch/lib/x.so", "torch-2.0.data/platlib/torch"),
            ("torch-2.0.data/purelib/x.so", "torch-2.0.data/purelib"),
            ("cupy_backends/x.so", "cupy_backends"),
        ] {
            assert_eq!(package(&EntryPath::new(path.as_bytes()).unwrap()).to_string(), expected);
        }
    }
}
