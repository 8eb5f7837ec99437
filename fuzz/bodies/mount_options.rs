//! Takes arbitrary bytes, cut at NUL, for the arguments that mount(8) passes: what is asked for reaches kpackfs unchanged, or
//! is refused by name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use crate::arguments::Request;

/// What is done to some bytes that are arguments, or not.
pub(crate) fn run(bytes: &[u8]) {
    let arguments: Vec<OsString> = bytes.split(|&byte| byte == 0).map(|it| OsString::from_vec(it.to_vec())).collect();
    let request = match Request::parse(arguments.clone()) {
        Ok(request) => request,
        Err(reason) => {
            assert!(!reason.is_empty());
            return;
        }
    };
    let command = request.to_command();
    let at = command.iter().position(|it| it == "--").expect("a separator");
    let (options, names) = (&command[1..at], &command[at + 1..]);
    assert_eq!((command[0].as_os_str(), names.len()), (OsStr::new("mount"), 2));
    // Source and directory are arguments as they are, in this order.
    let first = arguments.iter().position(|it| *it == names[0]).expect("the source is an argument");
    assert!(arguments[first + 1..].contains(&names[1]), "the directory is an argument behind it");
    let mut again: Vec<OsString> = names.to_vec();
    for option in options {
        let option = option.to_str().expect("options are UTF-8");
        let name = option.strip_prefix("--").expect("an option");
        // The same option once more, as it would stand in fstab.
        let name = name.strip_prefix("group=").map_or_else(|| name.to_owned(), |name| format!("group-name={name}"));
        again.extend([OsString::from("-o"), escaped(&name).into()]);
        let value = option.split_once('=').map_or(option, |(_, value)| value);
        let given = arguments.iter().map(|it| unescaped(it.as_bytes())).any(|it| contains(&it, value.as_bytes()));
        assert!(given || value == "--allow-other", "{option:?} was not asked for");
    }
    let again = Request::parse(again).expect("what was understood before").to_command();
    assert_eq!(again, command);
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || bytes.windows(part.len()).any(|there| there == part)
}

fn escaped(option: &str) -> String {
    option.replace('\\', "\\\\").replace(',', "\\,")
}

/// Without the backslashes that take the next character as it is.
fn unescaped(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut bytes = bytes.iter();
    while let Some(&byte) = bytes.next() {
        plain.extend(if byte == b'\\' { bytes.next() } else { Some(&byte) });
    }
    plain
}
