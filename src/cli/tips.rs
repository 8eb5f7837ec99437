//! Tips of errors about the command line. An error has one tip at most.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

/// What options that name GPUs are called in commands of kpackfs, rocm-kpack and compilers.
const GPU_OPTIONS: [&str; 12] = [
    "amdgpu-targets",
    "arch",
    "archs",
    "gpu",
    "gpu-arch",
    "gpu-target",
    "gpu-targets",
    "gpus",
    "offload-arch",
    "require",
    "target",
    "targets",
];

/// Options of kpackfs that name GPUs; the first that a command has is the one to use there.
const GPU_OPTIONS_HERE: [&str; 2] = ["gpu-targets", "target"];

/// Names what is wrong where clap cannot know it.
pub(super) fn improve(error: Error, cli: &Command, arguments: &[OsString]) -> Error {
    match error.kind() {
        ErrorKind::UnknownArgument => of_gpu_option(error, cli, arguments),
        ErrorKind::MissingRequiredArgument => of_mount_point(error),
        _ => error,
    }
}

/// Names the mount point if there is an input only. clap takes the one argument for the last one, and misses those before it.
fn of_mount_point(mut error: Error) -> Error {
    let missing = error.get(ContextKind::InvalidArg);
    if missing == Some(&ContextValue::Strings(vec!["<INPUT>...".to_owned()])) {
        error.insert(ContextKind::InvalidArg, ContextValue::Strings(vec!["<MOUNT_POINT>".to_owned()]));
    }
    error
}

/// Names the option for GPUs of this command if the error is about that of another one.
///
/// clap compares spellings, so it suggests `--all` for another command's `--arch`, or that `--arch` might be a file.
fn of_gpu_option(mut error: Error, cli: &Command, arguments: &[OsString]) -> Error {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidArg) else { return error };
    if !wrong.strip_prefix("--").is_some_and(|name| GPU_OPTIONS.contains(&name)) {
        return error;
    }
    let command = innermost(cli, arguments);
    let has = |name: &&&str| command.get_arguments().any(|argument| argument.get_long() == Some(**name));
    if let Some(option) = GPU_OPTIONS_HERE.iter().find(has) {
        error.remove(ContextKind::SuggestedArg);
        let tip = format!("GPUs are named by '--{option}' here");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// The command that the first arguments name.
fn innermost<'a>(cli: &'a Command, arguments: &[OsString]) -> &'a Command {
    let mut command = cli;
    for name in arguments.iter().skip(1) {
        let Some(inner) = command.find_subcommand(name) else { break };
        command = inner;
    }
    command
}
