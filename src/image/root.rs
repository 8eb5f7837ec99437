//! The root file system of an image: its layers laid over each other.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::layer::{Layer, LayerMember, LayerMemberKind};
use super::{Image, ImageError};
use crate::memory::{Parser, ParserMemory};
use crate::source::{Attributes, Entry, EntryKind, EntryPath, Input, InputKind, file_in, file_of_other_gpu};

/// The files that the layers so far make.
#[derive(Debug, Default)]
pub(crate) struct RootFiles {
    files: BTreeMap<EntryPath, RootFile>,
    /// Number of files with hard links.
    links: u64,
    /// Where each hard link leads.
    pub(crate) targets: LinkTargets,
    tables: Vec<ParserMemory>,
}

/// A member of a layer: the numbers of both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct MemberId {
    pub(crate) layer: u32,
    pub(crate) member: u32,
}

impl MemberId {
    pub(super) fn new(layer: usize, member: usize) -> Self {
        Self { layer: to_u32(layer), member: to_u32(member) }
    }
}

/// Where each hard link leads, and each symlink that is taken for one.
pub(super) type LinkTargets = HashMap<MemberId, LinkTarget>;

/// Where a hard link leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LinkTarget {
    /// The member of the path that it names.
    pub(crate) named: MemberId,
    /// The member that has the file's content.
    pub(crate) file: MemberId,
}

/// A file of the root file system.
#[derive(Clone, Debug)]
pub(crate) struct RootFile {
    pub(crate) kind: EntryKind,
    attributes: Attributes,
    /// The member that it comes from; `None` for directories that no layer has.
    member: Option<MemberId>,
}

/// The attributes of directories that no layer has.
pub(super) const IMPLIED: Attributes = Attributes { mode: 0o755, uid: 0, gid: 0, mtime: 0, mtime_nanoseconds: 0 };

impl RootFiles {
    /// Lays a layer over those before it.
    pub(crate) fn apply(&mut self, number: usize, layer: &Layer) -> Result<(), ImageError> {
        let id = |member: usize| MemberId::new(number, member);
        let table = ParserMemory::new(Parser::Tar);
        // Whiteouts are about lower layers, wherever they stand.
        for member in &layer.members {
            match member.kind {
                LayerMemberKind::Whiteout => self.remove(&member.path),
                LayerMemberKind::Opaque => self.empty(&member.path),
                _ => {}
            }
        }
        for (position, member) in layer.members.iter().enumerate() {
            let kind = match &member.kind {
                LayerMemberKind::Directory => EntryKind::Directory,
                LayerMemberKind::File => {
                    file_in(&layer.archive, &member.content).map_err(|reason| layer.bad(&member.path, reason))?
                }
                LayerMemberKind::HardLink(target) => {
                    self.linked(id(position), target).map_err(|it| layer.bad(&member.path, it))?
                }
                LayerMemberKind::Symlink(target) => EntryKind::Symlink(relative(&member.path, target)),
                // Inputs have none of these. They replace what was there.
                LayerMemberKind::Special => {
                    self.remove(&member.path);
                    continue;
                }
                LayerMemberKind::Whiteout | LayerMemberKind::Opaque | LayerMemberKind::Other => continue,
            };
            self.insert(id(position), member, kind, &table).map_err(|reason| layer.bad(&member.path, reason))?;
        }
        self.tables.push(table);
        Ok(())
    }

    /// Makes symlinks between files of several GPUs hard links, as in trees.
    pub(super) fn leave_no_gpu(&mut self) {
        let kind = |path: &EntryPath| Some(&self.files.get(path)?.kind);
        let links = self.files.iter().filter(|(_, file)| matches!(file.kind, EntryKind::Symlink(_)));
        let links =
            links.filter_map(|(path, link)| Some((path.clone(), link.member?, file_of_other_gpu(path, None, kind)?)));
        for (path, id, file) in links.collect::<Vec<_>>() {
            let attributes = self.files.get(&file).map(|file| file.attributes);
            if let (Ok(kind), Some(attributes)) = (self.linked(id, &file), attributes) {
                self.files.insert(path, RootFile { kind, attributes, member: Some(id) });
            }
        }
    }

