//! Which targets one offload bundle can have.
//!
//! For a GPU, COMGR takes the first entry of a bundle that fits (`amd_comgr_lookup_code_object`). So code for
//! `gfx90a:xnack-` is not found behind code for any `gfx90a`.

use super::TargetId;

impl TargetId {
    /// Whether both fit one GPU, so that compilers refuse them in one bundle: of one processor, all targets name the same
    /// features or none does (clang's documentation, "Clang Offload Bundler", "Target ID").
    pub fn conflicts_with(&self, other: &Self) -> bool {
        let names = |target: &Self| -> Vec<_> {
            target.features().map(|feature| feature.trim_end_matches(['+', '-']).to_owned()).collect()
        };
        self.processor() == other.processor() && names(self) != names(other)
    }
}

#[cfg(test)]
mod tests {
    use super::TargetId;

    #[test]
    fn targets_that_fit_one_gpu_conflict() {
        for (one, other, expected) in [
            ("gfx90a", "gfx90a:xnack-", true),
            ("gfx90a:sramecc+", "gfx90a:xnack-", true),
            ("gfx90a:sramecc+:xnack-", "gfx90a:xnack-", true),
            ("gfx90a:xnack+", "gfx90a:xnack-", false),
            ("gfx90a:sramecc+:xnack-", "gfx90a:xnack+:sramecc+", false),
            ("gfx942", "gfx90a:xnack-", false),
            ("gfx942", "gfx9-4-generic:xnack-", false),
            ("gfx1250", "gfx1250:xnack+", false),
        ] {
            let [one, other] = [one, other].map(|name| name.parse::<TargetId>().unwrap());
            assert_eq!((one.conflicts_with(&other), other.conflicts_with(&one)), (expected, expected), "{one} {other}");
        }
    }
}
