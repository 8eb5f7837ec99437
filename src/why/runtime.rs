//! The HIP runtime that a library would get, and whether it reads archives.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use super::cause::Cause;
use super::libraries::LibraryFile;
use super::lookup::Lookup;
use super::question::Question;
use crate::binary::Imports;
use crate::coverage::CauseKind;
use crate::loader::{ARCHIVE_LIBRARY, OwnRuntime, RUNTIME, RuntimeNames, SearchDirectory, is_library};
use crate::source::open_file;

const READS_NONE: &str = "does not read .kpack archives";

/// Why an answer about archives needs a runtime.
pub(super) const OLD_RUNTIME: &str =
    "a HIP runtime older than ROCm 7.13 does not read .kpack archives, and would find no code";

/// Records the runtime of a split library. Returns a cause if the runtime cannot read archives.
pub(super) fn judge(library: &LibraryFile, question: &Question, lookup: &mut Lookup) -> Option<Cause> {
    let (loaded, resources) = (question.loaded.as_deref(), &question.resources);
    let (found, is_override) = match loaded {
        Some(loaded) => (loaded.first().cloned(), false),
        None => search(RUNTIME, &library.path, library, question),
    };
    let Some(found) = found else {
        return none("where libraries are usually loaded from", lookup);
    };
    let how = if loaded.is_some() { "has loaded" } else { "would load" };
    let content = library.found_at(&found).and_then(|place| open_file(&place, resources).ok());
    let Some(names) = content.as_deref().and_then(RuntimeNames::of) else {
        let is_too_large = content.is_some_and(|content| RuntimeNames::is_too_large(&*content));
        let what = if is_too_large { "is too large to be searched" } else { "cannot be read" };
        lookup.evidence.saw(format!("{}: a HIP runtime that {what}", found.display()));
        return None;
    };
    let what = reading(names.reads_archives());
    let text = format!("the process {how} {}, which {what} (by the symbols in it)", found.display());
    if loaded.is_some() {
        lookup.evidence.saw(text);
    } else {
        lookup.evidence.follows(text);
    }
    if names.reads_archives() {
        if names.names_library() {
            let (kpack, _) = search(ARCHIVE_LIBRARY, &found, library, question);
            let none = format!("it needs {ARCHIVE_LIBRARY}*, which is not where libraries are usually loaded from");
            lookup
                .evidence
                .follows(kpack.map_or(none, |kpack| format!("it would load {} to read them", kpack.display())));
        }
        return None;
    }
    if is_override {
        let reason = format!("the HIP runtime {} {READS_NONE}", found.display());
        return Some(Cause::new(CauseKind::RuntimeOld, reason, Some("unset LD_LIBRARY_PATH".to_owned())));
    }
    Some(too_old(&found))
}

/// Records the runtime of what is put together. Returns a cause if it cannot read archives.
pub(super) fn judge_own(runtime: Option<&OwnRuntime>, lookup: &mut Lookup) -> Option<Cause> {
    let Some(OwnRuntime { path, reads_archives }) = runtime else {
        return none("in it", lookup);
    };
    lookup.evidence.follows(format!(
        "a process would load {path} of it, which {} (by the symbols in it)",
        reading(*reads_archives)
    ));
    (!reads_archives).then(|| too_old(path.as_path()))
}

/// Records that there is no runtime, so that nothing says whether it reads archives.
fn none(place: &str, lookup: &mut Lookup) -> Option<Cause> {
    lookup.lacks_runtime = true;
    lookup.evidence.follows(format!("no {RUNTIME}* is {place}; {OLD_RUNTIME}"));
    None
}

fn reading(reads_archives: bool) -> &'static str {
    if reads_archives { "reads archives" } else { "does not read archives" }
}

fn too_old(runtime: &Path) -> Cause {
    let reason = format!(
        "the HIP runtime {} {READS_NONE}; use one of ROCm 7.13 or later, or a thin view (docs/why.md)",
        runtime.display()
    );
    Cause::new(CauseKind::RuntimeOld, reason, None)
}

/// The library with this prefix that would be loaded, and whether only `LD_LIBRARY_PATH` leads to it. That comes before a
/// RUNPATH, and after an RPATH (`ld.so(8)`). Directories are those of the root of `file`.
fn search(begin: &str, library: &Path, file: &LibraryFile, question: &Question) -> (Option<PathBuf>, bool) {
    let content = file.found_at(library).and_then(|place| open_file(&place, &question.resources).ok());
    let imports = content.and_then(|content| Imports::read(&content).ok()?);
    let (rpath, runpath, needed) = imports.map_or_else(Default::default, |it| match it.runpath {
        Some(runpath) => (Vec::new(), runpath, it.needed),
        None => (it.rpath, Vec::new(), it.needed),
    });
    let listed = |list: &[Vec<u8>]| {
        let directories = list.iter().flat_map(|element| SearchDirectory::of(element));
        directories.filter_map(|it| it.on_disk(library.parent()?)).find_map(|it| first_in(&it, begin, file))
    };
    if let Some(found) = listed(&rpath) {
        return (Some(found), false);
    }
    let value = |name: &str| question.variables.get(&OsString::from(name)).cloned().unwrap_or_default();
    let of_variable =
        std::env::split_paths(&value("LD_LIBRARY_PATH")).find_map(|directory| first_in(&directory, begin, file));
    if of_variable.is_some() {
        return (of_variable, true);
    }
    if let Some(found) = listed(&runpath) {
        return (Some(found), false);
    }
    let site = question.installed.site_of(library);
    let of_site = |path: &str| site.as_ref().map(|site| site.path.join(path));
    // Extensions of torch use the runtime that it has loaded.
    let is_of_torch = of_site("torch").is_some_and(|torch| library.starts_with(torch))
        || needed.iter().any(|name| name.starts_with(b"libtorch") || name.starts_with(b"libc10"));
    let (torch, other) = (of_site("torch/lib"), None);
    let [first, last] = if is_of_torch { [torch, other] } else { [other, torch] };
    let rocm = Some(value("ROCM_PATH")).filter(|path| !path.is_empty()).map(|path| PathBuf::from(path).join("lib"));
    let usual = ["/opt/rocm/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"].map(PathBuf::from);
    let own = [library.parent().map(Path::to_owned), of_site("_rocm_sdk_core/lib"), first, rocm].into_iter().flatten();
    let mut places = own.chain(usual).chain(last);
    (places.find_map(|directory| first_in(&directory, begin, file)), false)
}

fn first_in(directory: &Path, begin: &str, library: &LibraryFile) -> Option<PathBuf> {
    let directory = library.found_at(directory)?;
    let names = fs::read_dir(&directory).ok()?.filter_map(Result::ok).map(|entry| entry.file_name());
    Some(directory.join(names.filter(|name| is_library(name.as_encoded_bytes(), begin)).min()?))
}

/// Whether a file is named as the HIP runtime is.
pub(crate) fn is_runtime(name: &OsStr) -> bool {
    is_library(name.as_encoded_bytes(), RUNTIME)
}
