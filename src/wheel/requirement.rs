//! Requirements of device wheels, as users give them.

use super::WheelError;

/// What stands for the target in a requirement.
pub(super) const TARGET: &str = "@GFXARCH@";

/// Checks that a text begins as a requirement: a name, and then nothing, or what may follow one ([dependency specifiers]).
/// It is one line of METADATA.
///
/// [dependency specifiers]: https://packaging.python.org/en/latest/specifications/dependency-specifiers/
pub fn check_requirement(text: &str) -> Result<(), WheelError> {
    let text = text.trim_matches(' ').replace(TARGET, "gfx");
    let of_name = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    let (name, rest) = text.split_at(text.find(|letter| !of_name(letter)).unwrap_or(text.len()));
    let is_at_edge = |letter: char| letter.is_ascii_alphanumeric();
    let is_name = name.starts_with(is_at_edge) && name.ends_with(is_at_edge);
    let rest = rest.trim_start_matches(' ');
    let may_follow = rest.is_empty() || rest.starts_with(['[', '(', '<', '>', '=', '!', '~', ';', '@']);
    if is_name && may_follow && !rest.contains(char::is_control) { Ok(()) } else { Err(WheelError::Requirement) }
}

#[cfg(test)]
mod tests {
    use super::check_requirement;

    #[test]
    fn what_begins_as_a_requirement_is_one() {
        for text in [
            "a",
            "numpy",
            " rocm-sdk-device-@GFXARCH@ == 7.1",
            "@GFXARCH@-kernels",
            "zope.interface>=5",
            "a[b,c] ~= 1.0 ; python_version < \"3.9\"",
            "a (>=1)",
            "a!=2",
            "a@https://example.com/a.whl",
        ] {
            assert!(check_requirement(text).is_ok(), "{text}");
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
        ] {
            assert!(check_requirement(text).is_err(), "{text}");
        }
    }
}
