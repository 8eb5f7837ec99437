//! Takes arbitrary bytes, split at NUL, for the arguments that mount(8) passes: each option either reaches kpackfs
//! unchanged or is refused by name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use kpackfs_mount_helper::{Caller, KnownOption, MountRequest};

/// Options of `kpackfs mount`, as far as they matter here.
const KNOWN: [(&str, bool); 6] = [
    ("arch", true),
    ("compression-level", true),
    ("group", true),
    ("log-file", true),
    ("allow-other", false),
    ("no-cache", false),
];

/// Checks bytes that may be arguments.
pub(crate) fn run(bytes: &[u8]) {
    let known = KNOWN.map(|(name, takes_value)| KnownOption { name: name.to_owned(), takes_value });
    let arguments: Vec<OsString> = bytes.split(|&byte| byte == 0).map(|it| OsString::from_vec(it.to_vec())).collect();
    for caller in [Caller::Mount, Caller::Fuse] {
        match MountRequest::parse(caller, arguments.clone(), &known) {
            Ok(request) => check(caller, &request, &arguments, &known),
            Err(reason) => assert!(!reason.is_empty()),
        }
    }
}

fn check(caller: Caller, request: &MountRequest, arguments: &[OsString], known: &[KnownOption]) {
    let command = request.to_command();
    let at = command.iter().position(|it| it == "--").expect("a separator");
    let (options, names) = (&command[1..at], &command[at + 1..]);
    assert_eq!((command[0].as_os_str(), names.len()), (OsStr::new("mount"), 2));
    // Source and directory are passed unchanged, in this order.
    let first = arguments.iter().position(|it| *it == names[0]).expect("the source is an argument");
    assert!(arguments[first + 1..].contains(&names[1]), "the directory is an argument behind it");
    let mut again: Vec<OsString> = names.to_vec();
    for option in options {
        let option = option.as_bytes().strip_prefix(b"--").expect("an option");
        match option {
            b"fake" | b"foreground" => again.push("-f".into()),
            b"noexec" => panic!("nobody knows noexec here"),
            _ if option.starts_with(b"namespace=") => {
                again.extend(["-N".into(), OsString::from_vec(option["namespace=".len()..].to_vec())]);
            }
            // The same option again, as it would be written in fstab.
            _ => again.extend([OsString::from("-o"), OsString::from_vec(escaped(option))]),
        }
        let value = option.iter().position(|&byte| byte == b'=').map_or(&b""[..], |at| &option[at + 1..]);
        let given = arguments.iter().any(|it| contains(&unescaped(it.as_bytes()), value));
        assert!(given || contains(&arguments.join(OsStr::new("\0")).into_vec(), value), "{option:?} was not asked for");
    }
    let again = MountRequest::parse(caller, again, known).expect("what was understood before").to_command();
    assert_eq!(again, command);
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    part.is_empty() || bytes.windows(part.len()).any(|there| there == part)
}

fn escaped(option: &[u8]) -> Vec<u8> {
    let special = |byte: &&u8| matches!(**byte, b'\\' | b',' | b'"');
    option.iter().flat_map(|byte| special(&byte).then_some(b'\\').into_iter().chain([*byte])).collect()
}

/// The text without quotation marks, and without the backslashes that escape the next character.
fn unescaped(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut bytes = bytes.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' => {}
            b'\\' => plain.extend(bytes.next()),
            byte => plain.push(byte),
        }
    }
    plain
}
