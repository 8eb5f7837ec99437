//! Scans all files for device code, on all cores, the largest files first.
//!
//! An ELF file describes its device code at its end. A deflated one is inflated up to there before anything is known of
//! its code, and it would be inflated once more to compress that. But linkers align bundles to pages, and an
//! uncompressed one states what it has. So a command that writes all archives has the frames made as the pass reaches
//! them. What the plan does not need of them is dropped.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use rayon::prelude::*;

use super::binary_code::{DeviceCode, Holder, ScanError, examine};
use super::content_code::ContentCode;
use super::options::PlanOptions;
use super::parts::RESERVED;
use super::plain::PlainFiles;
use super::plan::{Destination, Plan};
use crate::binary::{FatBinary, is_signed};
use crate::fatbin::{Bundle, CodeObject, is_plain_bundle};
use crate::gpu::{TargetId, UNKNOWN};
use crate::join::{Joined, SplitForm};
use crate::kpack::{BundleJobs, Compression, Frame};
use crate::memory::{Parser, ParserMemory};
use crate::metrics::Progress;
use crate::resources::Resources;
use crate::rope::{Content, Identity, head_mut, to_usize};
use crate::source::{Entry, EntryKind, Input, MIN_BINARY, may_be_binary};
use crate::text::some_of;

/// The most bytes of section headers that are kept until a file is rewritten. Those of more are read again. The largest of
/// linked files, 74 headers and their names (`memory/tables.rs`), take 10 KB.
const MOST_HEADERS: usize = 16 << 10;

/// A file with device code.
pub(super) struct Fat {
    /// Its position among the input's entries.
    pub(super) entry: usize,
    /// The located device code; `None` if it is known from an earlier session, or read again.
    pub(super) binary: Option<FatBinary>,
    /// The code objects of each wrapper. Wrappers that lead to one bundle share the list.
    pub(super) wrappers: Vec<Arc<Vec<Arc<Frame>>>>,
    /// Its split form in the input, if it was split there.
    pub(super) split: Option<Arc<SplitForm>>,
    /// Whether it has a signature, which does not hold for its other forms.
    pub(super) is_signed: bool,
    /// Warnings about its bundles.
    warnings: Vec<String>,
    /// The memory of its bundles' tables.
    table: ParserMemory,
}

impl Fat {
    /// Another hard link to it.
    fn linked(&self, entry: usize) -> Self {
        let (wrappers, table) = (self.wrappers.clone(), ParserMemory::new(Parser::Bundle));
        let is_signed = self.is_signed;
        Self { entry, binary: None, wrappers, split: None, is_signed, warnings: Vec::new(), table }
    }
}

/// The files with device code, in the order of the input. Files that cannot be split stay unchanged, with a warning.
pub(super) fn scan(
    input: &Input,
    joined: &Joined,
    plan: &mut Plan,
    options: &PlanOptions,
    progress: &Progress,
) -> Vec<Fat> {
    let jobs = Arc::clone(&plan.jobs);
    let resources = jobs.resources();
    let mut known = PlainFiles::get(&input.location, resources);
    let (candidates, mut without_code) = candidates(input, joined, plan, &mut known);
    progress.expect_files(candidates.iter().map(|it| it.content.size()).sum(), resources);
    let scan = |candidate| {
        let ScanCandidate { position, entry, content, .. } = candidate;
        let _named = progress.at(|| entry.path.to_string());
        let (result, code) = match joined.binaries.get(&entry.path) {
            Some(split) => (take_over(position, split, options, &jobs).map(Some), None),
            None => scan_file(position, &|| entry.path.to_text().into(), content, options, &jobs),
        };
        progress.advance(content.size());
        (candidate, result, code)
    };
    // Splitting the list in halves would process the second largest file last.
    let mut results: Vec<_> = candidates.into_iter().par_bridge().map(scan).collect();
    results.sort_by_key(|(candidate, ..)| candidate.position);
    let mut fat = Vec::new();
    for (ScanCandidate { position, entry, identity, among_files, links, .. }, result, code) in results {
        if let Some(code) = code.map(ContentCode::into_box) {
            let links = links.iter().map(|(position, _)| *position);
            plan.searched.extend(links.chain([position]).map(|position| (position, code.clone())));
        }
        match result {
            Ok(None) => {
                for file in links.iter().map(|(_, file)| *file).chain([among_files]) {
                    if let Some(place) = without_code.get_mut(file) {
                        *place = identity;
                    }
                }
            }
            Ok(Some(mut found)) => {
                plan.warnings.extend(found.warnings.drain(..).map(|warning| format!("{}: {warning}", entry.path)));
                plan.tables.push(std::mem::replace(&mut found.table, ParserMemory::new(Parser::Bundle)));
                fat.extend(links.iter().map(|(position, _)| found.linked(*position)));
                fat.push(found);
            }
            Err(error) => {
                plan.refuse(&entry.path, &error);
                for entry in links.iter().filter_map(|(position, _)| input.entries.get(*position)) {
                    plan.refuse(&entry.path, &error);
                }
            }
        }
    }
    known.note(&without_code, resources);
    fat.sort_by_key(|found| found.entry);
    fat
}

