//! What the parts of a shard say about their splits, and whether they belong together.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::anyhow;

use super::listed::{check_listed, damaged, in_reports, manifest_of};
use crate::artifact::{ArtifactName, is_same_part};
use crate::memory::{Parser, WholeFile};
use crate::source::Input;
use crate::split::{STATEMENT, Statement};
use crate::view::MANIFEST_INSIDE;

/// What a part says about its split. Parts that other tools made say nothing.
#[derive(Debug)]
pub(super) struct ShardPart {
    name: ArtifactName,
    place: PathBuf,
    statement: Option<Statement>,
    split_id: Option<String>,
}

/// A part that the statement of a split names, and that is not in its shard.
#[derive(Debug)]
pub(super) struct LackingPart {
    /// Its name.
    pub(super) name: ArtifactName,
    /// The statement, in messages.
    pub(super) statement: String,
}

impl ShardPart {
    /// What the part of this name says. Fails if it is another part, or if files of a device part are not as its manifest says.
    pub(super) fn of(part: &Input, name: &ArtifactName) -> anyhow::Result<Self> {
        let manifest = manifest_of(part)?;
        if let Some(manifest) = &manifest {
            if !ArtifactName::parse(&manifest.part).is_some_and(|stated| is_same_part(&stated, name)) {
                let reason = format!("it is that of {}", manifest.part);
                return Err(damaged(part, &in_reports(MANIFEST_INSIDE).to_text(), &reason));
            }
            if !name.is_generic() {
                check_listed(part, manifest)?;
            }
        }
        let statement = statement_in(part)?;
        let of_statement = statement.as_ref().and_then(|statement| statement.split_id.clone());
        let split_id = manifest.map(|manifest| manifest.split_id).or(of_statement);
        Ok(Self { name: name.clone(), place: part.location.clone(), statement, split_id })
    }
}

fn statement_in(part: &Input) -> anyhow::Result<Option<Statement>> {
    let path = in_reports(STATEMENT);
    let Some(content) = part.content(&path) else { return Ok(None) };
    let unusable = |reason: String| damaged(part, &path.to_text(), &reason);
    let bytes = WholeFile::of(Parser::Statement, &**content).map_err(|error| unusable(error.to_string()))?;
    Statement::parse(&bytes).map(Some).map_err(|error| unusable(error.to_string()))
}

/// The errors about device parts of a shard that are of another split than the host code of their component.
pub(super) fn of_other_splits(stated: &[ShardPart]) -> Vec<anyhow::Error> {
    let compare = |part: &ShardPart| {
        let host = stated.iter().find(|it| it.name.is_generic() && it.name.component == part.name.component)?;
        let (own, of_host) = (part.split_id.as_ref()?, host.split_id.as_ref()?);
        let short = |id: &String| id.chars().take(12).collect::<String>();
        (own != of_host).then(|| {
            let (place, host) = (part.place.display(), &host.name);
            let (own, of_host) = (short(own), short(of_host));
            anyhow!("{place}: it is of the split {own}, and {host} is of {of_host}; copy both of one split")
        })
    };
    stated.iter().filter_map(compare).collect()
}

/// The parts that statements of a shard name, and that are not among its artifacts. That of a generic part counts first.
pub(super) fn lacking_parts(stated: &[ShardPart], found: &BTreeMap<String, PathBuf>) -> Vec<LackingPart> {
    let mut components = BTreeMap::<&str, (&ShardPart, &Statement)>::new();
    for part in stated {
        let Some(statement) = &part.statement else { continue };
        let first = components.entry(&part.name.component).or_insert((part, statement));
        if part.name.is_generic() {
            *first = (part, statement);
        }
    }
    let existing: Vec<_> = found.keys().filter_map(|name| ArtifactName::parse(name)).collect();
    let mut lacking = Vec::new();
    for (part, statement) in components.into_values() {
        let place = part.place.join(in_reports(STATEMENT).as_path());
        let names = statement.parts.iter().filter_map(|part| ArtifactName::parse(part));
        let lost = names.filter(|name| !existing.iter().any(|other| is_same_part(other, name)));
        lacking.extend(lost.map(|name| LackingPart { name, statement: place.display().to_string() }));
    }
    lacking
}
