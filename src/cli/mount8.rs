//! kpackfs as called by mount(8) and mount.fuse3.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use kpackfs_mount_helper::{Caller, FAILURE, KnownOption, MountRequest, SYSTEM, USAGE, fuse_source};

use super::failure::text;
use super::prepare::answers;
use super::terminal::{message, print_error};
use crate::mount::{Fault, MountError};

/// Options of `kpackfs mount` that are not mount options: mount(8) has its own arguments for them, or they change nothing.
const NOT_MOUNT_OPTIONS: [&str; 8] =
    ["foreground", "fake", "namespace", "help", "clang-offload-bundler", "tmp-dir", "verbose", "quiet"];

/// The names under which mount(8) calls kpackfs.
const HELPERS: [&str; 2] = ["mount.kpackfs", "mount.fuse.kpackfs"];

/// The caller, if it is one of these: mount(8) through the name of a link, mount.fuse3 as `kpackfs SOURCE DIRECTORY -o
/// …`. A SOURCE without a slash that does not exist is a misspelt command: `kpackfs splt a.whl -o out`.
pub(super) fn caller(arguments: &[OsString], cli: &clap::Command) -> Option<Caller> {
    let (program, arguments) = arguments.split_first()?;
    let name = Path::new(program).file_name()?;
    if HELPERS.iter().any(|helper| name == *helper) {
        return Some(Caller::Mount);
    }
    let source = fuse_source(arguments)?;
    let is_command = source == "help" || cli.find_subcommand(&source).is_some();
    let is_path =
        source.as_bytes().contains(&b'/') || answers(Path::new(&source), |path| path.symlink_metadata().is_ok());
    (is_path && !is_command).then_some(Caller::Fuse)
}

/// Mounts on behalf of mount(8) by `run`, which parses a command line and runs it, and returns mount(8)'s exit codes.
pub(super) fn run(
    caller: Caller,
    arguments: Vec<OsString>,
    cli: &clap::Command,
    run: impl Fn(Vec<OsString>) -> anyhow::Result<ExitCode>,
) -> ExitCode {
    let name = match caller {
        Caller::Mount => "mount.kpackfs",
        Caller::Fuse => "kpackfs",
    };
    let fail = |code: u8, reason: &str| {
        print_error(&format!("{name}: {}", message(&reason)));
        ExitCode::from(code)
    };
    if caller == Caller::Mount && arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
        write!(io::stdout(), "{}", help(name, cli)).ok();
        return ExitCode::SUCCESS;
    }
    let request = match MountRequest::parse(caller, arguments.into_iter().skip(1), &options(cli)) {
        Ok(request) => request,
        Err(reason) => return fail(USAGE, &reason),
    };
    let command = std::iter::once(OsString::from("kpackfs")).chain(request.to_command());
    match run(command.collect()) {
        Ok(code) => code,
        Err(error) if error.is::<clap::Error>() => fail(USAGE, first_line(&error.to_string())),
        Err(error) => {
            let is_system = error.downcast_ref::<MountError>().is_some_and(|error| error.fault() == Fault::System);
            fail(if is_system { SYSTEM } else { FAILURE }, &text(&error))
        }
    }
}

/// The arguments of `kpackfs mount` that are mount options, with those of all commands.
pub(super) fn arguments(cli: &clap::Command) -> impl Iterator<Item = &clap::Arg> {
    let of_mount = cli.find_subcommand("mount").into_iter().flat_map(clap::Command::get_arguments);
    let of_all = cli.get_arguments().filter(|argument| argument.is_global_set());
    let is_one = |argument: &&clap::Arg| argument.get_long().is_some_and(|name| !NOT_MOUNT_OPTIONS.contains(&name));
    of_mount.chain(of_all).filter(is_one)
}

/// The mount options.
fn options(cli: &clap::Command) -> Vec<KnownOption> {
    let known = |argument: &clap::Arg| {
        let name = argument.get_long()?.to_owned();
        Some(KnownOption { name, takes_value: argument.get_action().takes_values() })
    };
    arguments(cli).filter_map(known).collect()
}

