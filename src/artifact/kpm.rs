//! The `.kpm` manifest of old runtimes: a list of the archives in its directory, in MessagePack.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The only version.
const VERSION: u32 = 1;

/// The archives of a component in one `.kpack` directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kpm {
    /// Always 1.
    pub format_version: u32,
    /// The component.
    pub component_name: String,
    /// The prefix that contains the `.kpack` directory.
    pub prefix: String,
    /// The archives by target.
    pub kpack_files: BTreeMap<String, KpmEntry>,
}

/// An archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KpmEntry {
    /// Its name.
    pub file: String,
    /// Its size in bytes.
    pub size: u64,
    /// Number of code objects.
    pub kernel_count: u64,
}

/// Why a manifest cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KpmError {
    /// It is not MessagePack of the expected form.
    #[error("MessagePack: {0}")]
    MessagePack(#[from] rmp_serde::decode::Error),
    /// It has another version.
    #[error("version {0} is not supported; there is only version {VERSION}")]
    Version(u32),
    /// Two manifests name different archives for one target.
    #[error("{file} and {other} are both named for {target}")]
    Conflict { target: String, file: String, other: String },
}

impl Kpm {
    /// A manifest without archives.
    pub fn new(component: &str, prefix: &str) -> Self {
        let (component_name, prefix) = (component.to_owned(), prefix.to_owned());
        Self { format_version: VERSION, component_name, prefix, kpack_files: BTreeMap::new() }
    }

    /// Parses a manifest.
    pub fn parse(bytes: &[u8]) -> Result<Self, KpmError> {
        let kpm: Self = rmp_serde::from_slice(bytes)?;
        if kpm.format_version == VERSION { Ok(kpm) } else { Err(KpmError::Version(kpm.format_version)) }
    }

    /// Adds the archives of another manifest.
    pub fn merge(&mut self, other: Self) -> Result<(), KpmError> {
        for (target, entry) in other.kpack_files {
            match self.kpack_files.get(&target) {
                Some(known) if *known != entry => {
                    let (file, other) = (known.file.clone(), entry.file);
                    return Err(KpmError::Conflict { target, file, other });
                }
                Some(_) => {}
                None => drop(self.kpack_files.insert(target, entry)),
            }
        }
        Ok(())
    }

    /// The file's bytes.
    #[expect(clippy::expect_used, reason = "writing plain strings, numbers and maps to a vector cannot fail")]
    pub fn to_bytes(&self) -> Vec<u8> {
        rmp_serde::to_vec_named(self).expect("plain fields")
    }
}

#[cfg(test)]
mod tests {
    use super::{Kpm, KpmEntry, KpmError};

    fn kpm(target: &str, size: u64) -> Kpm {
        let entry = KpmEntry { file: format!("blas_lib_{target}.kpack"), size, kernel_count: 3 };
        Kpm { kpack_files: [(target.to_owned(), entry)].into(), ..Kpm::new("blas_lib", "kpack/stage") }
    }

    #[test]
    fn manifests_are_read_merged_and_written() {
        let mut merged = kpm("gfx1100", 7);
        merged.merge(kpm("gfx1101", 9)).unwrap();
        merged.merge(kpm("gfx1100", 7)).unwrap();
        assert_eq!(merged.kpack_files.keys().collect::<Vec<_>>(), ["gfx1100", "gfx1101"]);
        assert_eq!(Kpm::parse(&merged.to_bytes()).unwrap(), merged);
        assert!(matches!(merged.merge(kpm("gfx1100", 8)), Err(KpmError::Conflict { .. })));
    }

    #[test]
    fn the_format_is_that_of_rocm_kpack() {
        let mut expected =
            b"\x84\xaeformat_version\x01\xaecomponent_name\xa8blas_lib\xa6prefix\xabkpack/stage".to_vec();
        expected.extend(b"\xabkpack_files\x81\xa7gfx1100\x83\xa4file\xb6blas_lib_gfx1100.kpack");
        expected.extend(b"\xa4size\x07\xackernel_count\x03");
        assert_eq!(kpm("gfx1100", 7).to_bytes(), expected);
    }

    #[test]
    fn what_is_none_is_refused() {
        assert!(matches!(Kpm::parse(b"\xc1"), Err(KpmError::MessagePack(_))));
        let newer = Kpm { format_version: 2, ..kpm("gfx1100", 7) };
        assert!(matches!(Kpm::parse(&newer.to_bytes()), Err(KpmError::Version(2))));
    }
}
