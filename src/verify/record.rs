//! What wheels state about their files: each file that a RECORD names is there, with that size and digest.

use std::sync::Arc;

use rayon::prelude::*;

use super::Progress;
use super::report::{Check, Findings};
use super::subject::{Kind, Part, Parts};
use crate::index::Resources;
use crate::rope::Content;
use crate::source::{EntryKind, EntryPath, InputKind, SourceError, open_file};
use crate::wheel::{Claim, Claims, Digest};

/// A RECORD in one of the parts.
struct Record<'a> {
    part: &'a Part,
    path: &'a EntryPath,
    claims: Claims,
}

/// Compares all files that RECORDs name.
pub(super) fn check(parts: &Parts, resources: &Arc<Resources>, findings: &Findings, progress: &Progress) {
    let mut records: Vec<_> = parts.all.iter().flat_map(|part| records(part, parts.kind, findings)).collect();
    // An install tree keeps the RECORDs of what was installed there before it was split; these know no archive.
    let has_archives = |record: &Record<'_>| {
        let mut paths = record.claims.all().map(|(path, _)| path).chain(record.claims.contradicted());
        paths.any(|path| path.ends_with(b".kpack"))
    };
    let know_archives = records.iter().any(has_archives);
    records.retain(|record| know_archives || record.part.input.dist_info().is_some());
    let mut files = Vec::new();
    for record in &records {
        for path in record.claims.contradicted().filter_map(|path| EntryPath::new(path).ok()) {
            let reason =
                format!("{} states two digests of it: one file was installed over another, which is lost", record.path);
            findings.add(Check::Record, record.part.label(&path), reason);
        }
        for (path, claim) in record.claims.all() {
            // Installers write scripts outside of the directory.
            files.extend(EntryPath::new(path).ok().map(|path| (record, path, claim)));
        }
    }
    files.sort_by_key(|(.., claim)| std::cmp::Reverse(claim.size));
    progress.expect(files.iter().map(|(.., claim)| claim.size).fold(0, u64::saturating_add));
    findings.counts.recorded_files.add(files.len() as u64);
    files.par_iter().with_max_len(1).for_each(|(record, path, claim)| {
        if let Some(reason) = record.objection(path, *claim, resources) {
            findings.add(Check::Record, record.part.label(path), reason);
        }
        progress.advance(claim.size);
    });
}

fn records<'a>(part: &'a Part, kind: Kind, findings: &Findings) -> Vec<Record<'a>> {
    let is_record = |path: &EntryPath| {
        path.depth() == 2
            && path.name() == b"RECORD"
            && path.parent().is_some_and(|parent| parent.name().ends_with(b".dist-info"))
    };
    let mut records = Vec::new();
    for (path, _) in part.files().filter(|(path, _)| is_record(path)) {
        match Claims::read(&part.input, path) {
            Ok(claims) if claims.all().next().is_none() => {
                // There are wheels in the world whose RECORD states no digest. Whoever splits one has to make it anew.
                if kind == Kind::Split && part.input.dist_info().is_some() {
                    findings.add(Check::Record, part.label(path), "it states SHA-256 and size of no file");
                }
            }
            Ok(claims) => records.push(Record { part, path, claims }),
            Err(error) => findings.add(Check::Record, part.label(path), error),
        }
    }
    records
}

impl Record<'_> {
    /// What is wrong with a file.
    fn objection(&self, path: &EntryPath, claim: Claim, resources: &Arc<Resources>) -> Option<String> {
        let content = match self.content(path, resources) {
            Ok(Some(content)) => content,
            Ok(None) => return Some(format!("{} names it, but there is no such file", self.path)),
            Err(error) => return Some(error.to_string()),
        };
        if content.size() != claim.size {
            return Some(format!("it has {} bytes, but {} states {}", content.size(), self.path, claim.size));
        }
        match Digest::new(path.to_text(), content, None).sha256() {
            Ok(sha256) if sha256 == claim.sha256 => None,
            Ok(_) => Some(format!("its SHA-256 is not the one that {} states", self.path)),
            Err(error) => Some(error.to_string()),
        }
    }

    /// The file at `path`, if there is one.
    fn content(&self, path: &EntryPath, resources: &Arc<Resources>) -> Result<Option<Arc<dyn Content>>, SourceError> {
        let input = &self.part.input;
        if let Some(EntryKind::File { content, .. }) = input.entry(path).map(|entry| &entry.kind) {
            return Ok(Some(Arc::clone(content)));
        }
        // Installers that save space install symlinks to their caches.
        let place = input.location.join(path.as_path());
        let is_linked = !matches!(input.kind, InputKind::Wheel(_)) && place.is_file();
        is_linked.then(|| open_file(&place, resources)).transpose()
    }
}
