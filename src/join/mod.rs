//! Split binaries of the input, joined with their code objects.
//!
//! A wrapper of a split binary leads to code objects in archives. They are found as a loader finds them, and the binary
//! is replaced by a fat one that reads them there. So all outputs for fat binaries can be made for split ones.
//!
//! It does not know what is made from the joined input.

mod archive;
mod archives;
mod binary;
mod error;
mod joined;
mod names;
mod object;
mod outside;
mod overlay;
mod remaining;
mod sets;
mod versions;
mod wheels;

use std::collections::BTreeSet;
use std::sync::Arc;

use rayon::prelude::*;

use crate::binary::FatBinary;
use crate::loader::{DOT_KPACK, archive_root, is_archive_link};
use crate::metrics::Progress;
use crate::resources::Resources;
use crate::rope::reason_at;
use crate::source::{Entry, EntryKind, EntryPath, HostWheel, Input, MIN_BINARY};
use crate::wheel;

use archives::{ArchiveDecision, InputArchives};
use binary::{Examined, JoinCandidate, JoinError, join_file};
pub use error::WheelsError;
pub use joined::{Archives, Joined, OrphanCode, SplitForm};
use names::Names;
pub use outside::{OutsideFile, links_to_code, outside};
pub use overlay::lay_over;
use remaining::{blocked, is_of, without};
use versions::mixed_versions;
pub use wheels::{SeveralWheels, open_apart, open_several, open_wheels};

/// Why a binary is not joined whose archives could not be made again.
const BLOCKED: &str = "the symlink .kpack stays, so that there is no place for others";

/// Replaces each split binary of an input by a fat one if there are archives for it, and removes archives that are no
/// longer needed. An input without archives is left alone.
pub fn join(input: &mut Input, resources: &Arc<Resources>, progress: &Progress) -> Joined {
    let is_wheel = input.dist_info().is_some();
    let installed = |path: &EntryPath| if is_wheel { wheel::installed(path) } else { path.clone() };
    let archives = InputArchives::of(input, installed);
    let mut joined = Joined { warnings: mixed_versions(input), ..Joined::default() };
    joined.warnings.extend(input.host_wheel().iter().flat_map(|host| host.conflicts.values()).map(ToString::to_string));
    joined.warnings.extend(outside(input, resources).iter().map(|it| format!("{}: {}", it.link, it.problem)));
    if archives.is_empty() && !input.entries.iter().any(is_archive_link) {
        return joined;
    }
    let names = Names::new(input, installed, &archives);
    let examined = examine(input, installed, &archives, &names, resources, progress);
    let candidates = candidates(input, examined, &archives, &mut joined);
    let is_fat = |path: &EntryPath| matches!(names.file(path).map(FatBinary::scan), Some(Ok(Some(_))));
    let links = names.links();
    let mut decision = archives.decide(is_fat, resources);
    let mut gone = without(&input.entries, &decision.used, &links);
    // New archives cannot be where a symlink stays.
    let places = blocked(&input.entries, &gone, installed);
    let of_devices = input.host_wheel().map(HostWheel::held).unwrap_or_default();
    let objection = |position: usize, form: &SplitForm| {
        let path = input.entries.get(position).map(|entry| &entry.path)?;
        let is_blocked = |it: &Archives| places.contains(&it.root.child(DOT_KPACK.as_bytes()));
        if of_devices.contains(path) {
            return Some("it is in a device wheel, where it stays");
        }
        form.archives.as_ref().is_some_and(is_blocked).then_some(BLOCKED)
    };
    let (split, candidates): (Vec<_>, Vec<_>) =
        candidates.into_iter().partition(|(position, found)| objection(*position, &found.form).is_some());
    for (position, found) in &split {
        let Some(Entry { path, .. }) = input.entries.get(*position) else { continue };
        archives.need(&found.asked.iter().map(|(number, ..)| *number).collect(), path);
        let reason = objection(*position, &found.form).unwrap_or_default();
        joined.warnings.push(format!("{path}: not joined with its archives: {reason}"));
    }
    if !split.is_empty() {
        decision = archives.decide(is_fat, resources);
        gone = without(&input.entries, &decision.used, &links);
    }
    joined.warnings.extend(decision.warnings.iter().cloned());
    joined.warnings.extend(decision.left.iter().map(|(path, reason)| format!("{path}: {reason}")));
    replace(input, candidates, &archives, &decision, &gone, installed, &mut joined);
    joined.orphans = decision.orphans;
    input.entries.retain(|entry| !gone.contains(&entry.path));
    joined
}