/// A file that may have device code.
struct ScanCandidate<'a> {
    /// Its position among the input's entries.
    position: usize,
    entry: &'a Entry,
    content: &'a Arc<dyn Content>,
    identity: Option<Identity>,
    /// Its position among the files that can be binaries.
    among_files: usize,
    /// Both positions of other hard links to it.
    links: Vec<(usize, usize)>,
}

/// The files that may have device code, the largest first, or those on a server in their order; and for each file that can be
/// a binary its identity if it is known to have none.
fn candidates<'a>(
    input: &'a Input,
    joined: &Joined,
    plan: &Plan,
    known: &mut PlainFiles,
) -> (Vec<ScanCandidate<'a>>, Vec<Option<Identity>>) {
    let mut without_code = Vec::with_capacity(input.entries.len());
    let mut candidates = Vec::<ScanCandidate<'a>>::new();
    let mut first_links = HashMap::new();
    for (position, (entry, place)) in input.entries.iter().zip(&plan.places).enumerate() {
        let (EntryKind::File { content, link_group }, Destination::Host) = (&entry.kind, place) else { continue };
        if content.size() < MIN_BINARY {
            continue;
        }
        let is_joined = joined.binaries.contains_key(&entry.path);
        let identity = if is_joined { None } else { content.identity() };
        let among_files = without_code.len();
        if known.is_next(identity.as_ref()) {
            without_code.push(identity);
            continue;
        }
        without_code.push(None);
        let group = link_group.filter(|_| !is_joined);
        let first = group.map_or(candidates.len(), |group| *first_links.entry(group).or_insert(candidates.len()));
        match candidates.get_mut(first) {
            Some(first) => first.links.push((position, among_files)),
            None => candidates.push(ScanCandidate { position, entry, content, identity, among_files, links: vec![] }),
        }
    }
    candidates.sort_by_key(|it| (it.content.place(), Reverse(it.content.size())));
    (candidates, without_code)
}

/// The file if it has wrappers; and all code in it if that is wanted.
fn scan_file(
    entry: usize,
    name: &dyn Fn() -> Arc<str>,
    content: &Arc<dyn Content>,
    options: &PlanOptions,
    jobs: &Arc<BundleJobs>,
) -> (Result<Option<Fat>, ScanError>, Option<ContentCode>) {
    let resources = jobs.resources();
    let (holder, mut early) = (Holder::Binary, EarlyFrames::default());
    let examine = || {
        early = EarlyFrames::make(content, options, jobs);
        examine(content, holder, resources)
    };
    let (code, binary) = match holder.indexed(&**content, resources).map_or_else(examine, Ok) {
        Ok(found) => found,
        Err(error) => return (Err(error), None),
    };
    let binary = binary.filter(|binary| binary.header_bytes() <= MOST_HEADERS);
    let searched =
        resources.policy.find.map(|_| ContentCode::of(content, code.as_ref().map(|code| &*code.bundles), resources));
    let fat = code.map(|code| {
        let table = ParserMemory::new(Parser::Bundle);
        let wrappers = wrappers(&code, name, content, options, resources, &mut early, &table)?;
        let is_unfound = wrappers.iter().flat_map(|frames| frames.iter()).any(|frame| frame.object.target.is_unknown());
        let unfound = code.bundles.iter().filter(|_| is_unfound);
        let unfound = unfound.flat_map(|bundle| bundle.unfound_ids(content, resources)).collect();
        let of_code = code.bundles.iter().find_map(absurd_claim).into_iter().chain(unfound_code(&unfound));
        let warnings = of_code.chain(own_problems(&code.problems)).collect();
        Ok(Fat { entry, binary, wrappers, split: None, is_signed: code.is_signed, warnings, table })
    });
    (fat.transpose(), searched)
}

