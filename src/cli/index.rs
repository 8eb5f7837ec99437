//! `kpackfs index`.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use rayon::prelude::*;

use super::options::{InputOptions, SplitOptions};
use super::prepare::{Prepared, prepare_to_check};
use super::progress::show_bytes;
use super::table::size;
use super::terminal::message;
use crate::report::Sizes;
use crate::source::EntryKind;

/// Build the index of an input in advance, so that mounting and reading start at once
///
/// The files of a wheel are compared with its RECORD. The index is stored in the cache directory. Every later mount,
/// split and inspect uses it, with any options. Only the sizes of archives and wheels depend on the options.
#[derive(Debug, Args)]
pub(super) struct IndexArguments {
    #[command(flatten)]
    source: InputOptions,

    #[command(flatten)]
    options: SplitOptions,

    /// Omit the sizes of archives and wheels, which require all code objects to be compressed
    #[arg(long)]
    without_sizes: bool,
}

impl IndexArguments {
    pub(super) fn run(&self) -> anyhow::Result<ExitCode> {
        let prepared = prepare_to_check(&self.source.paths(), &self.options)?;
        let Some(file) = prepared.resources.index.file() else {
            bail!("there is no directory to keep an index in; name one with --cache-dir");
        };
        prepared.resources.check_streams();
        look_into_members(&prepared);
        prepared.check_members(|_| true)?;
        prepared.check_claims()?;
        if !self.without_sizes {
            show_bytes("Measuring", |progress| Sizes::make(&prepared.plan, prepared.wheels.as_ref(), progress))?;
        }
        prepared.resources.index.save()?;
        prepared.resources.store.finish();
        let mut out = io::stdout().lock();
        match std::fs::metadata(file) {
            Ok(written) => writeln!(out, "{}: {}", file.display(), size(written.len()))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                writeln!(out, "{}: there is nothing to keep about it", self.source.path().display())?;
            }
            Err(error) => return Err(error).with_context(|| file.display().to_string()),
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Decodes the deflate streams of all members once, so that reading can start anywhere.
fn look_into_members(prepared: &Prepared) {
    let members: Vec<_> = prepared
        .input
        .entries
        .iter()
        .filter_map(|entry| match &entry.kind {
            EntryKind::File { content, .. } => {
                let member = content.member().filter(|member| member.packed().deflated);
                member.map(|member| (&entry.path, member))
            }
            EntryKind::Directory | EntryKind::Symlink(_) => None,
        })
        .collect();
    show_bytes("Indexing", |progress| {
        progress.expect(members.iter().map(|(_, member)| member.size()).sum());
        members.par_iter().with_max_len(1).for_each(|(path, member)| {
            if let Err(error) = member.block_boundaries() {
                eprintln!("kpackfs: warning: {}", message(&format!("{path}: cannot be read: {error}")));
            }
            progress.advance(member.size());
        });
    });
}
