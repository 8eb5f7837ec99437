//! The root file system of an image: its layers laid over each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::layer::{Layer, LayerMember, LayerMemberKind};
use super::{Image, ImageError};
use crate::memory::{Parser, ParserMemory};
use crate::resources::Resources;
use crate::source::{Attributes, Entry, EntryKind, EntryPath, Input, InputKind, file_in, open_file};

/// The files that the layers so far make.
#[derive(Debug, Default)]
pub(crate) struct RootFiles {
    files: BTreeMap<EntryPath, RootFile>,
    /// Number of files with hard links.
    links: u64,
    tables: Vec<ParserMemory>,
}

/// A file of the root file system.
#[derive(Clone, Debug)]
pub(crate) struct RootFile {
    pub(crate) kind: EntryKind,
    attributes: Attributes,
}

/// The attributes of directories that no layer has.
const IMPLIED: Attributes = Attributes { mode: 0o755, uid: 0, gid: 0, mtime: 0, mtime_nanoseconds: 0 };

impl RootFiles {
    /// Lays a layer over those before it.
    pub(crate) fn apply(&mut self, layer: &Layer) -> Result<(), ImageError> {
        let table = ParserMemory::new(Parser::Tar);
        // Whiteouts are about lower layers, wherever they stand.
        for member in &layer.members {
            match member.kind {
                LayerMemberKind::Whiteout => self.remove(&member.path),
                LayerMemberKind::Opaque => self.empty(&member.path),
                _ => {}
            }
        }
        for member in &layer.members {
            let kind = match &member.kind {
                LayerMemberKind::Directory => EntryKind::Directory,
                LayerMemberKind::File => {
                    file_in(&layer.archive, &member.content).map_err(|reason| layer.bad(&member.path, reason))?
                }
                LayerMemberKind::HardLink(target) => self.linked(target).map_err(|it| layer.bad(&member.path, it))?,
                LayerMemberKind::Symlink(target) => EntryKind::Symlink(relative(&member.path, target)),
                // Inputs have none of these. They replace what was there.
                LayerMemberKind::Special => {
                    self.remove(&member.path);
                    continue;
                }
                LayerMemberKind::Whiteout | LayerMemberKind::Opaque | LayerMemberKind::Other => continue,
            };
            self.insert(member, kind, &table).map_err(|reason| layer.bad(&member.path, reason))?;
        }
        self.tables.push(table);
        Ok(())
    }

    /// Everything, as an input.
    pub(crate) fn into_input(self, image: &Image, resources: &Arc<Resources>) -> Result<Input, ImageError> {
        let manifest = image.layout.blob(image.descriptor.digest())?;
        let file = Some(open_file(&manifest, resources)?);
        let entry = |(path, file): (EntryPath, RootFile)| Entry { path, kind: file.kind, attributes: file.attributes };
        let entries = self.files.into_iter().map(entry).collect();
        let (kind, warnings) = (InputKind::Tree, Vec::new());
        Ok(Input { kind, location: manifest, root: IMPLIED, entries, warnings, file, tables: self.tables })
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

    /// The file to which a hard link leads: one of the same layer before it, or of a lower one.
    fn linked(&mut self, target: &EntryPath) -> Result<EntryKind, String> {
        let Some(RootFile { kind: EntryKind::File { content, link_group }, .. }) = self.files.get_mut(target) else {
            return Err(format!("a hard link to {:?}, which is no file before it", target.to_text()));
        };
        let group = *link_group.get_or_insert_with(|| {
            self.links += 1;
            self.links
        });
        Ok(EntryKind::File { content: Arc::clone(content), link_group: Some(group) })
    }

    fn insert(&mut self, member: &LayerMember, kind: EntryKind, table: &ParserMemory) -> Result<(), String> {
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
                    let file = RootFile { kind: EntryKind::Directory, attributes: IMPLIED };
                    self.files.insert(directory, file);
                }
            }
        }
        let stays = matches!(kind, EntryKind::Directory)
            && self.files.get(path).is_some_and(|old| matches!(old.kind, EntryKind::Directory));
        if !stays {
            self.remove(path);
        }
        table.add_entry(path.as_bytes()).map_err(|error| error.to_string())?;
        self.files.insert(path.clone(), RootFile { kind, attributes: member.attributes });
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