/// The code objects of each wrapper. Counts what is kept of them.
fn wrappers(
    code: &DeviceCode,
    name: &dyn Fn() -> Arc<str>,
    content: &Arc<dyn Content>,
    options: &PlanOptions,
    resources: &Arc<Resources>,
    early: &mut EarlyFrames,
    table: &ParserMemory,
) -> Result<Vec<Arc<Vec<Arc<Frame>>>>, ScanError> {
    code.bundles.iter().try_for_each(|bundle| bundle.count(table))?;
    let (level, file, first_wrappers) = (options.compression.level(), name(), code.first_wrappers());
    // Most bundles of a file are for the same targets.
    let mut known: Option<(&Bundle, Vec<_>)> = None;
    let mut frames = |number: usize, bundle| -> Result<Arc<Vec<Arc<Frame>>>, ScanError> {
        if known.as_ref().is_none_or(|(earlier, _)| !earlier.has_targets_of(bundle)) {
            let targets = bundle.targets_of_entries();
            check(targets.iter().flatten())?;
            known = Some((bundle, targets));
        }
        let targets = known.as_ref().map(|(_, targets)| targets.as_slice()).unwrap_or_default();
        let objects = bundle.objects_for(targets, content, resources)?;
        if let Some(compressed) = objects.iter().find_map(|object| object.bundle.as_ref()) {
            compressed.set_name(&file, first_wrappers.get(&number).copied());
        }
        let frame = |object| early.take(&object).unwrap_or_else(|| Arc::new(Frame::new(object, level, resources)));
        Ok(Arc::new(objects.into_iter().map(frame).collect()))
    };
    let bundles = code.bundles.iter().enumerate().map(|(number, bundle)| frames(number, bundle));
    let bundles = bundles.collect::<Result<Vec<_>, _>>()?;
    Ok(code.wrappers.iter().filter_map(|&bundle| bundles.get(bundle).cloned()).collect())
}

/// The device code of a binary that was split in the input.
fn take_over(
    entry: usize,
    split: &Arc<SplitForm>,
    options: &PlanOptions,
    jobs: &Arc<BundleJobs>,
) -> Result<Fat, ScanError> {
    let frames = |objects: &Vec<CodeObject>| -> Result<Arc<Vec<Arc<Frame>>>, ScanError> {
        check(objects.iter().map(|object| &object.target))?;
        let frame = |object: &CodeObject| jobs.shared_frame(object.clone(), options.compression.level());
        Ok(Arc::new(objects.iter().map(frame).collect()))
    };
    let bundles = split.bundles.iter().map(frames).collect::<Result<Vec<_>, _>>()?;
    let wrappers = split.wrappers.iter().filter_map(|&bundle| bundles.get(bundle).cloned()).collect();
    let (is_signed, table) = (is_signed(&split.content), ParserMemory::new(Parser::Bundle));
    Ok(Fat { entry, binary: None, wrappers, split: Some(Arc::clone(split)), is_signed, warnings: Vec::new(), table })
}

/// A warning about a bundle that may be meant to exhaust memory or disk.
fn absurd_claim(bundle: &Bundle) -> Option<String> {
    let (offset, length, size) = bundle.absurd_claim()?;
    Some(format!(
        "the offload bundle at {offset:#x} claims to become {size} bytes out of {length}, {} times as much: code does not compress \
         like that",
        size / length.max(1)
    ))
}

/// A warning about rules that a file breaks before it is split. Rewriting mends some of them.
fn own_problems(problems: &[String]) -> Option<String> {
    let warning = || {
        format!(
            "the tool that wrote it broke rules of loaders and linkers: {}; what its split form has of that is a finding \
             of `verify`, which --allow binary-form accepts",
            problems.join(", ")
        )
    };
    (!problems.is_empty()).then(warning)
}

/// A warning about code that runtimes do not find. HIP of ROCm 4 took GPUs from code objects (clr, `getTripleTargetID`).
fn unfound_code(ids: &BTreeSet<String>) -> Option<String> {
    let names = some_of(ids);
    (!ids.is_empty())
        .then(|| format!("runtimes that ask COMGR find no code with the entry ID {names}; it is kept in {UNKNOWN}/"))
}

