//! Options with several values, as `split_python_wheels` of rocm-kpack takes them: `--databases rocblas miopen`.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::database::Handler;

/// These options, and whether naming them without a value means something.
const LISTS: [(&str, bool); 3] =
    [("--databases", true), ("--split-databases", true), ("--device-requires-dist", false)];

/// Ties each value of a list to its option, so that the input can follow a list: the list ends where an option or the
/// name of an existing file begins.
pub(super) fn bind(arguments: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments = arguments.into_iter().peekable();
    let mut bound = Vec::new();
    while let Some(argument) = arguments.next() {
        if argument == "--" {
            bound.push(argument);
            bound.extend(arguments);
            break;
        }
        let Some(&(option, may_be_empty)) = LISTS.iter().find(|(option, _)| argument == *option) else {
            bound.push(argument);
            continue;
        };
        let bind = |value: &OsStr| [OsStr::new(option), OsStr::new("="), value].into_iter().collect::<OsString>();
        let before = bound.len();
        while let Some(value) = arguments.next_if(|value| !ends(value)) {
            bound.push(bind(&value));
        }
        if may_be_empty && bound.len() == before {
            bound.push(bind(OsStr::new("")));
        }
    }
    bound
}

/// Whether an argument is not a value of a list.
fn ends(argument: &OsStr) -> bool {
    let is_database = || argument.to_str().is_some_and(|name| name.parse::<Handler>().is_ok());
    argument.as_encoded_bytes().starts_with(b"-") || (Path::new(argument).exists() && !is_database())
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
                "miopen,aotriton",
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
                "--databases=miopen,aotriton",
                "-j",
                "2",
                "--device-requires-dist=a",
                "--device-requires-dist=b == 1",
            ]
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
