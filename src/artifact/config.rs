//! The packaging configuration: which processors are packaged together, in JSON.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, anyhow};
use serde::{Deserialize, Serialize};

use crate::disk;
use crate::gpu::{SPIRV, begins_with_target};
use crate::memory::Parser;

/// How artifacts of several shards are joined.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackagingConfig {
    /// The shard whose host code is used.
    pub primary_shard: String,
    /// The groups, by name.
    pub architecture_groups: BTreeMap<String, Group>,
    /// Groups for components that are packaged differently, by the component's name or its first part (`blas` for
    /// `blas_lib` and `blas_test`).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub component_overrides: BTreeMap<String, Override>,
    /// The checks.
    #[serde(default)]
    pub validation: Validation,
}

/// Processors that are packaged together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Its display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// The processors.
    pub architectures: Vec<String>,
}

/// Replaces the configuration for one component.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Override {
    /// All groups of the component.
    pub architecture_groups: BTreeMap<String, Group>,
}

/// Checks when artifacts are joined. One that is not known would be off without a word.
#[expect(clippy::struct_excessive_bools, reason = "each is a field of the file")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Validation {
    /// Refuse device code of one component for one processor in two shards.
    pub error_on_duplicate_device_code: bool,
    /// Require the same host code in all shards.
    pub verify_generic_artifacts_match: bool,
    /// Require that a component with device code has some for every processor of every group.
    pub error_on_missing_architecture: bool,
    /// Refuse host code that the primary shard does not have, because no package would contain it.
    pub error_on_left_out_host_code: bool,
}

impl Default for Validation {
    fn default() -> Self {
        Self {
            error_on_duplicate_device_code: true,
            verify_generic_artifacts_match: false,
            error_on_missing_architecture: false,
            error_on_left_out_host_code: true,
        }
    }
}

impl PackagingConfig {
    /// Reads and parses the file at `path`.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let bytes = disk::read(path, Parser::Text).with_context(|| path.display().to_string())?;
        Self::parse(&bytes, path)
    }

    /// Parses a configuration. `path` names it in errors.
    pub fn parse(bytes: &[u8], path: &Path) -> anyhow::Result<Self> {
        let path = path.display();
        let config: Self = serde_json::from_slice(bytes).with_context(|| {
            format!("{path}: it is no packaging configuration, which is JSON and comes before the shards")
        })?;
        config.check().map_err(|reason| anyhow!("{path}: {reason}"))?;
        Ok(config)
    }

    /// The groups of a component, by name.
    pub fn groups_of(&self, component: &str) -> &BTreeMap<String, Group> {
        self.override_of(component).map_or(&self.architecture_groups, |(_, own)| &own.architecture_groups)
    }

    /// What replaces the configuration for a component, with its name there.
    pub(crate) fn override_of(&self, component: &str) -> Option<(&String, &Override)> {
        let first = component.split('_').next().unwrap_or(component);
        [component, first].into_iter().find_map(|name| self.component_overrides.get_key_value(name))
    }

    fn check(&self) -> Result<(), String> {
        if self.primary_shard.is_empty() {
            return Err("primary_shard is empty; it names the shard that host code is taken from".to_owned());
        }
        check_groups("architecture_groups", &self.architecture_groups)?;
        self.component_overrides
            .iter()
            .try_for_each(|(name, own)| check_groups(&format!("component_overrides.{name}"), &own.architecture_groups))
    }
}

fn check_groups(place: &str, groups: &BTreeMap<String, Group>) -> Result<(), String> {
    if groups.is_empty() {
        return Err(format!("{place} names no group"));
    }
    for (name, group) in groups {
        // It becomes the last part of a directory's name, after the last "_".
        let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b".+-".contains(&byte);
        if name.is_empty() || name.starts_with('.') || !name.bytes().all(is_fine) || name == super::GENERIC {
            return Err(format!("{place}: {name:?} cannot be the last part of an artifact's name"));
        }
        if group.architectures.is_empty() {
            return Err(format!("{place}.{name}: its list of architectures is empty"));
        }
        if let Some(odd) = group.architectures.iter().find(|arch| !begins_with_target(arch.as_bytes())) {
            return Err(format!(
                "{place}.{name}: {odd:?} is no architecture: these begin with \"gfx\", or are {SPIRV}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::PackagingConfig;

    const WHOLE: &str = r#"{
        "primary_shard": "gfx110X-build",
        "architecture_groups": {
            "gfx110X": {"display_name": "ROCm gfx110X (RDNA3)", "architectures": ["gfx1100", "gfx1101"]},
            "gfx120X": {"architectures": ["gfx1200"]}
        },
        "component_overrides": {"blas": {"architecture_groups": {"gfx11-unified": {"architectures": ["gfx1100"]}}}},
        "validation": {"error_on_missing_architecture": true}
    }"#;

    fn parse(text: &str) -> Result<PackagingConfig, String> {
        PackagingConfig::parse(text.as_bytes(), Path::new("c.json")).map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn a_configuration_is_read_and_written() {
        let config = parse(WHOLE).unwrap();
        assert_eq!(config.primary_shard, "gfx110X-build");
        assert_eq!(config.architecture_groups["gfx110X"].display_name.as_deref(), Some("ROCm gfx110X (RDNA3)"));
        assert_eq!(config.architecture_groups["gfx120X"].architectures, ["gfx1200"]);
        let validation = config.validation;
        assert!(validation.error_on_duplicate_device_code && validation.error_on_missing_architecture);
        assert!(validation.error_on_left_out_host_code);
        assert!(!validation.verify_generic_artifacts_match);
        assert_eq!(parse(&serde_json::to_string(&config).unwrap()).unwrap(), config);
    }

    #[test]
    fn components_can_have_groups_of_their_own() {
        let config = parse(WHOLE).unwrap();
        for (component, group) in [("blas", "gfx11-unified"), ("blas_lib", "gfx11-unified"), ("fft_lib", "gfx110X")] {
            assert_eq!(config.groups_of(component).keys().next().unwrap(), group);
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let group = |text: &str| format!(r#"{{"primary_shard": "a", "architecture_groups": {text}}}"#);
        for (text, message) in [
            (String::new(), ": EOF"),
            ("{".to_owned(), ": EOF"),
            (r#"{"architecture_groups": {}}"#.to_owned(), "missing field `primary_shard`"),
            (r#"{"primary_shard": "a"}"#.to_owned(), "missing field `architecture_groups`"),
            (WHOLE.replace("error_on_missing", "error_on_absent"), "unknown field `error_on_absent_architecture`"),
            (r#"{"primary_shard": "", "architecture_groups": {}}"#.to_owned(), "primary_shard is empty"),
            (group("{}"), "architecture_groups names no group"),
            (group(r#"{"x": {}}"#), "missing field `architectures`"),
            (group(r#"{"x": {"architectures": []}}"#), "architecture_groups.x: its list of architectures is empty"),
            (group(r#"{"x": {"architectures": ["mi300"]}}"#), "\"mi300\" is no architecture"),
            (group(r#"{"../x": {"architectures": ["gfx942"]}}"#), "cannot be the last part"),
            (group(r#"{"generic": {"architectures": ["gfx942"]}}"#), "cannot be the last part"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.starts_with("c.json: ") && error.contains(message), "{error}");
        }
        let error = format!("{:#}", PackagingConfig::read(Path::new("/missing/c.json")).unwrap_err());
        assert!(error.starts_with("/missing/c.json: No such file"), "{error}");
    }
}
