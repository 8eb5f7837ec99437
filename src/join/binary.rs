//! Joins a split binary with its archives.
//!
//! Archives have an entry for each wrapper. Wrappers that led to one bundle have entries with one ordinal in every
//! archive (`kpack::ArchiveRope`). So wrappers share a bundle if they have code for the same targets, at the same
//! places of the archives. Equal code at different places stays apart, because HIP has a module for each bundle
//! (`hip_fatbin.cpp` of CLR), and so device variables.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use rocm_kpack::Marker;

use super::archives::InputArchives;
use super::joined::{Archives, SplitForm};
use super::names::Names;
use super::sets;
use crate::binary::{self, BinaryError, MAX_WRAPPERS, SplitBinary, SplitWrapper};
use crate::fatbin::{CodeDamage, CodeObject, bundle_of, bundle_table_size};
use crate::gpu::TargetId;
use crate::kpack::{KpackError, toc_key};
use crate::loader::{Reach, SearchPath};
use crate::resources::Resources;
use crate::rope::{Content, to_usize};
use crate::source::EntryPath;

/// Bytes of a bundle that HIP searches for code objects (`hip_fatbin.cpp` of CLR).
const SEARCHED_TABLE: u64 = 4096;

/// A binary to be joined.
pub(super) struct JoinCandidate {
    pub(super) joined: Arc<dyn Content>,
    pub(super) form: SplitForm,
    pub(super) warnings: Vec<String>,
    /// The code objects that its wrappers ask for: number of the archive, name, target.
    pub(super) asked: Vec<(usize, String, String)>,
    /// Archives with entries that cannot be used. They stay.
    pub(super) unusable: BTreeSet<usize>,
}

/// Why a binary stays split.
#[derive(Debug, thiserror::Error)]
pub(super) enum JoinError {
    #[error(transparent)]
    Binary(#[from] BinaryError),
    #[error(
        "its archives are outside of the input, where the symlink {0} leads; name a directory that holds both, or replace \
         symlinks by files"
    )]
    Outside(EntryPath),
    #[error("{0}")]
    Code(String),
    #[error("no archive has code for any of its wrappers")]
    NoCode,
}

/// A file's result: none if it is not split. An error comes with the archives that the file may need.
pub(super) type Examined = Result<Option<JoinCandidate>, (JoinError, BTreeSet<usize>)>;

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
pub(super) fn join_file(
    installed: &EntryPath,
    content: &Arc<dyn Content>,
    archives: &InputArchives,
    names: &Names<'_>,
    resources: &Arc<Resources>,
) -> Examined {
    let requests = match requests(installed, content, archives, names) {
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
    archives: &InputArchives,
    names: &Names<'_>,
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
            markers.entry(Arc::as_ptr(bytes)).or_insert_with(|| SharedMarker::read(bytes, &directory, archives, names));
        let marker = marker.as_ref().map_err(|error| broken(error))?;
        Ok(CodeRequest { marker: Arc::clone(marker), index: wrapper.index })
    };
    Ok(split.wrappers.iter().enumerate().map(request).collect())
}

impl SharedMarker {
    fn read(
        bytes: &[u8],
        directory: &EntryPath,
        archives: &InputArchives,
        names: &Names<'_>,
    ) -> Result<Arc<Self>, KpackError> {
        let Marker { kernel_name, kpack_search_paths: paths } = Marker::decode(bytes)?;
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
    let (mut asked, mut unusable, mut warnings) = (Vec::new(), Vec::new(), Vec::<String>::new());
    let (mut bundles, mut without, mut damage) = (JoinedBundles::default(), Vec::new(), CodeDamage::new());
    for (position, request) in requests.iter().enumerate() {
        // HIP uses the lower half.
        let index = to_usize(request.index & u64::from(u32::MAX));
        let found =
            sets::of(&toc_key(&request.marker.kernel_name, index), &request.marker.archives, archives, resources);
        let found = found.map_err(|reason| JoinError::Code(format!("wrapper {position}: {reason}")))?;
        asked.extend(found.asked);
        unusable.extend(found.unusable);
        damage.extend(found.damage);
        // One warning is enough for a binary.
        warnings.extend(found.warning.filter(|_| warnings.is_empty()));
        without.extend(found.objects.is_empty().then(|| position.to_string()));
        bundles.add(found.objects);
    }
    let JoinedBundles { list: bundles, wrappers, .. } = bundles;
    if without.len() == wrappers.len() {
        let reason = unusable.into_iter().map(|(_, reason)| reason).next();
        return Err(reason.map_or(JoinError::NoCode, JoinError::Code));
    }
    if let Some((_, reason)) = unusable.first() {
        warnings.push(format!("joined without {} of its code objects; {reason}", unusable.len()));
    }
    let unusable = unusable.into_iter().map(|(number, _)| number).collect();
    if !without.is_empty() {
        warnings.push(format!("no archive has code for wrapper {}", without.join(", ")));
    }
    let long = bundles.iter().filter(|objects| bundle_table_size(objects) > SEARCHED_TABLE).count();
    if long > 0 {
        warnings.push(format!(
            "joined, the headers of {long} bundles take more than {SEARCHED_TABLE} bytes, and HIP finds no code in such bundles; \
             use a thin view, or choose fewer targets"
        ));
    }
    let bundle = |objects: &Vec<CodeObject>| Ok::<Arc<dyn Content>, BinaryError>(Arc::new(bundle_of(objects)?));
    let made = bundles.iter().map(bundle).collect::<Result<Vec<_>, _>>()?;
    let joined = binary::join(content, &made, &wrappers)?;
    let form =
        SplitForm { content: Arc::clone(content), archives: named_archives(requests), bundles, wrappers, damage };
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

/// The bundles of a binary.
#[derive(Default)]
struct JoinedBundles {
    /// The code objects of each bundle, in the order of the first wrappers that lead to them.
    list: Vec<Vec<CodeObject>>,
    /// For each wrapper, the number of its bundle.
    wrappers: Vec<usize>,
    /// The numbers of bundles with code, by the targets and the addresses of the contents.
    known: HashMap<Vec<(TargetId, usize)>, usize>,
}

impl JoinedBundles {
    /// Adds the next wrapper, which leads to these code objects. Nothing shows whether wrappers without code shared a
    /// bundle.
    fn add(&mut self, objects: Vec<CodeObject>) {
        let new = self.list.len();
        // Code objects at one place of an archive share their content, which the list keeps.
        let place = |object: &CodeObject| (object.target.clone(), Arc::as_ptr(&object.content).addr());
        let number = if objects.iter().all(|object| object.content.size() == 0) {
            new
        } else {
            *self.known.entry(objects.iter().map(place).collect()).or_insert(new)
        };
        if number == new {
            self.list.push(objects);
        }
        self.wrappers.push(number);
    }
}
