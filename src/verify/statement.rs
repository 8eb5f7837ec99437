//! The parts in the statement of a split, compared with those that exist.

use std::path::Path;

use super::error::VerifyError;
use super::report::Findings;
use super::rules::Rule;
use crate::opened::LocatedStatement;

/// Compares the parts that must exist with those that do. `others` are directories that look like parts.
pub(super) fn check_parts(
    located: &LocatedStatement,
    directory: &Path,
    others: impl IntoIterator<Item = String>,
    findings: &Findings,
) -> Result<(), VerifyError> {
    let parts = located.parts()?;
    for part in parts.iter().filter(|part| directory.join(part.as_path()).symlink_metadata().is_err()) {
        let reason = format!("{} names it, but there is no such directory", located.path);
        findings.add(Rule::PartMissing, part.to_string(), reason);
    }
    let is_named = |other: &String| parts.iter().any(|part| Path::new(other).starts_with(part.as_path()));
    for other in others.into_iter().filter(|other| !is_named(other)) {
        let reason = format!("{} does not name it: another split left it there", located.path);
        findings.add(Rule::PartUnnamed, other, reason);
    }
    Ok(())
}