/// The text of `mount.kpackfs --help`: usage and options.
fn help(name: &str, cli: &clap::Command) -> String {
    let known = options(cli).into_iter();
    let names: Vec<_> = known.map(|known| if known.takes_value { known.name + "=VALUE" } else { known.name }).collect();
    format!(
        "Usage: {name} INPUT DIRECTORY [-sfnv] [-N NAMESPACE] [-o OPTION[,OPTION...]]\n\n\
         Mounts a wheel or an install tree split by GPU architecture; mount(8) calls it for -t kpackfs.\n\n  \
         -f  do everything except mounting\n  \
         -N  mount in this mount namespace\n  \
         -o  {}\n\n\
         They are the options of `kpackfs mount`, which `kpackfs mount --help` explains; see also mount.kpackfs(8).\n",
        names.join(", ")
    )
}

/// The first line of clap's message. The following lines show the usage of `kpackfs mount`, which the user did not
/// call.
fn first_line(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn the_caller_is_told_by_name_or_shape() {
        for (arguments, expected) in [
            (&["/sbin/mount.kpackfs", "/w", "/m"][..], Some(Caller::Mount)),
            (&["mount.fuse.kpackfs"], Some(Caller::Mount)),
            (&["/usr/bin/kpackfs", "/w.whl", "/m", "-o", "rw,dev,suid"], Some(Caller::Fuse)),
            (&["kpackfs", "-f", "/w.whl", "/m", "-oro"], Some(Caller::Fuse)),
            // A directory of this package, in which tests run.
            (&["kpackfs", "src", "/m", "-o", "rw"], Some(Caller::Fuse)),
            (&["./mount.kpackfs", "split", "-o"], Some(Caller::Mount)),
            (&["mount.other", "split", "a.whl", "-o", "out"], None),
            (&["kpackfs", "splt", "/w.whl", "-o", "/m"], None),
            (&["kpackfs", "splt", "-o", "/m", "/w.whl"], None),
            (&["kpackfs", "./splt", "/w.whl", "-o", "/m", "--force"], None),
            (&["kpackfs", "/w.whl", "/m", "more", "-o", "rw"], None),
            (&["kpackfs", "/w.whl", "/m"], None),
            (&["kpackfs", "split", "/w.whl", "-o", "/m"], None),
            (&["kpackfs", "help", "-o"], None),
            (&["kpackfs", "-o"], None),
            (&["kpackfs"], None),
            (&[], None),
        ] {
            let arguments: Vec<_> = arguments.iter().map(OsString::from).collect();
            assert_eq!(caller(&arguments, &Cli::command()), expected, "{arguments:?}");
        }
    }

    #[test]
    fn help_names_the_options() {
        let help = help("mount.kpackfs", &Cli::command());
        for text in ["Usage: mount.kpackfs INPUT DIRECTORY", "kpackfs mount --help"] {
            assert!(help.contains(text), "{text}: {help}");
        }
        let (_, list) = help.split_once("-o  ").unwrap();
        let listed: Vec<_> = list.lines().next().unwrap().split(", ").collect();
        for name in ["gpu-targets=VALUE", "passthrough=VALUE", "allow-ratio", "no-passthrough", "no-confinement"] {
            assert!(listed.contains(&name), "{name}: {listed:?}");
        }
        assert!(!help.contains("clang-offload-bundler") && !help.contains("foreground"), "{help}");
    }

    #[test]
    fn every_option_of_mount_is_a_mount_option() {
        let known = options(&Cli::command());
        for (name, takes_value) in [
            ("arch", true),
            ("thin", true),
            ("gpu-targets", true),
            ("databases", true),
            ("memory", true),
            ("cache-dir", true),
            ("no-cache", false),
            ("overlay-root", true),
            ("group", true),
            ("compression", true),
            ("log-file", true),
            ("allow-other", false),
            ("noexec", false),
            ("passthrough", true),
            ("no-passthrough", false),
            ("no-confinement", false),
        ] {
            assert!(known.contains(&KnownOption { name: name.to_owned(), takes_value }), "{name}");
        }
        assert!(known.iter().all(|option| option.name != "foreground" && option.name != "fake"));
    }

    #[test]
    fn values_are_checked_as_on_the_command_line() {
        let arguments = ["/w", "/m", "-o", "compression=lzma"].map(OsString::from);
        let request = MountRequest::parse(Caller::Mount, arguments, &options(&Cli::command())).unwrap();
        let command = std::iter::once(OsString::from("kpackfs")).chain(request.to_command());
        let error = Cli::try_parse_from(command).unwrap_err().to_string();
        assert!(first_line(&error).starts_with("invalid value 'lzma' for '--compression"), "{error}");
    }
}
