//! `artifact_manifest.txt`: the prefixes of an artifact, one in each line.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::memory::{Parser, WholeFile};
use crate::resources::Resources;
use crate::source::{EntryKind, EntryPath, Input, Origins, PathError};

/// The name of the file, in the root of an artifact.
pub const MANIFEST: &str = "artifact_manifest.txt";

/// The directory in a part with the statement of the split that wrote it.
const STATEMENTS: &[u8] = b".kpackfs";

/// The prefixes of an artifact.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// In the order of the file, without duplicates. The artifact need not have all of them.
    pub prefixes: Vec<EntryPath>,
}

/// Why an artifact has no usable manifest.
#[derive(Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct ManifestError {
    path: PathBuf,
    reason: String,
}

impl ManifestError {
    /// The error if an artifact has no manifest.
    pub(crate) fn missing(artifact: &Path) -> Self {
        let reason = format!("{MANIFEST} not found in it, so it is not an artifact");
        Self { path: artifact.to_owned(), reason }
    }
}

impl Manifest {
    /// Reads the manifest of an artifact. Builds omit prefixes without files. An artifact without any of its prefixes
    /// is damaged or misplaced.
    pub fn of(input: &Input) -> Result<Self, ManifestError> {
        let content = input.content(&manifest_path()).ok_or_else(|| ManifestError::missing(&input.location))?;
        let path = input.location.join(MANIFEST);
        let bad = |reason: String| ManifestError { path: path.clone(), reason };
        let bytes = WholeFile::of(Parser::ArtifactManifest, &**content).map_err(|it| bad(it.to_string()))?;
        let manifest = Self::parse(&bytes, &path)?;
        if !manifest.prefixes.is_empty() && manifest.present(input).is_empty() {
            let prefixes = manifest.prefixes.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return Err(bad(format!("the artifact has none of the directories that it names: {prefixes}")));
        }
        Ok(manifest)
    }

    /// Parses the manifest at `path`. Blank lines are ignored, as are repeated or trailing slashes and `.` components.
    /// `.` alone is the artifact itself.
    pub fn parse(bytes: &[u8], path: &Path) -> Result<Self, ManifestError> {
        let mut prefixes = Vec::new();
        for (number, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let prefix = prefix(line).map_err(|error| ManifestError {
                path: path.to_owned(),
                reason: format!("line {}: {error}", number + 1),
            })?;
            if !prefixes.contains(&prefix) {
                prefixes.push(prefix);
            }
        }
        Ok(Self { prefixes })
    }

    /// The prefixes that the artifact has as directories.
    pub fn present(&self, input: &Input) -> Vec<EntryPath> {
        let is_directory = |prefix: &&EntryPath| {
            prefix.is_root() || input.entry(prefix).is_some_and(|it| matches!(it.kind, EntryKind::Directory))
        };
        self.prefixes.iter().filter(is_directory).cloned().collect()
    }

    /// Removes everything from an artifact except prefixes and the directories above them. Returns the number of files
    /// removed, not counting the manifest, and one of them.
    pub fn keep_installed(&self, input: &mut Input) -> Option<(usize, EntryPath)> {
        let is_above = |path: &EntryPath| self.prefixes.iter().any(|prefix| prefix.below(path).is_some());
        let manifest = manifest_path();
        let mut others = Vec::new();
        // It belongs to the split, not to the installation, even if a prefix is the artifact itself.
        input.entries.retain(|entry| entry.path.components().next() != Some(STATEMENTS));
        input.entries.retain(|entry| {
            let is_directory = matches!(entry.kind, EntryKind::Directory);
            let stays = self.prefix_of(&entry.path).is_some() || is_directory && is_above(&entry.path);
            if !stays && !is_directory && entry.path != manifest {
                others.push(entry.path.clone());
            }
            stays && entry.path != manifest
        });
        Some((others.len(), others.into_iter().next()?))
    }

