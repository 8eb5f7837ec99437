//! The search for libraries that others load by name, or open at a place of their own.

use std::collections::BTreeMap;

use super::data::OpenedData;
use super::known::{Known, KnownPiece, Need, stem};
use super::model::{MissingKind, Reason};
use super::root::Followed;
use super::select::{FoundLibrary, Selector};
use crate::binary::{Imports, LinkedMachine};
use crate::source::EntryPath;

impl Selector<'_> {
    /// The libraries that an object loads by name.
    pub(super) fn add_known(&mut self, by: usize) {
        let Some(object) = self.objects.get(by) else { return };
        let (machine, name) = (object.imports.machine, object.loaded_as.name().to_vec());
        for row in Known::of(&name) {
            match row.what {
                KnownPiece::Library(library) => self.add_named(by, library, row, false),
                KnownPiece::Unversioned(library) => self.add_named(by, library, row, machine != LinkedMachine::Pe),
                KnownPiece::LibraryOfGpu(library) => {
                    for gpu in &self.options.gpus {
                        let library = format!("{library}_{}", gpu.processor());
                        self.add_named(by, &library, row, machine != LinkedMachine::Pe);
                    }
                }
                KnownPiece::Directory(_) | KnownPiece::Files(_) => self.add_opened(by, row),
            }
        }
    }

    /// Programs and libraries among the files that an object opens.
    fn add_opened(&mut self, by: usize, row: &'static Known) {
        let Some(object) = self.objects.get(by) else { return };
        let (Some(opened), machine) = (OpenedData::of(row), object.imports.machine) else { return };
        let Some(own) = Some(object.file.root).filter(|root| *root > 0).or(self.host) else { return };
        for (file, _) in opened.files(object, own, self.roots).unwrap_or_default() {
            match self.candidate(file.root, file.path.clone(), Some(machine), true) {
                Some(found) => drop(self.add_found(found, Reason::Data, Some(by), Some(row.source))),
                None => drop(self.miss_unreadable(by, file.root, &file.path)),
            }
        }
    }

    /// Notes a program or a library that is loaded, if what it needs cannot be read. Returns whether that is so.
    fn miss_unreadable(&mut self, by: usize, root: usize, path: &EntryPath) -> bool {
        let (Some(object), Some(searched)) = (self.objects.get(by), self.roots.get(root)) else { return false };
        let Followed::File(found) = searched.follow(path) else { return false };
        let Err(error) = Imports::read(&found.content) else { return false };
        if LinkedMachine::of(&found.content) != Some(object.imports.machine) {
            return false;
        }
        let (name, by) = (found.path.to_string(), object.file.path.to_string());
        let place = searched.place.display();
        let reason = format!("what {name} of {place} needs is not known: {error}; replace it");
        self.miss(MissingKind::Unreadable, &name, &by, reason);
        true
    }

    /// A library that an object loads by name.
    fn add_named(&mut self, by: usize, library: &str, row: &'static Known, is_unversioned: bool) {
        let Some(object) = self.objects.get(by) else { return };
        let (machine, path) = (object.imports.machine, object.file.path.to_string());
        let suffix = if machine == LinkedMachine::Pe { "dll" } else { "so" };
        let name = if suffix == "dll" { format!("{library}.dll") } else { format!("lib{library}.so") };
        let found = self.by_stem(library, machine, by, is_unversioned);
        if found.is_empty() && self.has_unreadable(library, machine, by) {
            return;
        }
        // Without its soname link a library is not found, although its file is there.
        let soname = found.first().and_then(|it| it.imports.soname.clone()).filter(|_| !is_unversioned);
        let name = soname.map_or(name, |soname| String::from_utf8_lossy(&soname).into_owned());
        let is_there = |it: &FoundLibrary| {
            it.loaded_as.name() == name.as_bytes() || !(is_unversioned || it.imports.soname.is_some())
        };
        if !found.iter().any(is_there) {
            let reason = match found.first() {
                Some(FoundLibrary { loaded_as, .. }) => format!(
                    "{loaded_as} is there, but no file or symlink has the name by which it is loaded; make that symlink ({})",
                    row.source
                ),
                None if row.need == Need::Required => {
                    format!("no tree has it; name a further tree with --from ({})", row.source)
                }
                None => format!("no tree has it ({})", row.source),
            };
            self.lack(row.need, &name, &path, reason);
        }
        for found in found {
            self.add_found(found, Reason::LoadedByName, Some(by), Some(row.source));
        }
    }

    /// Notes the libraries with this stem that cannot be read. Returns whether there is one.
    fn has_unreadable(&mut self, library: &str, machine: LinkedMachine, by: usize) -> bool {
        let begin = begin_of(library, machine);
        let paths = (0..).zip(self.roots).flat_map(|(number, root)| {
            let paths = root.beginning(begin.as_bytes()).filter(|path| stem(path.name()) == Some(library));
            paths.map(move |path| (number, path))
        });
        let paths: Vec<_> = paths.collect();
        paths.into_iter().any(|(root, path)| self.miss_unreadable(by, root, path))
    }

    /// The library with this stem, by the name that `dlopen` gets: the soname, and that without a version if libraries ask
    /// for it so. It is next to the object that loads it, or elsewhere.
    fn by_stem(&self, library: &str, machine: LinkedMachine, by: usize, is_unversioned: bool) -> Vec<FoundLibrary> {
        let begin = begin_of(library, machine);
        let Some(object) = self.objects.get(by) else { return Vec::new() };
        let (own, directory) = (object.file.root, object.loaded_as.parent());
        let mut names = BTreeMap::<(bool, usize), Vec<u8>>::new();
        for (number, root) in self.roots.iter().enumerate() {
            for path in root.beginning(begin.as_bytes()).filter(|path| stem(path.name()) == Some(library)) {
                let is_elsewhere = number != own || path.parent() != directory;
                let dots = path.name().split(|&byte| byte == b'.').count() - 1;
                // `libx.so.1` is a soname; `libx.so` is one if nothing else is there; `libx.so.1.2` is a file.
                let rank = match dots {
                    2 => 0,
                    1 => 1,
                    dots => dots,
                };
                names.entry((is_elsewhere, rank)).or_insert_with(|| path.name().to_vec());
            }
        }
        let soname = names.first_key_value().map(|(_, name)| name.clone());
        let unversioned =
            is_unversioned.then(|| begin.clone().into_bytes()).filter(|name| soname.as_ref() != Some(name));
        let names = soname.into_iter().chain(unversioned);
        names
            .filter_map(|name| self.search(by, &name).or_else(|| self.by_name(&name, Some(machine), Some(by))))
            .collect()
    }
}

/// How the file names of a library begin.
fn begin_of(library: &str, machine: LinkedMachine) -> String {
    if machine == LinkedMachine::Pe { library.to_owned() } else { format!("lib{library}.so") }
}
