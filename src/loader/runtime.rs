//! Names in a library, such as those by which a HIP runtime is told from others.

use memchr::memmem;

use crate::rope::{Content, read_all};
use crate::source::{EntryKind, EntryPath, Input};

/// The library with which runtimes read archives, as its name begins.
pub(crate) const ARCHIVE_LIBRARY: &str = "librocm_kpack.so";

/// Names in a runtime that reads archives: functions of the library, or the library.
const NAMES_OF_READERS: [&[u8]; 2] = [b"kpack_load_code_object", b"librocm_kpack"];

/// The largest HIP runtime that is searched, in bytes: ten times that of ROCm 7.
const MAX_RUNTIME: u64 = 256 << 20;

/// Looks for names in the bytes of a library, which come in pieces: the HIP runtime of ROCm 7 has 25 MB.
#[derive(Debug)]
pub(crate) struct NameSearch<'a, const N: usize> {
    names: [&'a [u8]; N],
    found: [bool; N],
    /// The end of the last piece, in which a name may begin, and the current one.
    bytes: Vec<u8>,
}

impl<'a, const N: usize> NameSearch<'a, N> {
    /// Which of some names are in a content; `None` if it cannot be read.
    pub(crate) fn in_content(content: &dyn Content, names: [&'a [u8]; N]) -> Option<[bool; N]> {
        let mut search = Self::of(names);
        read_all(content, |piece| search.observe(piece)).ok()?;
        Some(search.found)
    }

    fn of(names: [&'a [u8]; N]) -> Self {
        Self { names, found: [false; N], bytes: Vec::new() }
    }

    /// Takes the next piece.
    fn observe(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        for (name, found) in self.names.iter().zip(&mut self.found) {
            *found |= memmem::find(&self.bytes, name).is_some();
        }
        let longest = self.names.iter().map(|name| name.len()).max().unwrap_or(0);
        self.bytes.drain(..self.bytes.len().saturating_sub(longest.saturating_sub(1)));
    }
}

/// Which of the names are in a HIP runtime that tell what it does with archives.
#[derive(Debug)]
pub(crate) struct RuntimeNames([bool; 3]);

impl RuntimeNames {
    /// The names in a runtime; `None` if it is too large or cannot be read.
    pub(crate) fn of(runtime: &dyn Content) -> Option<Self> {
        if Self::is_too_large(runtime) {
            return None;
        }
        let [function, library] = NAMES_OF_READERS;
        NameSearch::in_content(runtime, [function, library, ARCHIVE_LIBRARY.as_bytes()]).map(Self)
    }

    /// Whether a runtime is too large for a search.
    pub(crate) fn is_too_large(runtime: &dyn Content) -> bool {
        runtime.size() > MAX_RUNTIME
    }

    /// Whether it has the names of functions that read archives.
    pub(crate) fn reads_archives(&self) -> bool {
        let [function, library, _] = self.0;
        function || library
    }

    /// Whether it names the library with these, [`ARCHIVE_LIBRARY`].
    pub(crate) fn names_library(&self) -> bool {
        let [.., file] = self.0;
        file
    }
}

/// The HIP runtime, as its name begins.
pub(crate) const RUNTIME: &str = "libamdhip64.so";

/// Whether a file is named as a library whose name begins so, or as auditwheel names it (libamdhip64-69e34bce.so.7).
pub(crate) fn is_library(file: &[u8], library: &str) -> bool {
    let rest = file.strip_prefix(library.trim_end_matches(".so").as_bytes());
    rest.is_some_and(|rest| rest.starts_with(b".so") || rest.starts_with(b"-") && memmem::find(rest, b".so").is_some())
}

/// A HIP runtime in an input.
#[derive(Clone, Debug)]
pub(crate) struct OwnRuntime {
    pub(crate) path: EntryPath,
    pub(crate) reads_archives: bool,
}

impl OwnRuntime {
    /// A runtime that reads archives, or else another one; `None` if there is none that can be read.
    pub(crate) fn of(input: &Input) -> Option<Self> {
        let runtimes = input.entries.iter().filter_map(|entry| match &entry.kind {
            EntryKind::File { content, .. } if is_library(entry.path.name(), RUNTIME) => {
                let names = RuntimeNames::of(&**content)?;
                Some(Self { path: entry.path.clone(), reads_archives: names.reads_archives() })
            }
            _ => None,
        });
        runtimes.reduce(|one, other| if other.reads_archives && !one.reads_archives { other } else { one })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_have_versions_and_hashes_in_their_names() {
        for (file, is) in [
            ("libamdhip64.so", true),
            ("libamdhip64.so.7.2", true),
            ("libamdhip64-69e34bce.so.7", true),
            ("libamdhip64-5.list", false),
            ("libamdhip64.a", false),
            ("libamdhip64x.so", false),
        ] {
            assert_eq!(is_library(file.as_bytes(), RUNTIME), is, "{file}");
        }
    }

    #[test]
    fn names_are_found_wherever_a_piece_ends() {
        let runtime = b"..kpack_load_code_object..librocm_kpack.so.0..";
        let searched = [NAMES_OF_READERS[0], NAMES_OF_READERS[1], ARCHIVE_LIBRARY.as_bytes()];
        for length in 1..runtime.len() {
            let mut names = NameSearch::of(searched);
            runtime.chunks(length).for_each(|piece| names.observe(piece));
            assert_eq!(names.found, [true; 3], "{length}");
        }
        let mut names = NameSearch::of(searched);
        names.observe(b"hipModuleLoad librocm_kpac k");
        assert_eq!(names.found, [false; 3]);
    }
}
