//! Split binaries of the input, joined with their code objects.
//!
//! A wrapper of a split binary leads to code objects in archives. They are found as a loader finds them, and the binary
//! is replaced by a fat one that reads them there. So all outputs for fat binaries can be made for split ones.
//!
//! It does not know what is made from the joined input.

mod archives;
mod claims;
mod distributions;
mod names;
mod outside;
mod remaining;
mod sets;
mod wheels;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rayon::prelude::*;

use crate::binary::{self, BinaryError, FatBinary, MAX_WRAPPERS, SplitBinary, SplitWrapper, read_marker};
use crate::fatbin::{CodeObject, bundle_of, bundle_table_size};
use crate::kpack::{KpackError, toc_key};
use crate::loader::{Reach, SearchPath};
use crate::metrics::Progress;
use crate::resources::Resources;
use crate::rope::{Content, to_usize};
use crate::source::{Entry, EntryKind, EntryPath, Input};
use crate::wheel;

pub use archives::some_of;
use archives::{InputArchives, Settled};
use names::Names;
pub use outside::{OutsideFile, outside};
use remaining::{DIRECTORY, blocked, is_of, without};
pub use wheels::{WheelsError, open_wheels, wheels_in};

/// Bytes of the smallest file that can be a binary: an ELF header.
const SMALLEST: u64 = 64;

/// Bytes of a bundle that HIP searches for code objects (`hip_fatbin.cpp` of CLR).
const LOOKED_AT: u64 = 4096;

/// The split binaries of an input.
#[derive(Debug, Default)]
pub struct Joined {
    /// By path. The input has a fat binary at each path.
    pub binaries: HashMap<EntryPath, Arc<SplitForm>>,
    /// The archives that were removed from the input as a whole.
    pub archives: Vec<Arc<dyn Content>>,
    /// Their code objects that belong to no split binary.
    pub unasked: Vec<Unasked>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// A code object that no split binary asks for. The binary that needs it may have been replaced by a fat one.
#[derive(Debug)]
pub struct Unasked {
    /// The archive in the input.
    pub archive: EntryPath,
    /// The directory of `.kpack` in an installation.
    pub root: EntryPath,
    /// First part of the archive's name.
    pub stem: String,
    /// Its key in the archive.
    pub key: String,
    /// The code object, for the archive's target.
    pub object: CodeObject,
}

/// A binary in its split form, as the input had it.
#[derive(Debug)]
pub struct SplitForm {
    /// The file.
    pub content: Arc<dyn Content>,
    /// The archives that its marker names, if all wrappers have the same marker, and archives can be made there again.
    pub archives: Option<Archives>,
    /// The code objects of each wrapper.
    pub wrappers: Vec<Vec<CodeObject>>,
}

/// The content of a marker: archives `ROOT/.kpack/STEM_@GFXARCH@.kpack`, and the binary's name in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archives {
    /// The directory of `.kpack` in an installation.
    pub root: EntryPath,
    /// First part of the archives' names.
    pub stem: String,
    /// The binary's name.
    pub kernel_name: String,
}

impl Joined {
    /// Contents that show whether files have changed that are no longer in the input.
    pub fn witnesses(&self) -> impl Iterator<Item = Arc<dyn Content>> + '_ {
        let contents = self.binaries.values().map(|form| &form.content).chain(&self.archives);
        // Inflated bytes may be in a cache; stored ones are read from the file.
        contents.map(|content| content.member().map_or_else(|| Arc::clone(content), |member| member.packed().bytes))
    }
}

/// A binary to be joined.
struct JoinCandidate {
    joined: Arc<dyn Content>,
    form: SplitForm,
    warnings: Vec<String>,
    /// The code objects that its wrappers ask for: number of the archive, name, target.
    asked: Vec<(usize, String, String)>,
    /// Archives with entries that cannot be used. They stay.
    unusable: BTreeSet<usize>,
}

/// Why a binary stays split.
#[derive(Debug, thiserror::Error)]
enum JoinError {
    #[error(transparent)]
    Binary(#[from] BinaryError),
    #[error(
        "its archives are outside of the input, where the symlink {0} leads; name a directory that holds both, or replace \
         symlinks by files"
    )]
    Outside(EntryPath),
    #[error("{0}")]
    Code(String),
}

