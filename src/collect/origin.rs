//! What identifies an input of a collection.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::memory::{Parser, WholeFile};
use crate::opened::LocatedStatement;
use crate::source::{EntryPath, Input};
use crate::split::{InputFacts, STATEMENT};
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
    pub(super) fn of(path: &Path, input: &Input) -> anyhow::Result<Self> {
        let listing = InputFacts::default().and_listing(input).id().text()?;
        let statements = statements(input).chain(LocatedStatement::of_part(&input.location)?);
        let mut split_ids: Vec<_> = statements.filter_map(|it| it.statement.split_id).collect();
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
fn statements(input: &Input) -> impl Iterator<Item = LocatedStatement> {
    let of_tree = EntryPath::root().child(REPORTS.as_bytes()).child(STATEMENT.as_bytes());
    let is_statement = move |path: &EntryPath| {
        let is_in_dist_info = || path.parent().is_some_and(|it| it.name().ends_with(b".dist-info"));
        *path == of_tree || path.name() == wheel::STATEMENT.as_bytes() && is_in_dist_info()
    };
    input.files().filter(move |(path, _)| is_statement(path)).filter_map(|(path, content)| {
        let bytes = WholeFile::of(Parser::Statement, &**content).ok()?;
        LocatedStatement::parse(path.to_string(), &bytes).ok()
    })
}