/// The binaries that can be joined. Keeps what the others lack. Records what each binary asks of the archives, and which must stay for the others.
fn candidates(
    input: &Input,
    examined: Vec<(usize, Examined)>,
    archives: &InputArchives,
    joined: &mut Joined,
) -> Vec<(usize, JoinCandidate)> {
    let (mut candidates, mut without_code) = (Vec::new(), Vec::new());
    for (position, result) in examined {
        let Some(Entry { path, .. }) = input.entries.get(position) else { continue };
        match result {
            Ok(None) => {}
            Ok(Some(found)) => {
                joined.warnings.extend(found.warnings.iter().map(|warning| format!("{path}: {warning}")));
                archives.note(&found.asked);
                archives.need(&found.unusable, path);
                candidates.push((position, found));
            }
            Err((error, reached)) => {
                let reason = format!("not joined with its archives: {}", reason_at(&path.to_string(), &error));
                joined.warnings.push(format!("{path}: {reason}"));
                match error {
                    // Archives of other binaries, in which it has nothing, need not stay for it.
                    JoinError::NoCode => {
                        // Without an archive that it leads to, nothing says what code it has.
                        joined.without_code.extend((!reached.is_empty()).then(|| path.clone()));
                        without_code.push((path, reached));
                    }
                    JoinError::Outside(_) => archives.need(&reached, path),
                    JoinError::Binary(_) | JoinError::Code(_) => {
                        archives.need(&reached, path);
                        joined.unread.insert(path.clone(), reason);
                    }
                }
            }
        }
    }
    for (path, reached) in without_code {
        archives.need(&archives.unasked(&reached), path);
    }
    candidates
}

/// Joins all files that may be binaries, each with its position in the input.
fn examine(
    input: &Input,
    installed: impl Fn(&EntryPath) -> EntryPath + Sync,
    archives: &InputArchives,
    names: &Names<'_>,
    resources: &Arc<Resources>,
    progress: &Progress,
) -> Vec<(usize, Examined)> {
    let may_be_binary = |(position, entry): (usize, &'_ Entry)| {
        let content = entry.content().filter(|it| it.size() >= MIN_BINARY && !archives.has(&entry.path))?;
        Some((position, installed(&entry.path), Arc::clone(content)))
    };
    let files: Vec<_> = input.entries.iter().enumerate().filter_map(may_be_binary).collect();
    progress.expect_files(files.iter().map(|(.., content)| content.size()).sum(), resources);
    let examined = files.par_iter().with_max_len(1).map(|(position, path, content)| {
        let _named = progress.at(|| path.to_string());
        let found = join_file(path, content, archives, names, resources);
        progress.advance(content.size());
        (*position, found)
    });
    examined.collect()
}

/// Replaces split binaries by joined ones.
fn replace(
    input: &mut Input,
    candidates: Vec<(usize, JoinCandidate)>,
    archives: &InputArchives,
    decision: &ArchiveDecision,
    gone: &BTreeSet<EntryPath>,
    installed: impl Fn(&EntryPath) -> EntryPath,
    joined: &mut Joined,
) {
    // New archives cannot have the names of files that stay.
    let staying = input.entries.iter().filter(|entry| !gone.contains(&entry.path)).map(|entry| installed(&entry.path));
    let staying: Vec<_> = staying.filter(|path| archive_root(path).is_some()).collect();
    // Of several wheels, everything is where it is installed, or in the data directory of the host wheel.
    let is_laid_over = input.host_wheel().is_some();
    for (position, JoinCandidate { joined: content, mut form, asked, .. }) in candidates {
        let Some(entry) = input.entries.get_mut(position) else { continue };
        let is_taken = |it: &Archives| staying.iter().any(|path| is_of(path, it));
        let is_in_place = is_laid_over || installed(&entry.path) == entry.path;
        form.archives = form.archives.filter(|archives| is_in_place && !is_taken(archives));
        if let EntryKind::File { content: old, .. } = &mut entry.kind {
            *old = content;
        }
        for archive in asked.iter().filter_map(|(number, ..)| archives.get(*number)) {
            entry.attributes = entry.attributes.for_readers_of(&archive.attributes);
        }
        joined.binaries.insert(entry.path.clone(), Arc::new(form));
    }
    let used = input.files().filter(|(path, _)| decision.used.contains(*path));
    joined.archives = used.map(|(_, content)| Arc::clone(content)).collect();
}
