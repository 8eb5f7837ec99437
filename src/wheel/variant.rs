//! Wheel variants (PEP 825 and its successors): labels, properties and variant.json.

use serde_json::json;

use super::WheelError;
use crate::gpu::BundleKey;

/// The schema that variantlib 0.2.2 and uv 0.13.8 support.
const SCHEMA: &str = "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json";

/// A valid variant label.
#[derive(Clone, Debug, PartialEq, Eq, derive_more::Display)]
pub struct VariantLabel(String);

impl VariantLabel {
    /// Checks a label: `^[0-9a-z_.]+$`, and `null` is reserved for the variant without properties (PEP 825).
    pub fn new(label: &str) -> Result<Self, WheelError> {
        let valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.".contains(&byte);
        if label.is_empty() || label == "null" || !label.bytes().all(valid) {
            return Err(WheelError::Label);
        }
        Ok(Self(label.to_owned()))
    }

    /// The label as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The property of a system with a GPU of this target.
pub(crate) fn property(key: &BundleKey) -> String {
    format!("amd :: gfx_arch :: {key}")
}

/// Whether a target can be the value of a property: rocm-bootstrap's provider must know it, and a value consists of
/// `[a-z0-9_.]` (PEP 825).
pub(crate) fn has_property(key: &BundleKey) -> bool {
    let valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.".contains(&byte);
    key.is_known() && key.as_str().bytes().all(valid)
}

/// variant.json of a wheel with this label. The index file next to the wheels has the same form, since there is one
/// label.
pub(crate) fn variant_json(label: &VariantLabel, targets: &[&BundleKey]) -> String {
    let mut values: Vec<&str> = targets.iter().map(|key| key.as_str()).collect();
    values.sort_unstable();
    // One variant has all targets: markers also see the properties that the system supports.
    let json = json!({
        "$schema": SCHEMA,
        "default-priorities": { "namespace": ["amd"] },
        "providers": {
            "amd": {
                "plugin-api": "rocm_bootstrap.variant_provider:AMDVariantPlugin",
                "requires": ["rocm-bootstrap>=0.3"],
            },
        },
        "variants": { label.as_str(): { "amd": { "gfx_arch": values } } },
    });
    format!("{json:#}\n")
}

#[cfg(test)]
mod tests {
    use super::{VariantLabel, has_property, variant_json};

    #[test]
    fn labels() {
        for label in ["rocm7.1", "variant", "x_1", "0"] {
            assert_eq!(VariantLabel::new(label).unwrap().as_str(), label);
        }
        for label in ["", "null", "Rocm", "a-b", "a b", "ä", "a/b"] {
            assert!(VariantLabel::new(label).is_err(), "{label}");
        }
    }

    #[test]
    fn one_label_with_all_targets() {
        let keys = ["gfx942", "gfx1100"].map(|name| name.parse().unwrap());
        let json = variant_json(&VariantLabel::new("rocm7.1").unwrap(), &keys.iter().collect::<Vec<_>>());
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["variants"]["rocm7.1"]["amd"]["gfx_arch"], serde_json::json!(["gfx1100", "gfx942"]));
        assert_eq!(json["variants"].as_object().unwrap().len(), 1);
        for (name, expected) in [("gfx942", true), ("gfx12_0", true), ("gfx803", false), ("gfx13-generic", false)] {
            assert_eq!(has_property(&name.parse().unwrap()), expected, "{name}");
        }
    }
}
