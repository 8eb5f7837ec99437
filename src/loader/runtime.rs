//! HIP runtimes.

use memchr::memmem;

/// The library with which runtimes read archives, as its name begins.
pub(crate) const ARCHIVE_LIBRARY: &str = "librocm_kpack.so";

/// Names in a runtime that reads archives: functions of the library, or the library.
const NAMES_OF_READERS: [&[u8]; 2] = [b"kpack_load_code_object", b"librocm_kpack"];

/// Looks for names in the bytes of a HIP runtime, which come in pieces: that of ROCm 7 has 25 MB.
#[derive(Debug, Default)]
pub(crate) struct RuntimeNames {
    /// Whether it has the names of functions that read archives.
    pub(crate) reads_archives: bool,
    /// Whether it names the library with these, [`ARCHIVE_LIBRARY`].
    pub(crate) names_library: bool,
    /// The end of the last piece, in which a name may begin, and the current one.
    bytes: Vec<u8>,
}

impl RuntimeNames {
    /// Takes the next piece.
    pub(crate) fn observe(&mut self, piece: &[u8]) {
        self.bytes.extend_from_slice(piece);
        let has = |name: &[u8]| memmem::find(&self.bytes, name).is_some();
        self.reads_archives |= NAMES_OF_READERS.iter().any(|name| has(name));
        self.names_library |= has(ARCHIVE_LIBRARY.as_bytes());
        let longest = NAMES_OF_READERS.iter().map(|name| name.len()).max().unwrap_or(0).max(ARCHIVE_LIBRARY.len());
        self.bytes.drain(..self.bytes.len().saturating_sub(longest - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_wherever_a_piece_ends() {
        let runtime = b"..kpack_load_code_object..librocm_kpack.so.0..";
        for length in 1..runtime.len() {
            let mut names = RuntimeNames::default();
            runtime.chunks(length).for_each(|piece| names.observe(piece));
            assert!(names.reads_archives && names.names_library, "{length}");
        }
        let mut names = RuntimeNames::default();
        names.observe(b"hipModuleLoad librocm_kpac k");
        assert!(!names.reads_archives && !names.names_library);
    }
}
