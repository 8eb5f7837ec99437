//! The device distributions of a split: one for each bundle key.

use std::collections::BTreeMap;

use super::{WheelError, normalise};
use crate::gpu::{BundleKey, Level};

/// The device distributions, by bundle key.
#[derive(Clone, Debug)]
pub struct Devices {
    pub(crate) prefix: String,
    distributions: BTreeMap<BundleKey, String>,
}

impl Devices {
    /// One distribution for each key, named `{prefix}-{part}` as in rocm-bootstrap.
    pub fn new(prefix: &str, keys: impl IntoIterator<Item = BundleKey>) -> Result<Self, WheelError> {
        let mut distributions = BTreeMap::new();
        let mut owners = BTreeMap::<String, BundleKey>::new();
        for key in keys {
            let distribution = format!("{prefix}-{}", key.distribution_part());
            if !is_distribution(&distribution) {
                return Err(WheelError::Distribution(distribution));
            }
            if let Some(first) = owners.insert(normalise(&distribution), key.clone()).filter(|first| *first != key) {
                let (first, second) = (first.to_string(), key.to_string());
                return Err(WheelError::SameDistribution { distribution, first, second });
            }
            distributions.insert(key, distribution);
        }
        Ok(Self { prefix: prefix.to_owned(), distributions })
    }

    /// The default prefix of the names of a wheel's device distributions.
    pub fn default_prefix(distribution: &str) -> String {
        format!("amd-{}-device", normalise(distribution))
    }

    /// The distribution for a key.
    pub fn distribution(&self, key: &BundleKey) -> Option<&str> {
        self.distributions.get(key).map(String::as_str)
    }

    /// The existing distributions that an installation for `key` needs, from its own upwards.
    pub fn chain(&self, key: &BundleKey) -> Vec<&str> {
        key.packaging_chain().iter().filter_map(|key| self.distribution(key)).collect()
    }

    /// All keys, sorted.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &BundleKey> {
        self.distributions.keys()
    }

    /// The keys of single processors, sorted.
    pub fn targets(&self) -> impl Iterator<Item = &BundleKey> {
        self.distributions.keys().filter(|key| key.level() == Level::Target)
    }

    /// Every distribution, sorted by key.
    pub fn all(&self) -> Vec<&str> {
        self.distributions.values().map(String::as_str).collect()
    }
}

/// Whether a name may be that of a distribution (Core metadata, "Name").
pub(super) fn is_distribution(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    name.bytes().all(inner) && outer(name.as_bytes().first()) && outer(name.as_bytes().last())
}

#[cfg(test)]
mod tests {
    use super::Devices;
    use crate::gpu::BundleKey;

    fn keys(names: &[&str]) -> Vec<BundleKey> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn distributions_and_chains() {
        let devices =
            Devices::new("amd-torch-device", keys(&["gfx1201", "gfx12_0", "gfx11", "gfx1100", "gfx803"])).unwrap();
        let key = |name: &str| name.parse::<BundleKey>().unwrap();
        assert_eq!(devices.distribution(&key("gfx12_0")), Some("amd-torch-device-gfx12-0"));
        assert_eq!(devices.chain(&key("gfx1201")), ["amd-torch-device-gfx1201", "amd-torch-device-gfx12-0"]);
        assert_eq!(devices.chain(&key("gfx1100")), ["amd-torch-device-gfx1100", "amd-torch-device-gfx11"]);
        assert_eq!(devices.targets().map(BundleKey::as_str).collect::<Vec<_>>(), ["gfx1100", "gfx1201", "gfx803"]);
        assert_eq!(Devices::default_prefix("Cupy_rocm-7.0"), "amd-cupy-rocm-7-0-device");
    }

    #[test]
    fn names_that_cannot_be_are_refused() {
        assert!(Devices::new("amd torch", keys(&["gfx942"])).is_err());
        assert!(Devices::new("../x", keys(&["gfx942"])).is_err());
        assert!(Devices::new("a", keys(&["gfx13_0", "gfx13-0"])).is_err());
        assert!(Devices::new("a", keys(&["gfx942", "gfx942:xnack+"])).is_ok());
    }
}
