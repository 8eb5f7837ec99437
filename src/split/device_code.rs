//! All device code of an input, and what becomes of it in a split.

use std::collections::BTreeSet;
use std::sync::Arc;

use rayon::prelude::*;
use serde::Serialize;

use super::content_code::{ContentCode, archive_code, tally, unjoined_code};
use super::{Destination, Plan};
use crate::binary::{FileCode, has_bundles};
use crate::devicecode::{
    CodeOfForm, DeviceCodePlace, DeviceForm, Effort, UnpackedFile, code_by_name, code_of_file, files_behind, unpacked,
};
use crate::fatbin::CodeDamage;
use crate::gpu::TargetId;
use crate::join::Joined;
use crate::loader::is_archive;
use crate::memory::{Parser, ParserMemory};
use crate::metrics::Progress;
use crate::resources::Resources;
use crate::source::{Entry, EntryPath, Input};

/// What becomes of device code in a split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fate {
    /// It goes to archives of device parts.
    Split,
    /// Its file goes to a device part.
    Moved,
    /// It stays in the host part.
    Stays,
}

/// The device code of a file.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct CodeOfFile {
    /// The path in the input.
    pub path: EntryPath,
    /// The code by place and form, with what becomes of it.
    pub found: Vec<(Fate, CodeOfForm)>,
    /// The archives that a split library names, if they are not in the input.
    pub archives: Vec<String>,
    /// Whether the search stopped early, because too much looks like code.
    pub is_unfinished: bool,
    /// Whether wrappers may lead to bundles in its data: they were not looked for, since it is deflated and its dynamic strings do not
    /// name what registers them.
    pub(crate) may_be_wrapped: bool,
    /// Whether it is a file in an archive, which is not unpacked to split it.
    pub(crate) is_in_archive: bool,
    /// Of a split library, the targets of .kpack archives that are in an archive of the input, or outside of the one that it is in.
    /// `None` is one that is not known.
    unjoined: Arc<BTreeSet<Option<TargetId>>>,
    /// Whether a zip file is behind it, whose files are searched by themselves.
    has_zip: bool,
    /// Whether it is or has an archive that is not searched: one in an archive, or of a format that is not read.
    pub has_archive: bool,
    /// What is wrong with code behind wrappers or in a file.
    pub(crate) damage: CodeDamage,
    /// The memory of its targets.
    _memory: ParserMemory,
}

impl CodeOfFile {
    /// Code with what becomes of it, and `code`, which stays.
    fn new(path: EntryPath, mut all: Vec<(Fate, CodeOfForm)>, code: FileCode, damage: CodeDamage) -> Self {
        let FileCode { found, archives, is_unfinished, has_zip, has_archive } = code;
        all.extend(found.into_iter().map(|found| (Fate::Stays, found)));
        let memory = ParserMemory::new(Parser::DeviceCode);
        let mut targets = all.iter().flat_map(|(_, found)| found.targets.keys());
        let is_kept = targets.try_for_each(|target| memory.add_entry(target.processor().as_bytes())).is_ok();
        let found = if is_kept { all } else { Vec::new() };
        let is_unfinished = is_unfinished || !is_kept;
        Self {
            path,
            found,
            archives,
            is_unfinished,
            may_be_wrapped: false,
            is_in_archive: false,
            unjoined: Arc::default(),
            has_zip,
            has_archive,
            damage,
            _memory: memory,
        }
    }

    /// That of a file in an archive, of which planning says nothing. What is behind wrappers is found as other data is.
    fn in_archive(file: UnpackedFile, resources: &Arc<Resources>) -> Self {
        let unjoined = unjoined_code(&file);
        let UnpackedFile { path, content, is_packed_tree, .. } = file;
        let search = || ContentCode::of(&content, None, resources);
        let ContentCode { code, damage, is_unread, .. } =
            if is_packed_tree { ContentCode::default() } else { search() };
        let code = if is_unread { FileCode::unread() } else { code };
        let own = Self::new(path, unjoined.into_iter().map(|found| (Fate::Stays, found)).collect(), code, damage);
        Self { is_in_archive: true, has_archive: is_packed_tree || own.has_archive || own.has_zip, ..own }
    }

    /// Whether it is a split library, or has the code of some, in an archive of the input.
    pub(crate) fn is_packed_split(&self) -> bool {
        self.is_in_archive && (self.has(DeviceForm::SplitMarker) || self.has(DeviceForm::Kpack))
    }

    /// Whether it is a split library that is not joined with .kpack archives, since it or they are packed.
    pub(crate) fn is_unjoined(&self) -> bool {
        !self.unjoined.is_empty()
    }

    /// Whether those may have code that a GPU takes.
    pub(crate) fn may_be_joined_for(&self, gpu: &TargetId) -> bool {
        let known: Vec<_> = self.unjoined.iter().flatten().collect();
        self.unjoined.contains(&None) || gpu.served_by(&known).kind.is_some()
    }

    /// Whether code of this form stays in the host part.
    fn has(&self, form: DeviceForm) -> bool {
        self.staying().any(|found| found.form == form)
    }

    /// Whether there is something to say about it.
    fn is_notable(&self) -> bool {
        !self.found.is_empty() || self.is_unfinished || self.has_archive || !self.damage.is_empty()
    }

