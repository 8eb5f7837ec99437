//! Names that are nearly the one that was asked for.

use strsim::{damerau_levenshtein, jaro};

/// The most names in an answer. If more are equally near, none is meant.
const NAMED: usize = 3;

/// A name differs by one letter in four at most, by one in a short name, and by this many in a long one.
const MAX_EDITS: usize = 3;

/// `; did you mean a or b?`, with the names that are nearest to a word; nothing if none is near.
pub(crate) fn near<S: AsRef<str>>(word: &str, names: impl IntoIterator<Item = S>) -> String {
    let letters = word.chars().count();
    // Each other name of one letter is one edit away.
    if letters < 2 {
        return String::new();
    }
    let most = (letters / 4).clamp(1, MAX_EDITS);
    let is_near = |name: &str| {
        name.len().abs_diff(word.len()) <= 4 * most && (1..=most).contains(&damerau_levenshtein(word, name))
    };
    let names = names.into_iter().filter(|name| is_near(name.as_ref()));
    // A swap of two letters is nearer than another letter.
    let near: Vec<_> = names.map(|name| (jaro(word, name.as_ref()), name.as_ref().to_owned())).collect();
    let best = near.iter().map(|(score, _)| *score).fold(0.0, f64::max);
    let mut best: Vec<_> = near.into_iter().filter(|(score, _)| *score >= best).map(|(_, name)| name).collect();
    best.sort();
    best.dedup();
    if best.is_empty() || best.len() > NAMED { String::new() } else { format!("; did you mean {}?", best.join(" or ")) }
}

#[cfg(test)]
mod tests {
    use super::near;

    #[test]
    fn only_near_names_are_meant() {
        let gpus = ["gfx1030", "gfx1033", "gfx1151", "gfx900", "gfx902", "gfx906", "gfx908", "gfx90a"];
        for (word, expected) in [
            ("gfx1003", "; did you mean gfx1030?"),
            ("gfx1511", "; did you mean gfx1151?"),
            ("gfx1031", "; did you mean gfx1030 or gfx1033?"),
            ("gfx9a0", "; did you mean gfx90a?"),
            ("gfx90", ""),
            ("gfx9999", ""),
            ("gfx1030", "; did you mean gfx1033?"),
            ("", ""),
        ] {
            assert_eq!(near(word, gpus), expected, "{word}");
        }
        assert_eq!(near("x", ["v", "d", "xy"]), "");
        assert_eq!(near("bitsandbites", ["torch", "bitsandbytes", "bitsandbytes"]), "; did you mean bitsandbytes?");
    }
}
