//! Names of artifacts.

/// The family of artifacts without device code.
pub const GENERIC: &str = "generic";

/// `blas_lib_gfx1100`: a component and a family.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
#[display("{component}_{family}")]
pub struct ArtifactName {
    /// `blas_lib`.
    pub component: String,
    /// `generic`, a processor, or the name of a group of processors (`gfx110X-all`).
    pub family: String,
}

impl ArtifactName {
    /// Divides a directory's name at the last `_`. `None` if there is nothing before or after it. Keys such as
    /// `gfx12_0` contain a `_` themselves.
    pub fn parse(name: &str) -> Option<Self> {
        let (mut component, _) = name.rsplit_once('_')?;
        if let Some((before, key)) = component.rsplit_once('_') {
            let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            let minor = name.get(component.len() + 1..).unwrap_or_default();
            if is_number(minor) && key.strip_prefix("gfx").is_some_and(is_number) {
                component = before;
            }
        }
        let family = name.get(component.len() + 1..)?;
        let is_complete = !component.is_empty() && !family.is_empty();
        is_complete.then(|| Self { component: component.to_owned(), family: family.to_owned() })
    }

    /// The name of a component's part for `family`.
    pub fn new(component: &str, family: &str) -> Self {
        Self { component: component.to_owned(), family: family.to_owned() }
    }

    /// Whether the artifact contains no device code.
    pub fn is_generic(&self) -> bool {
        self.family == GENERIC
    }
}

#[cfg(test)]
mod tests {
    use super::ArtifactName;

    #[test]
    fn names_are_taken_apart_at_the_last_underscore() {
        for (name, component, family) in [
            ("blas_lib_gfx1100", "blas_lib", "gfx1100"),
            ("blas_lib_generic", "blas_lib", "generic"),
            ("blas_lib_gfx110X-all", "blas_lib", "gfx110X-all"),
            ("sysdeps_gfx94X-dcgpu", "sysdeps", "gfx94X-dcgpu"),
            ("blas_lib_gfx1250-strict", "blas_lib", "gfx1250-strict"),
            ("aotriton_lib_gfx12_0", "aotriton_lib", "gfx12_0"),
            ("x_gfx12_0a", "x_gfx12", "0a"),
            ("gfx12_0", "gfx12", "0"),
        ] {
            let parsed = ArtifactName::parse(name).unwrap();
            assert_eq!((parsed.component.as_str(), parsed.family.as_str()), (component, family));
            assert_eq!(parsed.to_string(), name);
        }
        for name in ["", "blas", "_generic", "blas_"] {
            assert_eq!(ArtifactName::parse(name), None, "{name}");
        }
    }
}