    /// The code that stays in the host part.
    pub fn staying(&self) -> impl Iterator<Item = &CodeOfForm> {
        self.found.iter().filter(|(fate, _)| *fate == Fate::Stays).map(|(_, found)| found)
    }
}

/// The device code of all files of an input, in the order of the input. Reads the data of binaries, and the beginning of other
/// files, which may be compressed. What cannot be read has none here, and planning has reported it.
pub fn device_code(
    input: &Input,
    joined: &Joined,
    plan: &Plan,
    resources: &Arc<Resources>,
    progress: &Progress,
) -> Vec<CodeOfFile> {
    progress.expect(input.entries.iter().map(Entry::size).sum());
    let files = input.entries.par_iter().zip(&plan.places).enumerate().with_max_len(1);
    let found = files.flat_map_iter(|(position, (entry, place))| {
        let _named = progress.at(|| entry.path.to_string());
        let in_archive = |file| CodeOfFile::in_archive(file, resources);
        let whole = || {
            let own = of_entry(position, entry, place, joined, plan, resources);
            let content = entry.content().filter(|_| own.as_ref().is_some_and(|own| own.has_zip));
            let behind = content.map(|content| files_behind(&entry.path, content, resources));
            own.into_iter().chain(behind.into_iter().flatten().map(in_archive)).collect()
        };
        let of_file = |file: UnpackedFile| {
            let is_own = !file.is_in_archive && !file.is_packed_tree;
            if is_own { whole() } else { vec![in_archive(file)] }
        };
        let found = match entry.content() {
            Some(content) if matches!(place, Destination::Host) => {
                unpacked(&entry.path, content, resources).flat_map(of_file).collect()
            }
            _ => whole(),
        };
        progress.advance(entry.size());
        found.into_iter().filter(CodeOfFile::is_notable)
    });
    let mut found: Vec<_> = found.collect();
    note_unjoined(&mut found, input);
    found
}

/// Notes for each split library the archives that it is not joined with.
fn note_unjoined(found: &mut [CodeOfFile], input: &Input) {
    let archives = found.iter().flat_map(CodeOfFile::staying).filter(|code| code.form == DeviceForm::Kpack);
    let targets = |code: &CodeOfForm| {
        let unknown = (code.unknown.code_objects > 0).then_some(None);
        code.targets.keys().cloned().map(Some).chain(unknown).collect::<Vec<_>>()
    };
    let packed: BTreeSet<_> = archives.flat_map(targets).collect();
    let is_split = |file: &CodeOfFile| file.has(DeviceForm::SplitMarker);
    let is_packed = found.iter().any(|file| file.is_in_archive && is_split(file));
    let loose = input.files().filter(|(path, content)| is_packed && is_archive(path, content));
    let loose = loose.flat_map(|(_, content)| archive_code(content)).map(|(target, _)| target);
    let all = Arc::new(packed.iter().cloned().chain(loose).collect());
    let packed = Arc::new(packed);
    for file in found.iter_mut().filter(|file| is_split(file)) {
        file.unjoined = Arc::clone(if file.is_in_archive { &all } else { &packed });
    }
}

fn of_entry(
    position: usize,
    entry: &Entry,
    place: &Destination,
    joined: &Joined,
    plan: &Plan,
    resources: &Arc<Resources>,
) -> Option<CodeOfFile> {
    let content = entry.content()?;
    // `None` unless planning has searched it.
    let searched = plan.searched.get(&position).map(|found| found.as_deref().cloned().unwrap_or_default());
    let (fate, moved, known) = match place {
        Destination::Device(..) | Destination::Unwanted(..) | Destination::Held => {
            let effort = Effort::of(content.size());
            let moved = tally(DeviceCodePlace::File, code_of_file(content, resources, &effort));
            let code = FileCode { is_unfinished: effort.is_spent(), ..FileCode::default() };
            (Fate::Moved, moved, ContentCode { code, ..ContentCode::default() })
        }
        Destination::Rewritten { content, .. } => {
            let original = &content.original;
            let known = if let Some(split) = joined.binaries.get(&entry.path) {
                // Its code is that of archives.
                let known = ContentCode::of(original, Some(&[]), resources);
                ContentCode { damage: split.damage.clone(), ..known }
            } else {
                let known = searched.filter(|it| it.is_fat);
                known.unwrap_or_else(|| ContentCode::of_fat(original, resources))
            };
            (Fate::Split, vec![], known)
        }
        Destination::Host => {
            let is_unsplit = plan.unsplit.contains(&entry.path);
            let search_fat = || is_unsplit.then(|| ContentCode::of_fat(content, resources));
            let known = searched.or_else(search_fat).unwrap_or_else(|| ContentCode::of(content, None, resources));
            let named = known.code.found.is_empty().then(|| code_by_name(entry.path.name(), &**content)).flatten();
            (Fate::Stays, tally(DeviceCodePlace::File, named), known)
        }
    };
    let all = known.wrapped.into_iter().chain(moved).map(|found| (fate, found)).collect();
    let is_deflated = || content.member().is_some_and(|member| member.packed().deflated);
    let is_in_data = known.code.found.iter().any(|found| fate == Fate::Stays && found.is_bundle_in_data());
    let may_be_wrapped = is_in_data && !known.is_fat && is_deflated() && has_bundles(content);
    Some(CodeOfFile { may_be_wrapped, ..CodeOfFile::new(entry.path.clone(), all, known.code, known.damage) })
}
