//! The result of joining.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::fatbin::{CodeDamage, CodeObject};
use crate::rope::Content;
use crate::source::{Attributes, EntryPath};

/// The split binaries of an input.
#[derive(Debug, Default)]
pub struct Joined {
    /// By path. The input has a fat binary at each path.
    pub binaries: HashMap<EntryPath, Arc<SplitForm>>,
    /// The archives that were removed from the input as a whole.
    pub archives: Vec<Arc<dyn Content>>,
    /// Their code objects that belong to no split binary.
    pub orphans: Vec<OrphanCode>,
    /// Split binaries that were not joined since they or their archives cannot be read, with the reasons.
    pub(crate) unread: HashMap<EntryPath, String>,
    /// Split binaries that lead to archives, none of which has code for them.
    pub(crate) without_code: BTreeSet<EntryPath>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// A code object that no split binary asks for. The binary that needs it may have been replaced by a fat one.
#[derive(Debug)]
pub struct OrphanCode {
    /// The archive in the input.
    pub archive: EntryPath,
    /// Who can read it.
    pub attributes: Attributes,
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
    /// The code objects of each bundle.
    pub bundles: Vec<Vec<CodeObject>>,
    /// For each wrapper, the index of its bundle in `bundles`. Wrappers may share one.
    pub wrappers: Vec<usize>,
    /// What is wrong with them.
    pub(crate) damage: CodeDamage,
}

impl SplitForm {
    /// The code objects of each wrapper.
    pub fn code(&self) -> impl Iterator<Item = &[CodeObject]> {
        self.wrappers.iter().filter_map(|&bundle| self.bundles.get(bundle)).map(Vec::as_slice)
    }
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