    /// Opens an artifact as it is installed: its prefixes laid over each other, and nothing else.
    pub(crate) fn open_installed(location: &Path, resources: &Arc<Resources>) -> anyhow::Result<(Input, Origins)> {
        let mut input = Input::open(location, resources)?;
        let manifest = Self::of(&input)?;
        manifest.keep_installed(&mut input);
        let origins = input.install(|path| path.below(manifest.prefix_of(path)?).filter(|path| !path.is_root()));
        Ok((input, origins))
    }

    /// The deepest prefix that contains `path`.
    pub fn prefix_of(&self, path: &EntryPath) -> Option<&EntryPath> {
        self.prefixes.iter().filter(|prefix| path.below(prefix).is_some()).max_by_key(|prefix| prefix.depth())
    }

    /// The path of a file of the artifact in an installation.
    pub(crate) fn installed(&self, path: &EntryPath) -> EntryPath {
        self.prefix_of(path).and_then(|prefix| path.below(prefix)).unwrap_or_else(|| path.clone())
    }

    /// The content of the file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let line = |prefix: &EntryPath| [if prefix.is_root() { b"." } else { prefix.as_bytes() }, b"\n"].concat();
        self.prefixes.iter().flat_map(line).collect()
    }
}

/// The directory that a line names.
fn prefix(line: &[u8]) -> Result<EntryPath, PathError> {
    if line.starts_with(b"/") {
        return EntryPath::new(line);
    }
    let is_name = |component: &&[u8]| !component.is_empty() && *component != b".";
    let names: Vec<_> = line.split(|&byte| byte == b'/').filter(is_name).collect();
    if names.is_empty() { Ok(EntryPath::root()) } else { EntryPath::new(&names.join(&b'/')) }
}

/// The path of the manifest in an artifact.
pub(super) fn manifest_path() -> EntryPath {
    EntryPath::root().child(MANIFEST.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Manifest, ManifestError};
    use crate::source::EntryPath;

    fn parse(text: &str) -> Result<Vec<String>, ManifestError> {
        let manifest = Manifest::parse(text.as_bytes(), Path::new("m"))?;
        Ok(manifest.prefixes.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn one_prefix_in_each_line() {
        assert_eq!(parse("math-libs/BLAS/rocBLAS/stage\n").unwrap(), ["math-libs/BLAS/rocBLAS/stage"]);
        assert_eq!(parse("\n  \na/stage/\r\n\nb/stage\na/stage").unwrap(), ["a/stage", "b/stage"]);
        assert_eq!(parse("").unwrap(), Vec::<String>::new());
        assert_eq!(parse(".\n").unwrap(), [""]);
        assert_eq!(parse("./p/stage\np//stage\np/./stage//\n").unwrap(), ["p/stage"]);
        assert_eq!(parse("./\n.//.\n").unwrap(), [""]);
    }

    #[test]
    fn prefixes_stay_inside_the_artifact() {
        for (text, message) in [
            ("a\n../b\n", "m: line 2: the name has a component that is empty, \".\" or \"..\""),
            ("a/../b", "m: line 1: the name has a component that is empty, \".\" or \"..\""),
            ("/opt/rocm", "m: line 1: the name is absolute"),
            ("//", "m: line 1: the name is absolute"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), message);
        }
    }

    #[test]
    fn what_is_written_is_read_again() {
        let prefixes = ["b/stage", "a"].map(|prefix| EntryPath::new(prefix.as_bytes()).unwrap());
        let manifest = Manifest { prefixes: [&prefixes[..], &[EntryPath::root()]].concat() };
        assert_eq!(manifest.to_bytes(), b"b/stage\na\n.\n");
        assert_eq!(Manifest::parse(&manifest.to_bytes(), Path::new("m")).unwrap(), manifest);
    }

    #[test]
    fn the_deepest_prefix_counts() {
        let manifest = Manifest::parse(b"a\na/b\n", Path::new("m")).unwrap();
        let prefix =
            |path: &str| manifest.prefix_of(&EntryPath::new(path.as_bytes()).unwrap()).map(ToString::to_string);
        assert_eq!(prefix("a/b/lib/x.so").as_deref(), Some("a/b"));
        assert_eq!(prefix("a/lib/x.so").as_deref(), Some("a"));
        assert_eq!(prefix("ab/x.so"), None);
    }
}
