//! `mount.kpackfs`: what mount(8) starts for the file system type `kpackfs`.
//!
//! mount(8) calls it as `mount.kpackfs SOURCE DIRECTORY [-s] [-f] [-n] [-v] [-o OPTIONS]`, where `-f` means that nothing
//! is to be mounted (util-linux, `mnt_context_prepare_helper` and `exec_helper` in libmount). It becomes `kpackfs mount`.

mod arguments;

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use arguments::Request;

/// Exit codes of mount(8).
const USAGE: u8 = 1;
const SYSTEM: u8 = 2;

fn main() -> ExitCode {
    let request = match Request::parse(env::args_os().skip(1)) {
        Ok(request) => request,
        Err(reason) => {
            eprintln!("mount.kpackfs: {reason}");
            return ExitCode::from(USAGE);
        }
    };
    if request.is_fake {
        return ExitCode::SUCCESS;
    }
    let program = program();
    let error = Command::new(&program).args(request.to_command()).exec();
    eprintln!("mount.kpackfs: {}: {error}", program.display());
    ExitCode::from(SYSTEM)
}

/// `kpackfs` beside this program, or else wherever the shell would find it. mount(8) is started with few directories in
/// PATH.
fn program() -> PathBuf {
    let beside = env::current_exe().ok().and_then(|own| Some(own.parent()?.join("kpackfs")));
    let installed = [beside, Some(PathBuf::from("/usr/local/bin/kpackfs")), Some(PathBuf::from("/usr/bin/kpackfs"))];
    installed.into_iter().flatten().find(|path| path.is_file()).unwrap_or_else(|| OsString::from("kpackfs").into())
}
