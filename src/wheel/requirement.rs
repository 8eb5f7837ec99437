//! The user's requirements of device wheels.

use std::str::FromStr;

use pep508_rs::pep440_rs::{Operator, Version, VersionPattern, VersionSpecifier};
use pep508_rs::{Requirement, VerbatimUrl, VersionOrUrl};

use super::{WheelError, normalise};

/// The placeholder for the target in a requirement.
pub(crate) const TARGET: &str = "@GFXARCH@";

/// Fails unless a text is a requirement ([dependency specifiers]) for any target in place of `TARGET`. It becomes one
/// line of METADATA, so it must not have control characters.
///
/// [dependency specifiers]: https://packaging.python.org/en/latest/specifications/dependency-specifiers/
pub fn check_requirement(text: &str) -> Result<(), WheelError> {
    let refused = |reason: &str| Err(WheelError::Requirement(reason.to_owned()));
    // The grammar allows blanks and tabs only, but the parser accepts any Unicode white space.
    if text.contains(|letter: char| letter.is_control() || letter.is_whitespace() && letter != ' ') {
        return refused("it has a control character, or white space other than blanks");
    }
    let text = text.replace(TARGET, "gfx942");
    if has_open_name(&text) {
        return refused("a name ends with a letter or a digit");
    }
    match Requirement::<VerbatimUrl>::from_str(&text) {
        Ok(_) => Ok(()),
        // Without the quoted text: underlining a part of it can panic (`pep508_rs` 0.9.2, lib.rs:99).
        Err(error) => refused(error.message.to_string().lines().next().unwrap_or_default()),
    }
}

/// Whether a requirement `==wanted` accepts a version. A local version that it does not name is ignored, `.*` matches
/// any rest, and trailing zeros do not count ([version matching]). Texts that are not versions must be equal.
///
/// [version matching]: https://packaging.python.org/en/latest/specifications/version-specifiers/#version-matching
pub fn accepts(wanted: &str, version: &str) -> bool {
    let pattern = VersionPattern::from_str(wanted).ok();
    let specifier = pattern.and_then(|pattern| VersionSpecifier::from_pattern(Operator::Equal, pattern).ok());
    let Some((specifier, version)) = specifier.zip(Version::from_str(version).ok()) else {
        return normalise(wanted) == normalise(version);
    };
    contains(&specifier, &version)
}

/// The name of the distribution that a requirement is about.
pub(crate) fn required_name(requirement: &str) -> &str {
    let of_name = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let text = requirement.trim_start();
    text.split_at(text.find(|letter| !of_name(letter)).unwrap_or(text.len())).0
}

/// Whether the specifiers of a requirement accept a version (PEP 440). One without specifiers, with a URL or that is not
/// understood accepts every version.
pub(super) fn is_satisfied_by(requirement: &str, version: &str) -> bool {
    if has_open_name(requirement) {
        return true;
    }
    let parsed = Requirement::<VerbatimUrl>::from_str(requirement).ok();
    let Some(VersionOrUrl::VersionSpecifier(specifiers)) = parsed.and_then(|parsed| parsed.version_or_url) else {
        return true;
    };
    let is_accepted = |version: Version| specifiers.iter().all(|specifier| contains(specifier, &version));
    specifiers.is_empty() || Version::from_str(version).is_ok_and(is_accepted)
}

fn contains(specifier: &VersionSpecifier, version: &Version) -> bool {
    // `pep440_rs` 0.7.3 accepts a version that is shorter than a prefix (version_specifier.rs:481).
    let length = specifier.version().release().len().max(version.release().len());
    let release: Vec<_> = version.release().iter().copied().chain(std::iter::repeat(0)).take(length).collect();
    specifier.contains(&version.clone().with_release(release))
}