/// Replaces each split binary of an input by a fat one if there are archives for it, and removes archives that are no
/// longer needed. An input without archives is left alone.
pub fn join(input: &mut Input, resources: &Arc<Resources>, progress: &Progress) -> Joined {
    let is_wheel = input.dist_info().is_some();
    let installed = |path: &EntryPath| if is_wheel { wheel::installed(path) } else { path.clone() };
    let archives = InputArchives::of(input, installed);
    let mut joined = Joined { warnings: distributions::mixed_versions(input), ..Joined::default() };
    joined.warnings.extend(outside(input, resources).iter().map(|it| format!("{}: {}", it.link, it.problem)));
    let is_linked =
        |entry: &Entry| matches!(entry.kind, EntryKind::Symlink(_)) && entry.path.name().ends_with(b".kpack");
    if archives.is_empty() && !input.entries.iter().any(is_linked) {
        return joined;
    }
    let names = Names::new(input, installed, &archives);
    let mut candidates = Vec::new();
    for (position, result) in examine(input, installed, (&archives, &names), resources, progress) {
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
                archives.need(&reached, path);
                joined.warnings.push(format!("{path}: not joined with its archives: {error}"));
            }
        }
    }
    let is_fat = |path: &EntryPath| matches!(names.file(path).map(FatBinary::scan), Some(Ok(Some(_))));
    let links = names.links();
    let mut settled = archives.settle(is_fat, resources);
    let mut gone = without(&input.entries, &settled.used, &links);
    // New archives cannot be where a symlink stays.
    let places = blocked(&input.entries, &gone, installed);
    let is_blocked = |form: &SplitForm| {
        form.archives.as_ref().is_some_and(|archives| places.contains(&archives.root.child(DIRECTORY)))
    };
    let (split, candidates): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|(_, found)| is_blocked(&found.form));
    for (position, found) in &split {
        let Some(Entry { path, .. }) = input.entries.get(*position) else { continue };
        archives.need(&found.asked.iter().map(|(number, ..)| *number).collect(), path);
        joined.warnings.push(format!(
            "{path}: not joined with its archives: the symlink .kpack stays, so that there is no place for others"
        ));
    }
    if !split.is_empty() {
        settled = archives.settle(is_fat, resources);
        gone = without(&input.entries, &settled.used, &links);
    }
    joined.warnings.extend(settled.warnings.iter().cloned());
    joined.warnings.extend(settled.left.iter().map(|(path, reason)| format!("{path}: {reason}")));
    replace(input, candidates, &settled, &gone, installed, &mut joined);
    joined.unasked = settled.unasked;
    input.entries.retain(|entry| !gone.contains(&entry.path));
    joined
}

/// A file's result: none if it is not split. An error comes with the archives that the file may need.
type Examined = Result<Option<JoinCandidate>, (JoinError, BTreeSet<usize>)>;

