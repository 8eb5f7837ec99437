//! What was looked at in an input that has nothing to split, or to see what else it has.

use std::fmt;
use std::mem;
use std::sync::Arc;

use super::device_code::CodeSummary;
use super::table::counted;
use crate::binary::SplitBinary;
use crate::devicecode::{
    DeviceForm, Effort, code_after_head, code_by_name, first_block, foreign_code, is_for_linker, is_packed_tree,
};
use crate::fatbin::is_bitcode;
use crate::loader::is_archive;
use crate::resources::Resources;
use crate::rope::Content;
use crate::source::{EntryPath, Input, is_head_of_binary};
use crate::split::{CodeOfFile, Destination, Fate, Plan};
use crate::text::{NAMED, first_names};

/// What was looked at in an input that has nothing to split.
#[derive(Clone, Debug, Default)]
pub(crate) struct LookedAt {
    files: usize,
    binaries: usize,
    /// Static libraries, object files for Windows, bitcode, and what else is named by the data in it, of which only the beginning was read.
    libraries: usize,
    /// Libraries whose wrappers lead to archives that the input does not have.
    split: usize,
    /// Archives with code of libraries that the input does not have.
    archives: usize,
    /// Files that begin with device code, or are called so.
    loose: FirstName,
    /// Those of which none has code for AMD's GPUs, with the form.
    foreign: Vec<String>,
    /// Files with code that stays, with that code; `None` if the data of binaries was not searched.
    found: Option<Vec<String>>,
    /// Whether a search stopped early.
    is_unfinished: bool,
    /// Archives that were not searched.
    packed: FirstName,
    /// Files with bitcode of a host, in which device code cannot be seen.
    host_bitcode: FirstName,
}

/// The first of some names, and how many they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct FirstName {
    first: Option<String>,
    count: usize,
}

impl<T: fmt::Display> Extend<T> for FirstName {
    fn extend<I: IntoIterator<Item = T>>(&mut self, names: I) {
        for name in names {
            self.count += 1;
            self.first.get_or_insert_with(|| name.to_string());
        }
    }
}

impl FirstName {
    /// What these are, as one and several, a word on all of them, and the first in brackets. `None` if there are none.
    fn sentence(&self, one: &str, several: &str, what: &str) -> Option<String> {
        let such_as = if self.count > 1 { "such as " } else { "" };
        Some(format!("{} {what} ({such_as}{})", counted(self.count, one, several), self.first.as_ref()?))
    }
}

