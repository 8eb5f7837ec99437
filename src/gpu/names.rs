//! Architectures in names of files.

use super::TargetId;

/// The number of the GPU in a file's name, or else in that of the closest directory above it, possibly with digits that MIOpen
/// appends: `gfx90a`, `gfx942130`. `components` are those of its path.
pub(crate) fn named_gpu<'a>(components: impl DoubleEndedIterator<Item = &'a [u8]>) -> Option<&'a str> {
    components
        .rev()
        .find_map(|component| starts(std::str::from_utf8(component).ok()?).find_map(|start| Some(number_at(start)?.0)))
}

/// The first architecture in `text`.
pub(crate) fn find_arch(text: &str) -> Option<TargetId> {
    archs(text).next()
}

/// All architectures in `text`.
pub(crate) fn archs(text: &str) -> impl Iterator<Item = TargetId> {
    starts(text).filter_map(|rest| Some(arch_at(rest)?.0))
}

/// The architecture, if `text` is nothing else.
pub(crate) fn whole_arch(text: &str) -> Option<TargetId> {
    arch_at(text).filter(|(_, rest)| rest.is_empty()).map(|(arch, _)| arch)
}

/// The suffixes of `text` at which the name of a processor may start.
pub(crate) fn starts(text: &str) -> impl Iterator<Item = &str> {
    let mut previous = None;
    text.char_indices().filter_map(move |(position, character)| {
        let before = previous.replace(character);
        let rest = text.get(position..).filter(|rest| rest.starts_with("gfx"))?;
        before.is_none_or(|before: char| !before.is_alphanumeric()).then_some(rest)
    })
}

/// The architecture at the start of `text` in the form of build systems, and the rest: `gfx90a`, `gfx1250-strict`,
/// `gfx942-xnack-`, `gfx10-3-generic`.
pub(crate) fn arch_at(text: &str) -> Option<(TargetId, &str)> {
    let (processor, mut rest) = processor_at(text)?;
    let mut id = processor.to_owned();
    while let Some((feature, after)) = feature_at(rest) {
        id.push(':');
        id.push_str(feature);
        rest = after;
    }
    Some((id.parse().ok()?, rest))
}

/// The processor at the start of `text`, and the rest. It must not be followed by a letter or a digit, so `gfx90a68`
/// and `gfx1250-strict100` do not match: only MIOpen appends numbers to processors.
fn processor_at(text: &str) -> Option<(&str, &str)> {
    let (_, rest) = number_at(text)?;
    let is_numbered = |rest: &str| rest.starts_with(|letter: char| letter.is_ascii_digit());
    if rest.strip_prefix("-strict").is_some_and(is_numbered) {
        return None;
    }
    let minor = rest.strip_prefix('-').map_or(rest, |rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    let ends_well = |rest: &str| !rest.starts_with(char::is_alphanumeric);
    let after = [minor.strip_prefix("-generic"), rest.strip_prefix("-generic"), rest.strip_prefix("-strict")];
    let rest = after.into_iter().flatten().find(|after| ends_well(after)).unwrap_or(rest);
    ends_well(rest).then(|| text.split_at(text.len() - rest.len()))
}

/// `gfx`, digits and letters at the start of `text`, and the rest.
pub(crate) fn number_at(text: &str) -> Option<(&str, &str)> {
    let after_gfx = text.strip_prefix("gfx")?;
    let letters = after_gfx.trim_start_matches(|character: char| character.is_ascii_digit());
    if letters.len() == after_gfx.len() {
        return None;
    }
    let rest = letters.trim_start_matches(|character: char| character.is_ascii_lowercase());
    Some(text.split_at(text.len() - rest.len()))
}

/// The feature at the start of `text`, after a hyphen, and the rest: `xnack+`.
fn feature_at(text: &str) -> Option<(&str, &str)> {
    let feature = text.strip_prefix('-')?;
    let sign = ["sramecc", "xnack"].into_iter().find_map(|name| feature.strip_prefix(name))?;
    let rest = sign.strip_prefix(['+', '-'])?;
    Some(feature.split_at(feature.len() - rest.len()))
}

#[cfg(test)]
mod tests {
    use super::{find_arch, whole_arch};

    #[test]
    fn architectures_are_found_inside_names() {
        for (text, expected) in [
            ("TensileLibrary_gfx90a.co", Some("gfx90a")),
            ("Kernels.so-000-gfx906-xnack-.hsaco", Some("gfx906:xnack-")),
            ("x_gfx90a-xnack+.hsaco", Some("gfx90a:xnack+")),
            ("x_gfx90a-sramecc+-xnack-.co", Some("gfx90a:sramecc+:xnack-")),
            ("x_gfx1250-strict.co", Some("gfx1250-strict")),
            ("x_gfx1250-strict-xnack+.co", Some("gfx1250-strict")),
            ("x_gfx1250-stricter.co", Some("gfx1250")),
            ("x_gfx1250-strict100.co", None),
            ("x_gfx11-generic.co", Some("gfx11-generic")),
            ("x_gfx10-1-generic-xnack-.co", Some("gfx10-1-generic:xnack-")),
            ("x_gfx942-000.co", Some("gfx942")),
            ("gfx942_gfx950", Some("gfx942")),
            ("gfx90a68_gfx942", Some("gfx942")),
            ("xgfx942", None),
            ("gfx", None),
            ("gfxa", None),
            ("gfx942CU80", None),
            ("gfx90a-xnack+-xnack-", None),
        ] {
            assert_eq!(find_arch(text).map(|arch| arch.to_string()).as_deref(), expected, "{text}");
        }
        for (text, expected) in [
            ("gfx942-xnack+", Some("gfx942:xnack+")),
            ("gfx9-4-generic", Some("gfx9-4-generic")),
            ("gfx950:sramecc+:xnack-", None),
            ("gfx1250-b0-a0", None),
            ("gfx942_", None),
        ] {
            assert_eq!(whole_arch(text).map(|arch| arch.to_string()).as_deref(), expected, "{text}");
        }
    }
}
