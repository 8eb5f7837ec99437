//! Requirements of device wheels, as users give them.

use std::str::FromStr;

use pep508_rs::{Requirement, VerbatimUrl};

use super::WheelError;

/// What stands for the target in a requirement.
pub(super) const TARGET: &str = "@GFXARCH@";

/// Checks that a text is a requirement ([dependency specifiers]) wherever [`TARGET`] stands for a target. It becomes one
/// line of METADATA, so it has no control characters.
///
/// [dependency specifiers]: https://packaging.python.org/en/latest/specifications/dependency-specifiers/
pub fn check_requirement(text: &str) -> Result<(), WheelError> {
    let refused = |reason: &str| Err(WheelError::Requirement(reason.to_owned()));
    // The grammar knows blanks and tabs only, and the parser takes whatever Unicode calls white space.
    if text.contains(|letter: char| letter.is_control() || letter.is_whitespace() && letter != ' ') {
        return refused("it has a control character, or white space other than blanks");
    }
    let text = text.replace(TARGET, "gfx942");
    if has_open_name(&text) {
        return refused("a name ends with a letter or a digit");
    }
    match Requirement::<VerbatimUrl>::from_str(&text) {
        Ok(_) => Ok(()),
        // Without the text that it concerns: underlining a part of that can panic (`pep508_rs` 0.9.2, lib.rs:99).
        Err(error) => refused(error.message.to_string().lines().next().unwrap_or_default()),
    }
}

/// Whether the name or an extra ends with punctuation, where the parser panics (`pep508_rs` 0.9.2, lib.rs:477 and 658).
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

    use super::check_requirement;

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

    /// What pip 26.3 (packaging 26) takes and refuses.
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