    /// Everything, as an input.
    pub(crate) fn into_input(self, image: &Image) -> Result<Input, ImageError> {
        let location = image.layout.blob(image.descriptor.digest())?;
        let file = Some(image.layout.content(image.descriptor.digest())?);
        let entry = |(path, file): (EntryPath, RootFile)| Entry { path, kind: file.kind, attributes: file.attributes };
        let entries = self.files.into_iter().map(entry).collect();
        Ok(Input { entries, file, tables: self.tables, ..Input::empty(InputKind::Tree, location, IMPLIED) })
    }

    /// The paths of a directory and of everything below it.
    fn below(&self, directory: &EntryPath) -> Vec<EntryPath> {
        let from = self.files.range(directory.clone()..).map(|(path, _)| path);
        from.take_while(|path| *path == directory || path.is_below(directory)).cloned().collect()
    }

    fn remove(&mut self, path: &EntryPath) {
        for path in self.below(path) {
            self.files.remove(&path);
        }
    }

    fn empty(&mut self, directory: &EntryPath) {
        for path in self.below(directory).into_iter().filter(|path| path != directory) {
            self.files.remove(&path);
        }
    }

    /// The member that each path comes from, unless it is a directory that no layer has.
    pub(crate) fn members(&self) -> impl Iterator<Item = MemberId> {
        self.files.values().filter_map(|file| file.member)
    }

    /// The member that a path comes from.
    pub(crate) fn member(&self, path: &EntryPath) -> Option<MemberId> {
        self.files.get(path)?.member
    }

    /// The file to which a hard link leads: one of the same layer before it, or of a lower one.
    fn linked(&mut self, link: MemberId, target: &EntryPath) -> Result<EntryKind, String> {
        let Some(RootFile { kind: EntryKind::File { content, link_group }, member: Some(named), .. }) =
            self.files.get_mut(target)
        else {
            return Err(format!("a hard link to {:?}, which is no file before it", target.to_text()));
        };
        let file = self.targets.get(named).map_or(*named, |target| target.file);
        self.targets.insert(link, LinkTarget { named: *named, file });
        let group = *link_group.get_or_insert_with(|| {
            self.links += 1;
            self.links
        });
        Ok(EntryKind::File { content: Arc::clone(content), link_group: Some(group) })
    }

    fn insert(
        &mut self,
        id: MemberId,
        member: &LayerMember,
        kind: EntryKind,
        table: &ParserMemory,
    ) -> Result<(), String> {
        let path = &member.path;
        let mut above = path.parent();
        while let Some(directory) = above.filter(|it| !it.is_root()) {
            above = directory.parent();
            match self.files.get(&directory).map(|file| &file.kind) {
                Some(EntryKind::Directory) => break,
                Some(EntryKind::Symlink(_)) => {
                    return Err(format!(
                        "its directory {:?} is a symlink, through which no file is written",
                        directory.to_text()
                    ));
                }
                Some(EntryKind::File { .. }) => {
                    return Err(format!("{:?}, in which it is, is a file", directory.to_text()));
                }
                None => {
                    table.add_entry(directory.as_bytes()).map_err(|error| error.to_string())?;
                    let file = RootFile { kind: EntryKind::Directory, attributes: IMPLIED, member: None };
                    self.files.insert(directory, file);
                }
            }
        }
        let stays = matches!(kind, EntryKind::Directory)
            && self.files.get(path).is_some_and(|old| matches!(old.kind, EntryKind::Directory));
        if !stays {
            self.remove(path);
        }
        let counted = table.add_entry(path.as_bytes()).and_then(|()| table.grow(kind.target_length()));
        counted.map_err(|error| error.to_string())?;
        self.files.insert(path.clone(), RootFile { kind, attributes: member.attributes, member: Some(id) });
        Ok(())
    }
}

/// The target of a symlink in an image, relative to the link: one that begins with `/` leads from the root of the image,
/// and not from that of this machine.
fn relative(link: &EntryPath, target: &Arc<[u8]>) -> Arc<[u8]> {
    let Some(rest) = target.strip_prefix(b"/") else { return Arc::clone(target) };
    let up = b"../".repeat(link.depth().saturating_sub(1));
    [&*up, if rest.is_empty() { b"." } else { rest }].concat().into()
}

/// The ceilings of parsers keep such numbers below 2^32.
fn to_u32(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}
