//! What is in the directories of a split or a mount, compared with its statement.

use std::path::Path;
use std::sync::Arc;

use super::group::{self, NamedInput};
use super::overlaid::{laid_over, overlaid_keys, take_off};
use super::parts::{Part, Parts, PartsKind};
use super::report::{Findings, Tools, enumerate};
use super::rules::Rule;
use crate::opened::{LocatedStatement, SplitDirectory};
use crate::split::{SIMPLE, STATEMENT};
use crate::view::{HOST, MERGED, REPORTS, THIN, THIN_WHEELS, WHEELS};

/// Opens all that is to be checked. `prefix` comes before the names of parts in findings.
pub(super) fn open_views(split: &SplitDirectory, prefix: &str, tools: Tools<'_>) -> anyhow::Result<Vec<Parts>> {
    if let Some(located) = &split.statement {
        let host = split.has_host.then(|| HOST.to_owned());
        let existing = host.into_iter().chain(split.devices.iter().cloned()).chain(split.wholes());
        check_parts(located, &split.path, existing.filter(|_| !split.is_mount), tools.findings)?;
    }
    let one = |name: &str| {
        let place = split.path.join(name);
        Parts::open_whole(&place, Part::open(&place, name.to_owned(), tools.resources)?)
    };
    let mut opened = if split.has_host {
        vec![open_split(split, prefix, tools)?]
    } else {
        split.devices.iter().map(|name| one(name)).collect::<Result<_, _>>()?
    };
    let are_several = split.splits.len() > 1;
    for (name, split) in &split.splits {
        let shown = open_views(split, &format!("{name}/"), tools)?.into_iter();
        opened.extend(shown.map(|parts| Parts { is_optional: are_several, ..parts }));
    }
    note_unchecked(split, tools.findings);
    if !split.is_mount {
        for name in split.wholes() {
            opened.push(one(&name)?);
        }
        let wheels: Vec<_> =
            split.wheels.iter().chain(&split.thin_wheels).map(|path| NamedInput::listed(path)).collect();
        opened.extend(group::group(&wheels, tools)?);
    }
    Ok(opened)
}

/// Notes directories that are not checked: what a mount shows a second time, an index, and the views of each wheel in a copy
/// of a mount of several.
fn note_unchecked(split: &SplitDirectory, findings: &Findings) {
    if split.is_mount {
        if !split.merged.is_empty() || !split.wheels.is_empty() {
            findings.note(format!(
                "{MERGED}/ and {WHEELS}/ of a mount show what {HOST}/ and the device parts are made of; name them to \
                 check them as well"
            ));
        }
        if !split.thin.is_empty() {
            findings.note(format!("{THIN}/ and {THIN_WHEELS}/ of a mount were not checked; name what is in them"));
        }
        return;
    }
    // What has a statement may be in a directory with others.
    let is_noted = |name: &&String| split.statement.is_none() || *name == SIMPLE;
    let others: Vec<_> = split.others.iter().filter(is_noted).collect();
    if !others.is_empty() {
        let (place, names) = (split.path.display(), enumerate(&others));
        findings.note(format!("{place}: directories in it that were not checked; name them to check them: {names}"));
    }
}

fn open_split(split: &SplitDirectory, prefix: &str, tools: Tools<'_>) -> anyhow::Result<Parts> {
    let Tools { resources, findings, .. } = tools;
    let names = std::iter::once(HOST).chain(split.devices.iter().map(String::as_str));
    let open = |name: &str| Part::open(&split.path.join(name), format!("{prefix}{name}"), resources);
    let mut parts = names.map(open).collect::<Result<Vec<_>, _>>()?;
    if let Some((host, devices)) = parts.split_first_mut() {
        let devices: Vec<_> = devices.iter().collect();
        let overlaid = match &split.statement {
            Some(located) => overlaid_keys(&located.arch()?),
            None => laid_over(host, &devices, !split.merged.is_empty(), findings),
        };
        take_off(host, &devices, &overlaid);
        if split.statement.is_none() && host.input.dist_info().is_none() {
            let place = split.path.join(REPORTS).join(STATEMENT);
            findings.note(format!("{}: not found, so that a part which is missing is not noticed", place.display()));
        }
    }
    let statement = split.statement.clone();
    let kind = PartsKind::of_split(statement.as_ref());
    let parts = Parts { statement, ..Parts::new(kind, parts.into_iter().map(Arc::new).collect()) };
    group::check_complete(&parts, findings);
    Ok(parts)
}

/// Compares the parts that must exist with those that do. `others` are directories that look like parts.
pub(super) fn check_parts(
    located: &LocatedStatement,
    directory: &Path,
    others: impl IntoIterator<Item = String>,
    findings: &Findings,
) -> anyhow::Result<()> {
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