/// Whether the name or an extra ends with punctuation, which makes the parser panic (`pep508_rs` 0.9.2, lib.rs:477 and
/// 658).
fn has_open_name(text: &str) -> bool {
    let of_name = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let text = text.trim_start_matches(' ');
    let (name, rest) = text.split_at(text.find(|letter| !of_name(letter)).unwrap_or(text.len()));
    let extras = rest.trim_start_matches(' ').strip_prefix('[').and_then(|rest| rest.split(']').next());
    let mut names = std::iter::once(name).chain(extras.unwrap_or_default().split(|letter| !of_name(letter)));
    names.any(|name| name.ends_with(['.', '_', '-']))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{accepts, check_requirement, is_satisfied_by};

    /// The result of `SpecifierSet("==" + wanted).contains(version, prereleases=True)` in `packaging`. The last two are
    /// not versions.
    #[test]
    fn versions_match_as_in_pep_440() {
        for (wanted, version, expected) in [
            ("2.10.0", "2.10.0+rocm7.1", true),
            ("2.10.0+rocm7.1", "2.10.0", false),
            ("2.10.0+rocm7.1", "2.10.0+rocm7.2", false),
            ("2.10.0+rocm-7_1", "2.10.0+rocm.7.1", true),
            ("7.14.*", "7.14.3rc1", true),
            ("7.14.*", "7.140", false),
            ("7.14.*", "7", false),
            ("7.0.*", "7", true),
            ("7.14", "7.14.0", true),
            ("7.14.0", "7.14", true),
            ("7.14", "7.14.1", false),
            ("7.14", "7.14rc1", false),
            ("1!7", "7", false),
            ("2024x", "2024X", true),
            ("2024x", "2024y", false),
        ] {
            assert_eq!(accepts(wanted, version), expected, "{wanted} {version}");
        }
    }

    /// The result of `Requirement(text).specifier.contains(version, prereleases=True)` in `packaging`.
    #[test]
    fn requirements_accept_the_versions_of_their_specifiers() {
        for (requirement, version, expected) in [
            ("rocm==7.14.*", "7.14.0", true),
            ("rocm==7.14.*", "7.14.0+local", true),
            ("rocm==7.14.*", "6.0", false),
            ("rocm==7.14.*", "7", false),
            ("rocm>=7,<8,!=7.3", "7.2", true),
            ("rocm>=7,<8,!=7.3", "7.3.0", false),
            ("rocm>=7,<8,!=7.3", "8.0", false),
            ("rocm~=7.1", "7.9", true),
            ("rocm (>=7) ; sys_platform == 'linux'", "6.9", false),
            ("rocm", "6.0", true),
            ("rocm @ https://example.com/rocm.whl", "6.0", true),
        ] {
            assert_eq!(is_satisfied_by(requirement, version), expected, "{requirement} {version}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn no_text_is_too_odd(words in prop::collection::vec(prop_oneof![
            prop::sample::select(vec![
                "a", "b-", "c.", "[", "]", ",", "(", ")", ";", "@", "==", "~=", ">=", "<", "!=", "===", "1", "1.*", "1.0+x",
                "'", "\"", "'3'", "'a'", "'linux'", "sys_platform", "python_version", "python_full_version", "extra", "os_name",
                "in", "not", "and", "or", "https://x/y", "./x", "${HOME}", "file:", "ä", "@GFXARCH@", "",
            ]).prop_map(str::to_owned),
            "\\PC",
        ], 0..9), blank in any::<bool>()) {
            let _ = check_requirement(&words.join(if blank { " " } else { "" }));
        }
    }

    /// What pip 26.3 (packaging 26) accepts and refuses.
    #[test]
    fn requirements_are_those_of_pep_508() {
        for text in [
            "a",
            "numpy",
            " rocm-sdk-device-@GFXARCH@ == 7.1",
            "rocm-sdk-device-@GFXARCH@==7.1+rocm7",
            "@GFXARCH@-kernels",
            "zope.interface>=5",
            "a[b,c] ~= 1.0 ; python_version < \"3.9\"",
            "a (>=1)",
            "a!=2",
            "a@https://example.com/a.whl",
            "a == 1.*",
            "a; sys_platform == 'linux' and extra == 'x'",
        ] {
            assert!(check_requirement(text).is_ok(), "{text}: {:?}", check_requirement(text));
        }
        for text in [
            "",
            " ",
            "a b c !!",
            "a b",
            "-a",
            "a-",
            "a- == 1",
            "== 1",
            "a, b",
            "ä",
            "a\nName: b",
            "a == 1\r",
            "a\t== 1",
            "a\u{a0}== 1",
            "foo; bar",
            "foo >= banana",
            "foo == @GFXARCH@",
            "foo >= 1.0+local",
            "foo ~= 1",
            "foo[",
            "foo[a-]",
            "foo[a, b_ ]",
            "foo (>=1",
            "foo; python_version",
            "foo; '@GFXARCH@' in variant_properties",
            "./foo.whl",
        ] {
            assert!(check_requirement(text).is_err(), "{text}");
        }
    }
}
