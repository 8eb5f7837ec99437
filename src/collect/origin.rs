//! What identifies an input of a collection.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::disk;
use crate::memory::{Parser, WholeFile};
use crate::rope::ReadError;
use crate::source::{EntryKind, EntryPath, Input};
use crate::split::{InputFacts, STATEMENT, Statement};
use crate::view::REPORTS;
use crate::wheel;

/// An application or a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CollectedInput {
    /// Its path as the user named it.
    pub path: PathBuf,
    /// A SHA-256 of the paths and sizes of its files and the targets of its symlinks, in hexadecimal digits. Contents are
    /// not read for it, since most are not needed.
    pub listing: String,
    /// The IDs of the splits whose parts it has, by its statements.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub split_ids: Vec<String>,
}

impl CollectedInput {
    pub(super) fn of(path: &Path, input: &Input) -> Result<Self, ReadError> {
        let listing = InputFacts::default().and_listing(input).id().text()?;
        let mut split_ids: Vec<_> = statements(input).filter_map(|it| Some(it.split_id()?.to_owned())).collect();
        split_ids.extend(of_directory(input));
        split_ids.sort_unstable();
        split_ids.dedup();
        Ok(Self { path: path.to_owned(), listing, split_ids })
    }

    /// The same without the directories around it, which differ between machines.
    pub(super) fn named(&self) -> Self {
        let name = self.path.file_name().unwrap_or(OsStr::new("."));
        Self { path: name.into(), ..self.clone() }
    }
}

/// The statements in an input: of wheels, unpacked or installed, and that of trees.
fn statements(input: &Input) -> impl Iterator<Item = Statement> {
    let of_tree = EntryPath::root().child(REPORTS.as_bytes()).child(STATEMENT.as_bytes());
    let is_statement = move |path: &EntryPath| {
        let is_of_wheel = path.depth() == 2 && path.name() == wheel::STATEMENT.as_bytes();
        *path == of_tree || (is_of_wheel && path.is_in_dist_info())
    };
    input.entries.iter().filter(move |entry| is_statement(&entry.path)).filter_map(|entry| match &entry.kind {
        EntryKind::File { content, .. } => {
            let bytes = WholeFile::of(Parser::Statement, &**content).ok()?;
            Statement::parse(&bytes).ok()
        }
        _ => None,
    })
}

/// The ID of the split whose directory contains the input as one of its parts.
fn of_directory(input: &Input) -> Option<String> {
    let (above, name) = (input.location.parent()?, input.location.file_name()?.to_str()?);
    let bytes = disk::read(&above.join(REPORTS).join(STATEMENT), Parser::Statement).ok()?;
    let statement = Statement::parse(&bytes).ok()?;
    let is_part = statement.parts().ok()?.iter().any(|part| part.to_string() == name);
    statement.split_id().filter(|_| is_part).map(str::to_owned)
}