impl LookedAt {
    /// Looks at the beginning of each file, and at the wrappers of binaries. Their data is not searched.
    pub(crate) fn of<'a>(inputs: impl IntoIterator<Item = &'a Input>, resources: &Arc<Resources>) -> Self {
        let mut all = Self::default();
        for (path, content) in inputs.into_iter().flat_map(Input::files) {
            all.archives += usize::from(is_archive(path, content));
            if all.add_file(path, content, resources) {
                all.split +=
                    usize::from(matches!(SplitBinary::find(content), Ok(Some(split)) if !split.wrappers.is_empty()));
            }
        }
        all
    }

    /// What a split does not divide, and what it did not look at, in words. Reads the beginning of each file that it leaves whole,
    /// and of one that is compressed what holds the table of a bundle.
    pub(crate) fn rest<'a>(
        planned: impl IntoIterator<Item = (&'a Input, &'a Plan)>,
        resources: &Arc<Resources>,
    ) -> Option<String> {
        let mut all = Self::default();
        let planned = planned.into_iter().flat_map(|(input, plan)| input.entries.iter().zip(&plan.places));
        for (entry, place) in planned {
            let is_whole = matches!(place, Destination::Host | Destination::Rewritten { .. });
            if let Some(content) = entry.content().filter(|_| is_whole) {
                all.add_file(&entry.path, content, resources);
            }
        }
        // `inspect` searches most archives, as it does data, and names the others.
        all.libraries += mem::take(&mut all.packed).count;
        let loose = all.loose.sentence("file with device code stays", "files with device code stay", "as a whole");
        let parts: Vec<_> = loose.into_iter().chain(all.unsearched()).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// Looks at the beginning of a file. Returns whether it may be a binary.
    fn add_file(&mut self, path: &EntryPath, content: &Arc<dyn Content>, resources: &Arc<Resources>) -> bool {
        let (block, effort) = (first_block(&**content), Effort::of(content.size()));
        let is_binary = is_head_of_binary(&block);
        let named = || code_by_name(path.name(), &**content);
        // Its triple is behind the first block.
        let is_bitcode = is_bitcode(&block);
        let read = || code_after_head(&block, content, resources, &effort);
        let form = if is_bitcode { None } else { read().or_else(named).map(|code| code.form) };
        let code = form.filter(|form| form.is_device_code());
        let is_unsearched = is_bitcode || code != form || is_for_linker(&block);
        self.is_unfinished |= effort.is_spent();
        self.files += 1;
        self.loose.extend(code.map(|_| path));
        self.foreign.extend(code.filter(|it| !it.is_amd()).map(|form| format!("{path} ({})", form.name())));
        self.libraries += usize::from(is_unsearched && !is_binary);
        self.packed.extend(is_packed_tree(path.name(), &block, content).then_some(path));
        self.binaries += usize::from(is_binary);
        is_binary
    }

    /// The same after a search, which found `code`.
    pub(crate) fn searched(mut self, code: &[CodeOfFile]) -> Self {
        self.is_unfinished = code.iter().any(|file| file.is_unfinished);
        self.packed = FirstName::default();
        self.packed.extend(code.iter().filter(|file| file.has_archive).map(|file| &file.path));
        let has_host_bitcode = |file: &&CodeOfFile| file.staying().any(|found| !found.form.is_device_code());
        self.host_bitcode.extend(code.iter().filter(has_host_bitcode).map(|file| &file.path));
        // What belongs together may be in several archives.
        let is_packed = code.iter().any(CodeOfFile::is_packed_split);
        if is_packed {
            (self.split, self.archives) = (0, 0);
        }
        let is_other = |summary: &CodeSummary| summary.form != DeviceForm::SplitMarker;
        let is_named = |summary: &CodeSummary| summary.fate == Fate::Stays && (is_packed || is_other(summary));
        let all = CodeSummary::all(code).into_iter().filter(|summary| summary.form.is_device_code());
        let named: Vec<_> = all.filter(is_named).collect();
        let is_amd = named.iter().any(|summary| summary.form.is_amd());
        let (own, foreign) = named.iter().partition::<Vec<_>, _>(|_| is_amd);
        self.found = Some(own.into_iter().map(CodeSummary::sentence).collect());
        self.foreign = foreign.into_iter().map(|summary| format!("{} ({})", summary.path, summary.kind())).collect();
        self
    }

    /// What was not searched, in words.
    fn unsearched(&self) -> Option<String> {
        let mut parts = Vec::new();
        if self.found.is_none() && self.binaries + self.libraries > 0 {
            parts.push("data was not searched for code, \"kpackfs inspect\" does that".to_owned());
        }
        if self.is_unfinished {
            parts.push("a file was not searched to the end".to_owned());
        }
        let (one, several) = ("file with LLVM bitcode of a host is", "files with LLVM bitcode of a host are");
        parts.extend(self.host_bitcode.sentence(one, several, "not searched"));
        parts.extend(not_searched(&self.packed));
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// That archives are not searched, if there are some.
pub(crate) fn not_searched(archives: &FirstName) -> Option<String> {
    let sentence = archives.sentence("archive in it is", "archives in it are", "not searched")?;
    Some(format!("{sentence}: unpack, or name each"))
}

/// The rest of a sentence that begins with the input.
impl fmt::Display for LookedAt {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { files, binaries, split, archives, loose, foreign, found, .. } = self;
        let found = found.as_deref().unwrap_or_default();
        let counts = format!("{}, {}", counted(*files, "file", "files"), counted(*binaries, "binary", "binaries"));
        let unsearched = self.unsearched().map(|it| format!("; {it}")).unwrap_or_default();
        match (split, archives) {
            _ if *files == 0 => formatter.write_str("has no files"),
            (0, 0) if !found.is_empty() => {
                let named = first_names(found, NAMED, "; ", ";");
                write!(formatter, "has device code in forms that are not split: {named}")
            }
            (0, 0) if loose.count > foreign.len() => write!(
                formatter,
                "has {} of no library and of no database that is split",
                counted(loose.count, "file with device code", "files with device code")
            ),
            (0, 0) if !foreign.is_empty() => write!(formatter, "has {}{unsearched}", foreign_code(foreign)),
            (0, 0) if !unsearched.is_empty() => {
                write!(formatter, "has no HIP wrappers with code and no kernel databases: {counts}{unsearched}")
            }
            (0, 0) => write!(
                formatter,
                "contains no device code for AMD's GPUs and no kernel databases: {counts}, none of which has HIP's wrappers, such \
                 code in its data, or is of a database"
            ),
            (0, _) => write!(
                formatter,
                "has {}, and none of the libraries whose code is there; name the host part, too",
                counted(*archives, ".kpack archive", ".kpack archives")
            ),
            (_, 0) => write!(
                formatter,
                "has {}, and no archive with the code; name the device parts, too",
                counted(*split, "split library", "split libraries")
            ),
            _ => write!(
                formatter,
                "has {} and {}, which do not belong together",
                counted(*split, "split library", "split libraries"),
                counted(*archives, ".kpack archive", ".kpack archives")
            ),
        }
    }
}
