//! Where a loader searches for the code of a device, and in which order.

/// The placeholder for the target in a search path.
pub const PLACEHOLDER: &str = "@GFXARCH@";

/// The prefix that HIP writes before a target.
const PREFIX: &str = "amdgcn-amd-amdhsa--";

/// The most features that are combined. Each feature doubles the number of candidates; real targets have at most two.
const MAX_FEATURES: usize = 6;

/// The targets whose code runs on a device of `target`, the most specific first. The list begins with all features,
/// then come fewer; among equally many, the earlier features come first. A target with more than `MAX_FEATURES`
/// features has only its own name as candidate.
pub fn candidates(target: &str) -> Vec<String> {
    let target = target.strip_prefix(PREFIX).unwrap_or(target);
    let mut parts = target.split(':').filter(|part| !part.is_empty());
    let Some(processor) = parts.next().filter(|processor| target.starts_with(processor)) else { return Vec::new() };
    let features: Vec<&str> = parts.collect();
    if features.len() > MAX_FEATURES {
        return vec![target.to_owned()];
    }
    // The first feature is the highest bit.
    let mut subsets: Vec<u32> = (0..1 << features.len()).collect();
    subsets.sort_by_key(|&subset| std::cmp::Reverse((subset.count_ones(), subset)));
    let name = |bits: u32| {
        let chosen = |&(position, _): &(usize, &&str)| bits >> (features.len() - 1 - position) & 1 == 1;
        let chosen = features.iter().enumerate().filter(chosen);
        chosen.fold(processor.to_owned(), |name, (_, feature)| name + ":" + feature)
    };
    subsets.into_iter().map(name).collect()
}

/// The candidates of several targets in order of priority, each once.
pub fn all_candidates<'a>(targets: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut all = Vec::new();
    for candidate in targets.into_iter().flat_map(candidates) {
        if !all.contains(&candidate) {
            all.push(candidate);
        }
    }
    all
}

/// The paths of all archives that may have code for these candidates, in the order of search paths. In each path, a
/// candidate replaces the first [`PLACEHOLDER`].
pub fn archive_paths(search_paths: &[String], candidates: &[String]) -> Vec<String> {
    let expand = |path: &String| -> Vec<String> {
        if path.contains(PLACEHOLDER) {
            candidates.iter().map(|candidate| path.replacen(PLACEHOLDER, candidate, 1)).collect()
        } else {
            vec![path.clone()]
        }
    };
    search_paths.iter().flat_map(expand).collect()
}

/// The archives that a loader searches, each with the target that it asks for. They are ordered by candidate, then by
/// archive. `offers` returns whether an archive exists and lists a target.
pub fn steps<'a, A: Copy>(
    candidates: &'a [String],
    archives: &'a [A],
    offers: impl Fn(A, &str) -> bool + Copy + 'a,
) -> impl Iterator<Item = (A, &'a str)> {
    let of_candidate = move |candidate: &'a String| {
        let offering = archives.iter().copied().filter(move |&archive| offers(archive, candidate));
        offering.map(move |archive| (archive, candidate.as_str()))
    };
    candidates.iter().flat_map(of_candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_specific_candidate_is_the_first() {
        for (target, expected) in [
            (
                "amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-",
                &["gfx942:sramecc+:xnack-", "gfx942:sramecc+", "gfx942:xnack-", "gfx942"][..],
            ),
            ("gfx90a:xnack+", &["gfx90a:xnack+", "gfx90a"]),
            ("gfx90a:xnack-:sramecc+", &["gfx90a:xnack-:sramecc+", "gfx90a:xnack-", "gfx90a:sramecc+", "gfx90a"]),
            ("gfx1201", &["gfx1201"]),
            ("gfx9-4-generic:xnack+", &["gfx9-4-generic:xnack+", "gfx9-4-generic"]),
            ("gfx11-generic", &["gfx11-generic"]),
            ("amdgcnspirv", &["amdgcnspirv"]),
            ("x:a+:b+:c+", &["x:a+:b+:c+", "x:a+:b+", "x:a+:c+", "x:b+:c+", "x:a+", "x:b+", "x:c+", "x"]),
            ("x:a:b:c:d:e:f:g", &["x:a:b:c:d:e:f:g"]),
            ("", &[]),
            (":xnack+", &[]),
            ("amdgcn-amd-amdhsa--", &[]),
        ] {
            assert_eq!(candidates(target), expected, "{target}");
        }
        let all = all_candidates(["gfx942:xnack+", "gfx942", "gfx9-4-generic:xnack+"]);
        assert_eq!(all, ["gfx942:xnack+", "gfx942", "gfx9-4-generic:xnack+", "gfx9-4-generic"]);
    }

    #[test]
    fn paths_are_expanded_once_for_each_candidate() {
        let paths = ["../x_@GFXARCH@_@GFXARCH@", "y"].map(str::to_owned);
        let candidates = ["a:b+", "a"].map(str::to_owned);
        assert_eq!(archive_paths(&paths, &candidates), ["../x_a:b+_@GFXARCH@", "../x_a_@GFXARCH@", "y"]);
    }

    #[test]
    fn targets_come_before_archives() {
        let candidates = ["a:b+", "a"].map(str::to_owned);
        let offers = |archive: usize, target: &str| [&["a"][..], &["a:b+", "a"], &["c"]][archive].contains(&target);
        let steps: Vec<_> = steps(&candidates, &[0, 1, 2], offers).collect();
        assert_eq!(steps, [(1, "a:b+"), (0, "a"), (1, "a")]);
    }
}
