//! Options with several values, in the syntax of rocm-kpack's tools: `--databases rocblas miopen`, `--gpu-targets
//! gfx942 gfx1100`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::prepare::answers;
use crate::database::Handler;
use crate::gpu::TargetId;

/// The word for the GPUs of this machine, in a list of GPUs.
pub(super) const AUTO: &str = "auto";
/// The word for all GPUs that there is code for.
pub(super) const ALL: &str = "all";

/// The kind of an option's values.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Values {
    /// Names of databases. The option may also have no value.
    Databases,
    /// Targets and families.
    Targets,
    /// Requirements, which may contain blanks and commas.
    Requirements,
}

const LISTS: [(&str, Values); 6] = [
    ("--databases", Values::Databases),
    ("--split-databases", Values::Databases),
    ("--gpu-targets", Values::Targets),
    ("--exclude-targets", Values::Targets),
    ("--require", Values::Targets),
    ("--device-requires-dist", Values::Requirements),
];

/// Joins each value of a list to its option, so that the input can follow a list.
pub(super) fn bind(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments.into_iter().peekable();
    let mut bound = Vec::new();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            bound.push(argument);
            bound.extend(arguments);
            break;
        }
        let Some(&(option, values)) = LISTS.iter().find(|(option, _)| argument == *option) else {
            bound.push(argument);
            continue;
        };
        let tied = |value: &OsStr| [OsStr::new(option), OsStr::new("="), value].into_iter().collect::<OsString>();
        let before = bound.len();
        while let Some(value) = arguments.next_if(|value| values.go_on(value, bound.len() == before)) {
            match value.to_str().filter(|_| values != Values::Requirements) {
                Some(text) if !pieces(text).is_empty() => {
                    bound.extend(pieces(text).into_iter().map(|piece| tied(OsStr::new(piece))));
                }
                _ => bound.push(tied(&value)),
            }
        }
        if bound.len() == before {
            match values {
                Values::Databases => bound.push(tied(OsStr::new(""))),
                // clap reports the error.
                Values::Targets => bound.push(argument),
                Values::Requirements => {}
            }
        }
    }
    bound
}

impl Values {
    /// Whether a word is a value of the list. A list of targets continues while words are targets; other lists continue
    /// up to the name of an existing file.
    fn go_on(self, word: &OsStr, is_first: bool) -> bool {
        if word.as_encoded_bytes().starts_with(b"-") {
            return false;
        }
        let all = |is_value: fn(&str) -> bool| {
            let words = word.to_str().map(pieces).unwrap_or_default();
            !words.is_empty() && words.into_iter().all(is_value)
        };
        match self {
            Self::Targets => is_first || all(is_target),
            Self::Databases => all(|name| name.parse::<Handler>().is_ok()) || !is_there(word),
            Self::Requirements => is_first || !is_there(word),
        }
    }
}

/// The values of a list, which commas, semicolons (as in `CMake`) or blanks separate.
pub(super) fn pieces(text: &str) -> Vec<&str> {
    text.split(|letter: char| matches!(letter, ',' | ';') || letter.is_whitespace())
        .filter(|piece| !piece.is_empty())
        .collect()
}

fn is_there(word: &OsStr) -> bool {
    answers(Path::new(word), Path::exists)
}

/// Whether a word is a target or a family: `gfx942`, `gfx90a:xnack+`, `gfx9-4-generic`, `gfx1250-strict`, `gfx12_0`.
/// Names of files can be target IDs as well (`torch.whl`, `gfx942-tree`), but none of these, and be words for GPUs.
fn is_target(word: &str) -> bool {
    if [AUTO, ALL].contains(&word) {
        return !is_there(OsStr::new(word));
    }
    let Ok(target) = TargetId::typed(word) else { return false };
    let Some(name) = target.processor().strip_prefix("gfx") else { return target.is_spirv() };
    let (number, suffix) = name.split_once('-').unwrap_or((name, ""));
    let is_number = number.starts_with(|first: char| first.is_ascii_digit())
        && number.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let is_generic = |suffix: &str| suffix.trim_start_matches(|letter: char| letter.is_ascii_digit()) == "-generic";
    is_number && (["", "strict", "generic"].contains(&suffix) || is_generic(suffix))
}

