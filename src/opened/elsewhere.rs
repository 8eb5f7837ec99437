//! What an input has that was not looked into, in which device code may be.

use std::fs;

use super::error::OpenedError;
use crate::source::{EntryKind, EntryPath, Input, InputKind, Resolved};
use crate::split::STATEMENT;
use crate::view::REPORTS;

/// Fails if an input in which nothing was found has wheels, a split, or symlinks out of it. That it has no device code would be a
/// guess.
pub fn check_elsewhere(input: &Input) -> Result<(), OpenedError> {
    let files = |is_it: &dyn Fn(&EntryPath) -> bool| -> Vec<String> {
        input.files().filter(|(path, _)| is_it(path)).map(|(path, _)| path.to_string()).collect()
    };
    let is_statement = |path: &EntryPath| {
        path.name() == STATEMENT.as_bytes() && path.parent().is_some_and(|it| it.name() == REPORTS.as_bytes())
    };
    let splits = files(&is_statement);
    let wheels = files(&|path| path.name().ends_with(b".whl"));
    let kinds = [("splits", splits), ("wheels", wheels), ("symlinks that lead out of it", links(input))];
    let Some((what, found)) = kinds.into_iter().find(|(_, found)| !found.is_empty()) else { return Ok(()) };
    let (path, number) = (input.location.clone(), found.len());
    Err(OpenedError::NotLookedInto { path, what, number, first: found.into_iter().next().unwrap_or_default() })
}

/// The symlinks of a directory that lead to something outside of it.
fn links(input: &Input) -> Vec<String> {
    if !matches!(input.kind, InputKind::Tree) || input.file.is_some() {
        return Vec::new();
    }
    let is_outside = |path: &EntryPath| {
        matches!(input.follow(path), Resolved::Outside(_)) && fs::metadata(input.location.join(path.as_path())).is_ok()
    };
    let links = input.entries.iter().filter(|entry| matches!(entry.kind, EntryKind::Symlink(_)));
    links.filter(|entry| is_outside(&entry.path)).map(|entry| entry.path.to_string()).collect()
}