/// Fails unless a bundle's code objects for these targets can go into archives.
fn check<'a>(targets: impl Iterator<Item = &'a TargetId>) -> Result<(), ScanError> {
    let mut seen = HashSet::new();
    for target in targets {
        if !seen.insert(target) {
            return Err(ScanError::Twice(target.clone()));
        }
        if RESERVED.contains(&target.processor()) {
            return Err(ScanError::Reserved(target.clone()));
        }
    }
    Ok(())
}

/// Linkers and loaders align bundles to this many bytes.
const PAGE: usize = 4096;

/// Bytes that are searched at a time: what is inflated together, so that it is inflated once even if it is not kept.
const PIECE: u64 = 64 * PAGE as u64;

/// Frames that were made before the plan, by the offset of their code object in the file.
#[derive(Default)]
struct EarlyFrames(HashMap<u64, Arc<Frame>>);

impl EarlyFrames {
    /// Makes the frames of the uncompressed bundles in a deflated file, as long as the output has room for them.
    fn make(content: &Arc<dyn Content>, options: &PlanOptions, jobs: &Arc<BundleJobs>) -> Self {
        let mut early = Self::default();
        let is_deflated = content.member().is_some_and(|member| member.packed().deflated);
        if is_deflated
            && jobs.resources().store.is_spooling()
            && options.compression != Compression::None
            && may_be_binary(&**content)
        {
            // What cannot be read is an error of the scan, which comes to the same place.
            let _ = early.pass(content, options, jobs);
        }
        early
    }

    /// The frame of a code object, if it was made.
    fn take(&mut self, object: &CodeObject) -> Option<Arc<Frame>> {
        let frame = self.0.remove(&object.offset)?;
        let is_same = frame.object.target == object.target && frame.object.content.size() == object.content.size();
        is_same.then_some(frame)
    }

    /// Reads all but the last piece of the file: with that, damage without a place is found, which is left to the scan.
    fn pass(&mut self, content: &Arc<dyn Content>, options: &PlanOptions, jobs: &Arc<BundleJobs>) -> Option<()> {
        let end = content.size().saturating_sub(1) / PIECE * PIECE;
        let (mut at, mut piece) = (0, vec![0; to_usize(PIECE.min(end))]);
        let table = ParserMemory::new(Parser::Bundle);
        while at < end && jobs.resources().store.has_room() {
            let piece = head_mut(&mut piece, to_usize(PIECE - at % PIECE));
            content.read_at(at, piece).ok()?;
            let found = piece.chunks(PAGE).position(is_plain_bundle);
            let Some(page) = found else {
                at += piece.len() as u64;
                continue;
            };
            let start = at + (page * PAGE) as u64;
            let code = wanted(content, start, &table, options, jobs.resources())?;
            at = code.iter().map(ends_at).max().unwrap_or(start).max(start + 1).next_multiple_of(PAGE as u64);
            for object in code.into_iter().filter(|object| ends_at(object) <= end) {
                let frame = Arc::new(Frame::new(object, options.compression.level(), jobs.resources()));
                jobs.make_early(&frame).ok()?;
                self.0.insert(frame.object.offset, frame);
            }
        }
        Some(())
    }
}

/// The wanted code objects of the bundle at `start`, in the order of the file. Other data may look like a bundle, and has none.
fn wanted(
    content: &Arc<dyn Content>,
    start: u64,
    table: &ParserMemory,
    options: &PlanOptions,
    resources: &Arc<Resources>,
) -> Option<Vec<CodeObject>> {
    let Ok(bundle) = Bundle::read(content, start, content.size(), resources) else { return Some(Vec::new()) };
    bundle.count(table).ok()?;
    let mut objects = bundle.objects(content, resources).ok()?;
    let is_wanted = |object: &CodeObject| options.targets.contains(&options.packaging.key_of(&object.target));
    objects.retain(|object| object.content.size() > 0 && is_wanted(object));
    objects.sort_by_key(|object| object.offset);
    Some(objects)
}

/// The offset in the file after the last byte of a code object.
fn ends_at(object: &CodeObject) -> u64 {
    object.offset.saturating_add(object.content.size())
}
