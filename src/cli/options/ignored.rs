//! Options of rocm-kpack's tools that change nothing here.

use std::path::PathBuf;

use clap::Args;

use crate::cli::terminal;

/// They are accepted so that callers of those tools can call this one.
#[derive(Clone, Debug, Default, Args)]
pub(in crate::cli) struct Ignored {
    #[arg(long, value_name = "PATH", hide = true)]
    clang_offload_bundler: Option<PathBuf>,

    #[arg(long, value_name = "DIR", hide = true)]
    tmp_dir: Option<PathBuf>,

    #[arg(long, hide = true)]
    verbose: bool,
}

impl Ignored {
    /// Prints which of them were given on stderr.
    pub(in crate::cli) fn note(&self) {
        let given = [
            ("--clang-offload-bundler", self.clang_offload_bundler.is_some()),
            ("--tmp-dir", self.tmp_dir.is_some()),
            ("--verbose", self.verbose),
        ];
        given.into_iter().filter(|(_, is_given)| *is_given).for_each(|(option, _)| note(option));
    }
}

/// Says that an option has no effect.
pub(in crate::cli) fn note(option: &str) {
    terminal::note(&format!("{option} has no effect here and is ignored"));
}
