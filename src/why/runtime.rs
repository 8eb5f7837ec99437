//! The HIP runtime that a library would get, and whether it reads archives.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use memchr::memmem;

use super::cause::{self, Cause};
use super::installed;
use super::lookup::Lookup;
use crate::disk;
use crate::loader::NAMES_OF_READERS;

/// The prefix of the runtime's file name.
const RUNTIME: &str = "libamdhip64.so";

/// Bytes of a runtime that are searched at a time. That of ROCm 7 has 25 MB.
const PIECE: usize = 256 << 10;

/// The prefix of the library with which runtimes read archives.
const KPACK: &str = "librocm_kpack.so";

/// Records the runtime of a split library. Returns a cause if the runtime cannot read archives.
pub(super) fn judge(
    library: &Path,
    variables: &BTreeMap<OsString, OsString>,
    loaded: Option<&[PathBuf]>,
    lookup: &mut Lookup,
) -> Option<Cause> {
    let (found, is_override) = match loaded {
        Some(loaded) => (loaded.first().cloned(), false),
        None => search(RUNTIME, library, variables),
    };
    let Some(found) = found else {
        lookup.follows(format!("no {RUNTIME}* is where libraries are usually loaded from, so its kind is not known"));
        return None;
    };
    let how = if loaded.is_some() { "has loaded" } else { "would load" };
    let Ok([reads, names_kpack]) = search_names(&found) else {
        lookup.saw(format!("{}: a HIP runtime that cannot be read", found.display()));
        return None;
    };
    let what = if reads { "reads archives" } else { "does not read archives" };
    let text = format!("the process {how} {}, which {what} (by the symbols in it)", found.display());
    if loaded.is_some() {
        lookup.saw(text);
    } else {
        lookup.follows(text);
    }
    if reads {
        if names_kpack {
            let (kpack, _) = search(KPACK, &found, variables);
            let none = format!("it needs {KPACK}*, which is not where libraries are usually loaded from");
            lookup.follows(kpack.map_or(none, |kpack| format!("it would load {} to read them", kpack.display())));
        }
        return None;
    }
    let reason = format!("the HIP runtime {} does not read .kpack archives", found.display());
    let command = is_override.then(|| "unset LD_LIBRARY_PATH".to_owned());
    let reason =
        if is_override { reason } else { reason + "; use one of ROCm 7.13 or later, or a thin view (docs/why.md)" };
    Some(Cause::new(&cause::RUNTIME_OLD, reason, command))
}

/// Whether a runtime has the names of functions that read archives, and whether it names the library with these.
fn search_names(runtime: &Path) -> io::Result<[bool; 2]> {
    let mut file = disk::open(runtime)?.0;
    let longest = NAMES_OF_READERS.iter().map(|name| name.len()).max().unwrap_or(0).max(KPACK.len());
    let (mut buffer, mut kept, mut found) = (vec![0; PIECE], 0, [false; 2]);
    loop {
        let length = kept + file.read(buffer.get_mut(kept..).unwrap_or_default())?;
        if length == kept {
            return Ok(found);
        }
        let piece = buffer.get(..length).unwrap_or_default();
        let has = |name: &[u8]| memmem::find(piece, name).is_some();
        found = [found[0] || NAMES_OF_READERS.iter().any(|name| has(name)), found[1] || has(KPACK.as_bytes())];
        // A name may begin in this piece and end in the next one.
        kept = length.min(longest - 1);
        buffer.copy_within(length - kept..length, 0);
    }
}

/// The library with this prefix that would be loaded, and whether only `LD_LIBRARY_PATH` leads to it.
fn search(begin: &str, library: &Path, variables: &BTreeMap<OsString, OsString>) -> (Option<PathBuf>, bool) {
    let value = |name: &str| variables.get(&OsString::from(name)).cloned().unwrap_or_default();
    let of_variable =
        std::env::split_paths(&value("LD_LIBRARY_PATH")).find_map(|directory| first_in(&directory, begin));
    if of_variable.is_some() {
        return (of_variable, true);
    }
    let site = installed::site_of(library).map(|site| site.join("_rocm_sdk_core/lib"));
    let rocm = Some(value("ROCM_PATH")).filter(|path| !path.is_empty()).map(|path| PathBuf::from(path).join("lib"));
    let usual = ["/opt/rocm/lib", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"].map(PathBuf::from);
    let mut places = library.parent().map(Path::to_owned).into_iter().chain(site).chain(rocm).chain(usual);
    (places.find_map(|directory| first_in(&directory, begin)), false)
}

fn first_in(directory: &Path, begin: &str) -> Option<PathBuf> {
    let names = fs::read_dir(directory).ok()?.filter_map(Result::ok).map(|entry| entry.path());
    let is_it = |path: &PathBuf| path.file_name().is_some_and(|name| begins(name, begin));
    names.filter(is_it).min()
}

fn begins(name: &OsStr, begin: &str) -> bool {
    name.as_encoded_bytes().starts_with(begin.as_bytes())
}

/// Whether a file is named as the HIP runtime is.
pub(crate) fn is_runtime(name: &OsStr) -> bool {
    begins(name, RUNTIME)
}