#[cfg(test)]
mod tests {
    use super::bind;

    fn bound(arguments: &[&str]) -> Vec<String> {
        bind(arguments.iter().map(Into::into)).into_iter().map(|argument| argument.into_string().unwrap()).collect()
    }

    #[test]
    fn values_are_tied_to_their_option() {
        let requires = "--device-requires-dist";
        assert_eq!(
            bound(&[
                "kpackfs",
                "split",
                "--databases",
                "rocblas",
                "miopen, aotriton",
                "-j",
                "2",
                requires,
                "a",
                "b == 1"
            ]),
            [
                "kpackfs",
                "split",
                "--databases=rocblas",
                "--databases=miopen",
                "--databases=aotriton",
                "-j",
                "2",
                "--device-requires-dist=a",
                "--device-requires-dist=b == 1",
            ]
        );
    }

    #[test]
    fn targets_may_be_several_words() {
        let tied = |names: &[&str]| names.iter().map(|name| format!("--gpu-targets={name}")).collect::<Vec<_>>();
        for (words, names) in [
            (&["gfx942"][..], &["gfx942"][..]),
            (&["gfx942", "gfx1100"], &["gfx942", "gfx1100"]),
            (&["gfx942,gfx1100"], &["gfx942", "gfx1100"]),
            (&["gfx942, gfx1100"], &["gfx942", "gfx1100"]),
            (&["gfx942;gfx1100;"], &["gfx942", "gfx1100"]),
            (&["gfx942-xnack+;gfx1100"], &["gfx942-xnack+", "gfx1100"]),
            (&["gfx942,", "gfx1100"], &["gfx942", "gfx1100"]),
            (&["gfx942 gfx1100 ", "gfx11"], &["gfx942", "gfx1100", "gfx11"]),
            (
                &["gfx90a:xnack+", "gfx9-4-generic", "gfx1250-strict", "gfx12_0"],
                &["gfx90a:xnack+", "gfx9-4-generic", "gfx1250-strict", "gfx12_0"],
            ),
        ] {
            for input in ["torch.whl", "gfx942.whl", "./gfx942", "gfx942-tree", "gfx", "gfx942/", "tree"] {
                let behind = bound(&[&["split", "--gpu-targets"], words, &[input, "-o", "out"]].concat());
                assert_eq!(
                    behind,
                    [&["split".to_owned()], &*tied(names), &[input, "-o", "out"].map(str::to_owned)].concat()
                );
                let before = bound(&[&["split", input, "--gpu-targets"], words, &["-o", "out"]].concat());
                assert_eq!(
                    before,
                    [&["split", input].map(str::to_owned), &*tied(names), &["-o", "out"].map(str::to_owned)].concat()
                );
            }
        }
        // No file has these names here.
        assert_eq!(
            bound(&["--gpu-targets", "gfx942", "auto", "x"]),
            ["--gpu-targets=gfx942", "--gpu-targets=auto", "x"]
        );
        assert_eq!(bound(&["--gpu-targets", "all", "x"]), ["--gpu-targets=all", "x"]);
        // An invalid target is an error, and is not taken for the input.
        assert_eq!(bound(&["--gpu-targets", "GFX942", "x"]), ["--gpu-targets=GFX942", "x"]);
        assert_eq!(bound(&["--gpu-targets", "-o", "x"]), ["--gpu-targets", "-o", "x"]);
        assert_eq!(
            bound(&["--exclude-targets", "gfx906", "gfx900", "x"]),
            ["--exclude-targets=gfx906", "--exclude-targets=gfx900", "x"]
        );
    }

    #[test]
    fn a_list_ends_where_a_file_is_named() {
        assert_eq!(bound(&["--databases", "rocblas", "/", "/tmp"]), ["--databases=rocblas", "/", "/tmp"]);
        assert_eq!(bound(&["--databases", "/"]), ["--databases=", "/"]);
        assert_eq!(bound(&["--device-requires-dist", "-o", "x"]), ["-o", "x"]);
        assert_eq!(bound(&["--databases=rocblas", "x", "--", "--databases", "y"]).len(), 5);
    }
}
