//! How errors are printed, and the exit code of a command that fails.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;

use super::terminal::{complain, stdout};
use super::tips;
use crate::confine::{self, FILES};
use crate::mount::{Fault, MountError};
use crate::opened::is_not_understood;
use crate::remote::RemoteError;
use crate::report::TooLarge;
use crate::rope::with_causes;

/// Follows an error that the confinement may have caused: permissions look the same.
const CONFINED: &str =
    "; if its permissions allow this, kpackfs has given up the right to do it, which --no-confinement keeps";

/// Exit code for all errors except a wrong command line (which is 2, clap's).
pub(super) const FAILURE: u8 = 1;

/// Exit code if an input is not there, or if its form was not understood, so that there is no answer about it.
pub(super) const NOT_UNDERSTOOD: u8 = 5;

/// Exit code if there is no answer, for example about a damaged input, of commands whose code 1 is one: gates, `collect`, `diff`
/// and `verify`.
pub(super) const UNANSWERED: u8 = 2;

/// The most parts that are named.
const NAMED: usize = 100;

/// Exit code if a part exceeds `--max-part`, of every command that has this option.
pub(super) const TOO_LARGE: u8 = 1;

/// The exit code of an error; `other` if the input was understood.
pub(super) fn code(error: &anyhow::Error, other: u8) -> u8 {
    let is_out_of_reach = |cause: &(dyn Error + 'static)| {
        let mount = cause.downcast_ref::<MountError>();
        cause.is::<RemoteError>() || mount.is_some_and(|error| error.fault() == Fault::NotUnderstood)
    };
    if error.is::<TooLarge>() {
        TOO_LARGE
    } else if is_not_understood(error) || error.chain().any(is_out_of_reach) {
        NOT_UNDERSTOOD
    } else {
        other
    }
}

/// An error with its causes, and what to do about them.
pub(super) fn text(error: &anyhow::Error) -> String {
    let text = with_causes(error);
    let tip = error.chain().find_map(|cause| cause.downcast_ref()).map(tips::of_missing).unwrap_or_default();
    let remedy = error.chain().filter_map(<dyn Error>::downcast_ref).find_map(|error: &io::Error| remedy(error.kind()));
    text + &tip + remedy.unwrap_or_default()
}

/// What to do about an error of this kind.
fn remedy(kind: io::ErrorKind) -> Option<&'static str> {
    let is_confined = || confine::state().iter().any(|layer| layer.layer == FILES && layer.in_force);
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Some("; free some space, or write to another disk")
        }
        io::ErrorKind::ReadOnlyFilesystem => Some("; write to another place"),
        io::ErrorKind::PermissionDenied if is_confined() => Some(CONFINED),
        _ => None,
    }
}

/// Prints an error on stderr, after a line about each part that is too large.
pub(super) fn print(error: &anyhow::Error) {
    if let Some(TooLarge(judgement)) = error.downcast_ref() {
        judgement.lines().take(NAMED).for_each(|line| complain(&line));
    }
    complain(&text(error));
}

/// Prints what clap says of a command line: an error, or a help or version, which fails like any other answer.
pub(super) fn said_of_usage(error: &clap::Error) -> ExitCode {
    let code = ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(FAILURE));
    let printed = error.print();
    if error.use_stderr() { code } else { answered(printed, code) }
}

/// The exit code after something was printed to stdout.
pub(super) fn answered(result: io::Result<()>, code: ExitCode) -> ExitCode {
    match printed(result.and_then(|()| stdout().flush()).context("standard output")) {
        Ok(()) => code,
        Err(error) => {
            print(&error);
            ExitCode::from(FAILURE)
        }
    }
}

/// Prints an error of a command whose code 1 is an answer. Returns its exit code.
pub(super) fn unanswered(error: &anyhow::Error) -> ExitCode {
    print(error);
    ExitCode::from(code(error, UNANSWERED))
}

/// The result of printing an answer. The reader of the output may stop early, which does not change the exit code.
pub(super) fn printed(result: anyhow::Result<()>) -> anyhow::Result<()> {
    result.or_else(|error| if is_broken_pipe(&error) { Ok(()) } else { Err(error) })
}

/// Whether the reader of the output has closed it. `serde_json` wraps the error of a writer.
pub(super) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let kind = |cause: &(dyn Error + 'static)| match cause.downcast_ref::<serde_json::Error>() {
        Some(json) => json.io_error_kind(),
        None => cause.downcast_ref::<io::Error>().map(io::Error::kind),
    };
    error.chain().any(|cause| kind(cause) == Some(io::ErrorKind::BrokenPipe))
}
