//! `kpackfs INPUT DIRECTORY` mounts, as ratarmount, fuse-zip and mount-zip do.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::{ContextKind, ErrorKind};
use clap::{Command, Error};

use super::prepare::{answers, is_input};
use super::tips::is_of_others;

/// The command line with `mount` in it, if `error` says that INPUT is no command, both exist, and INPUT is no misspelt command.
pub(super) fn rewritten(error: &Error, cli: &Command, arguments: &[OsString]) -> Option<Vec<OsString>> {
    let [program, input, directory] = arguments else { return None };
    let is_command = error.kind() != ErrorKind::InvalidSubcommand || cli.find_subcommand(input).is_some();
    let is_similar = error.get(ContextKind::SuggestedSubcommand).is_some() || is_of_others(input);
    let may_be_misspelt = is_similar && !input.as_encoded_bytes().contains(&b'/');
    if is_command || may_be_misspelt || !is_input(input) || !answers(Path::new(directory), Path::is_dir) {
        return None;
    }
    Some([program, OsStr::new("mount"), OsStr::new("--"), input, directory].map(OsString::from).into())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn only_an_input_and_a_directory_are_mounted() {
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name).into_os_string().into_string().unwrap();
        fs::create_dir(at("m")).unwrap();
        fs::write(at("splt"), "").unwrap();
        let is_mounted = |words: &[&str]| {
            let arguments: Vec<_> = ["kpackfs"].iter().chain(words).map(OsString::from).collect();
            let error = Cli::try_parse_from(&arguments).unwrap_err();
            let mount = rewritten(&error, &Cli::command(), &arguments);
            assert!(mount.iter().all(|mount| *mount == [&["kpackfs", "mount", "--"], words].concat()), "{mount:?}");
            mount.is_some()
        };
        let (input, image, directory) = (&*at("splt"), &*format!("oci:{}:latest", at("m")), &*at("m"));
        // The second is a directory of this package, in which tests run.
        for words in [&[input, directory][..], &["src", directory], &[directory, directory], &[image, directory]] {
            assert!(is_mounted(words), "{words:?}");
        }
        for words in [
            &["splt", directory][..],
            &["tests", "src/cli", "src"],
            &["kpack", directory],
            &["help", directory],
            &["-x", directory],
            &[input],
            &[input, input],
            &[input, "-f", directory],
            &[&at("none"), directory],
            &[input, &at("none")],
        ] {
            assert!(!is_mounted(words), "{words:?}");
        }
    }
}