/// Joins all files that may be binaries, each with its position in the input.
fn examine(
    input: &Input,
    installed: impl Fn(&EntryPath) -> EntryPath + Sync,
    (archives, names): (&InputArchives, &Names<'_>),
    resources: &Arc<Resources>,
    progress: &Progress,
) -> Vec<(usize, Examined)> {
    let may_be_binary = |(position, entry): (usize, &'_ Entry)| match &entry.kind {
        EntryKind::File { content, .. } if content.size() >= SMALLEST && !archives.has(&entry.path) => {
            Some((position, installed(&entry.path), Arc::clone(content)))
        }
        _ => None,
    };
    let files: Vec<_> = input.entries.iter().enumerate().filter_map(may_be_binary).collect();
    progress.expect(files.iter().map(|(.., content)| content.size()).sum());
    let examined = files.par_iter().with_max_len(1).map(|(position, path, content)| {
        let found = look_at(path, content, (archives, names), resources);
        progress.advance(content.size());
        (*position, found)
    });
    examined.collect()
}

/// Puts joined binaries in the place of split ones.
fn replace(
    input: &mut Input,
    candidates: Vec<(usize, JoinCandidate)>,
    settled: &Settled,
    gone: &BTreeSet<EntryPath>,
    installed: impl Fn(&EntryPath) -> EntryPath,
    joined: &mut Joined,
) {
    // New archives cannot have the names of files that stay.
    let in_archives = |path: &EntryPath| path.parent().is_some_and(|parent| parent.name() == DIRECTORY);
    let staying = input.entries.iter().filter(|entry| !gone.contains(&entry.path)).map(|entry| installed(&entry.path));
    let staying: Vec<_> = staying.filter(in_archives).collect();
    for (position, JoinCandidate { joined: content, mut form, .. }) in candidates {
        let Some(entry) = input.entries.get_mut(position) else { continue };
        let is_taken = |it: &Archives| staying.iter().any(|path| is_of(path, it));
        form.archives = form.archives.filter(|archives| !is_taken(archives) && installed(&entry.path) == entry.path);
        if let EntryKind::File { content: old, .. } = &mut entry.kind {
            *old = content;
        }
        joined.binaries.insert(entry.path.clone(), Arc::new(form));
    }
    let content = |entry: &Entry| match &entry.kind {
        EntryKind::File { content, .. } if settled.used.contains(&entry.path) => Some(Arc::clone(content)),
        _ => None,
    };
    joined.archives = input.entries.iter().filter_map(content).collect();
}

/// The request of a wrapper.
struct CodeRequest {
    marker: Arc<SharedMarker>,
    /// The wrapper's index.
    index: u64,
}

/// A decoded marker, which wrappers share.
#[derive(PartialEq, Eq)]
struct SharedMarker {
    kernel_name: String,
    paths: Vec<SearchPath>,
    /// The archives to which each search path leads, without paths that lead to none.
    archives: Vec<Vec<(usize, Reach)>>,
    /// Symlinks out of the input, through which a loader finds archives.
    outside: Vec<EntryPath>,
}

/// Joins a file with its archives.
fn look_at(
    installed: &EntryPath,
    content: &Arc<dyn Content>,
    (archives, names): (&InputArchives, &Names<'_>),
    resources: &Arc<Resources>,
) -> Examined {
    let requests = match requests(installed, content, (archives, names)) {
        Ok(requests) if requests.is_empty() => return Ok(None),
        Ok(requests) => requests,
        Err(error) => return Err((error, archives.around(installed))),
    };
    let mut reached = reached(&requests);
    if requests.iter().any(Result::is_err) {
        reached.extend(archives.around(installed));
    }
    let requests = requests.into_iter().collect::<Result<Vec<_>, _>>();
    let found = requests.and_then(|requests| match requests.iter().find_map(|it| it.marker.outside.first()) {
        Some(link) => Err(JoinError::Outside(link.clone())),
        None => put_together(content, &requests, archives, resources),
    });
    found.map(Some).map_err(|error| (error, reached))
}

/// The archives that the readable markers lead to.
fn reached(requests: &[Result<CodeRequest, JoinError>]) -> BTreeSet<usize> {
    let markers: HashMap<_, _> =
        requests.iter().flatten().map(|request| (Arc::as_ptr(&request.marker), &request.marker)).collect();
    markers.values().flat_map(|marker| &marker.archives).flatten().map(|&(number, _)| number).collect()
}

/// The request of each wrapper of a file. Each marker is decoded once: it may be long, and there may be many wrappers.
fn requests(
    installed: &EntryPath,
    content: &Arc<dyn Content>,
    archives: (&InputArchives, &Names<'_>),
) -> Result<Vec<Result<CodeRequest, JoinError>>, JoinError> {
    let Some(split) = SplitBinary::find(content)? else { return Ok(Vec::new()) };
    if split.wrappers.len() > MAX_WRAPPERS {
        return Err(JoinError::Code(format!("it has more than {MAX_WRAPPERS} wrappers")));
    }
    let directory = installed.parent().unwrap_or_else(EntryPath::root);
    let mut markers = HashMap::new();
    let request = |(position, wrapper): (usize, &SplitWrapper)| {
        let broken =
            |error: &dyn std::fmt::Display| JoinError::Code(format!("the marker of wrapper {position}: {error}"));
        let bytes = wrapper.marker.as_ref().map_err(|error| broken(error))?;
        let marker =
            markers.entry(Arc::as_ptr(bytes)).or_insert_with(|| SharedMarker::read(bytes, &directory, archives));
        let marker = marker.as_ref().map_err(|error| broken(error))?;
        Ok(CodeRequest { marker: Arc::clone(marker), index: wrapper.index })
    };
    Ok(split.wrappers.iter().enumerate().map(request).collect())
}

impl SharedMarker {
    fn read(
        bytes: &[u8],
        directory: &EntryPath,
        (archives, names): (&InputArchives, &Names<'_>),
    ) -> Result<Arc<Self>, KpackError> {
        let (kernel_name, paths) = read_marker(bytes)?;
        let paths: Vec<_> = paths.iter().filter_map(|path| SearchPath::new(directory, path)).collect();
        let (mut by_path, mut outside) = (Vec::new(), Vec::new());
        for reached in paths.iter().map(|path| names.reached(path, archives)) {
            by_path.push(reached.archives);
            outside.extend(reached.outside);
        }
        by_path.retain(|reached| !reached.is_empty());
        Ok(Arc::new(Self { kernel_name, paths, archives: by_path, outside }))
    }
}

/// The fat binary for these requests.
fn put_together(
    content: &Arc<dyn Content>,
    requests: &[CodeRequest],
    archives: &InputArchives,
    resources: &Arc<Resources>,
) -> Result<JoinCandidate, JoinError> {
    let (mut wrappers, mut asked, mut warnings) = (Vec::new(), Vec::new(), Vec::<String>::new());
    let mut unusable = Vec::new();
    for (position, request) in requests.iter().enumerate() {
        // HIP uses the lower half.
        let index = to_usize(request.index & u64::from(u32::MAX));
        let found =
            sets::of(&toc_key(&request.marker.kernel_name, index), &request.marker.archives, archives, resources);
        let found = found.map_err(|reason| JoinError::Code(format!("wrapper {position}: {reason}")))?;
        asked.extend(found.asked);
        unusable.extend(found.unusable);
        // One warning is enough for a binary.
        warnings.extend(found.warning.filter(|_| warnings.is_empty()));
        wrappers.push(found.objects);
    }
    let without = wrappers.iter().enumerate().filter(|(_, objects)| objects.is_empty());
    let without: Vec<_> = without.map(|(position, _)| position.to_string()).collect();
    if without.len() == wrappers.len() {
        let reason = unusable.into_iter().map(|(_, reason)| reason).next();
        let reason = reason.unwrap_or_else(|| "no archive has code for any of its wrappers".to_owned());
        return Err(JoinError::Code(reason));
    }
    if let Some((_, reason)) = unusable.first() {
        warnings.push(format!("joined without {} of its code objects; {reason}", unusable.len()));
    }
    let unusable = unusable.into_iter().map(|(number, _)| number).collect();
    if !without.is_empty() {
        warnings.push(format!("no archive has code for wrapper {}", without.join(", ")));
    }
    let long = wrappers.iter().filter(|objects| bundle_table_size(objects) > LOOKED_AT).count();
    if long > 0 {
        warnings.push(format!(
            "joined, the headers of {long} bundles take more than {LOOKED_AT} bytes, and HIP finds no code in such bundles; \
             use a thin view, or choose fewer targets"
        ));
    }
    let bundle = |objects: &Vec<CodeObject>| Ok::<Arc<dyn Content>, BinaryError>(Arc::new(bundle_of(objects)?));
    let bundles = wrappers.iter().map(bundle).collect::<Result<Vec<_>, _>>()?;
    let joined = binary::join(content, &bundles)?;
    let form = SplitForm { content: Arc::clone(content), archives: named_archives(requests), wrappers };
    Ok(JoinCandidate { joined, form, warnings, asked, unusable })
}

/// The location for new archives, if all wrappers have the same marker and are numbered by position.
fn named_archives(requests: &[CodeRequest]) -> Option<Archives> {
    let first = &requests.first()?.marker;
    let is_like_first = |(position, request): (usize, &CodeRequest)| {
        request.index == position as u64 && (Arc::ptr_eq(&request.marker, first) || request.marker == *first)
    };
    let (root, stem) = first.paths.iter().find_map(SearchPath::parts)?;
    let all = requests.iter().enumerate().all(is_like_first);
    all.then(|| Archives { root, stem, kernel_name: first.kernel_name.clone() })
}
