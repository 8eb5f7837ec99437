//! `kpackfs cat`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Args;

use super::confinement::Opens;
use super::terminal::stdout;
use super::viewed_input::ViewedInput;
use crate::export::copy;

/// Print files that a mount of the input would show
///
/// Nothing is printed unless all of them are there.
///
/// Exit codes: 0 success, 1 a PATH is no file or cannot be read, 2 wrong command line, 5 the input is not there, or not understood.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Example:\n  kpackfs cat torch.whl gfx942/torch/.kpack/torch_gfx942.kpack > torch_gfx942.kpack"
)]
pub(super) struct Cat {
    #[command(flatten)]
    source: ViewedInput,

    /// Files in the views, such as host/torch/version.py; `kpackfs ls -R` lists them
    #[arg(required = true)]
    path: Vec<OsString>,
}

impl Cat {
    pub(super) fn opens(&self) -> Opens {
        self.source.opens()
    }

    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        self.source.read(|views| {
            let files = self.path.iter().map(|path| views.open_file(path)).collect::<Result<Vec<_>, _>>()?;
            let mut out = stdout();
            for file in &files {
                copy(&*views.content(file)?, &mut out, file.path.as_path(), &0.into())?;
            }
            Ok(())
        })?;
        Ok(ExitCode::SUCCESS)
    }
}
