//! The `.kpm` manifest of old runtimes: a list of the archives in its directory, in MessagePack.

use std::collections::BTreeMap;

use anyhow::{Context, bail};
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

impl Kpm {
    /// A manifest without archives.
    pub fn new(component: &str, prefix: &str) -> Self {
        let (component_name, prefix) = (component.to_owned(), prefix.to_owned());
        Self { format_version: VERSION, component_name, prefix, kpack_files: BTreeMap::new() }
    }

    /// Parses a manifest.
    pub fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        let kpm: Self = rmp_serde::from_slice(bytes).context("MessagePack")?;
        match kpm.format_version {
            VERSION => Ok(kpm),
            version => bail!("version {version} is not supported; there is only version {VERSION}"),
        }
    }

    /// Adds the archives of another manifest.
    pub fn merge(&mut self, other: Self) -> anyhow::Result<()> {
        for (target, entry) in other.kpack_files {
            match self.kpack_files.get(&target) {
                Some(known) if *known != entry => {
                    bail!("{} and {} are both named for {target}", known.file, entry.file);
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
    use super::{Kpm, KpmEntry};

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
        let conflict = merged.merge(kpm("gfx1100", 8)).unwrap_err();
        assert!(conflict.to_string().ends_with(" are both named for gfx1100"));
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
        assert_eq!(Kpm::parse(b"\xc1").unwrap_err().to_string(), "MessagePack");
        let newer = Kpm { format_version: 2, ..kpm("gfx1100", 7) };
        let error = Kpm::parse(&newer.to_bytes()).unwrap_err();
        assert_eq!(error.to_string(), "version 2 is not supported; there is only version 1");
    }
}
