//! What is collected, and why.

use serde::{Deserialize, Serialize};

use super::origin::CollectedInput;

/// Why a file is in the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "lowercase")]
pub enum Reason {
    /// It was named as a part of the application.
    #[strum(serialize = "application")]
    App,
    /// `DT_NEEDED`, or an import of a DLL.
    Needed,
    /// The option `--include` names it.
    #[strum(serialize = "--include")]
    Included,
    /// A library loads it by name.
    #[strum(serialize = "loaded by name")]
    LoadedByName,
    /// A library opens files there.
    Data,
    /// A library finds code for a GPU in it.
    Archive,
    /// A symlink by whose name a library is loaded.
    Link,
    /// The licence of a package from which a library is.
    Licence,
}

/// A file or symlink of the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CollectedFile {
    /// Its path in the result.
    pub path: String,
    /// The application (0), or the number of the tree, from 1 on.
    pub from: usize,
    /// Its path there.
    pub source: String,
    /// Its size in bytes in the result. Archives have one when they were written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Why it is in.
    pub reason: Reason,
    /// The path in the result of the file that needs it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// How this is known: the row of the table of libraries loaded by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

/// What kind of piece is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MissingKind {
    /// A library.
    Library,
    /// A version of symbols in a library.
    Version,
    /// A directory of files that a library opens.
    Data,
    /// An archive with code for a GPU.
    Archive,
    /// Code for a GPU.
    Code,
    /// A file of a kernel database.
    Database,
    /// What a program or a library needs, which cannot be read.
    Unreadable,
}

/// A piece that is needed and in neither the application nor a tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct MissingPiece {
    /// Its kind.
    pub kind: MissingKind,
    /// Its name.
    pub name: String,
    /// The file that needs it.
    pub by: String,
    /// What was found instead, and what to do.
    pub reason: String,
}

/// A library that was left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SystemLibrary {
    /// Its name.
    pub name: String,
    /// The file that needs it.
    pub by: String,
    /// The rule.
    pub rule: String,
}

/// A library that may be loaded by name: its soname is a string in a collected file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Suggestion {
    /// Its name, for `--include`.
    pub name: String,
    /// A file that has the string.
    pub by: String,
}

/// Everything about a collection but its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CollectReport {
    /// The application.
    pub apps: Vec<CollectedInput>,
    /// The trees, in the order of search.
    pub trees: Vec<CollectedInput>,
    /// The files, sorted by path. The application's other files are not listed.
    pub files: Vec<CollectedFile>,
    /// What is needed and was not found.
    pub missing: Vec<MissingPiece>,
    /// What was looked for and is not needed by every build: rows of the table.
    pub absent: Vec<MissingPiece>,
    /// Libraries of the system.
    pub left_out: Vec<SystemLibrary>,
    /// Libraries whose sonames are strings in collected files.
    pub suggestions: Vec<Suggestion>,
    /// What the user may not want: device code that is in no file of the result.
    pub warnings: Vec<String>,
    /// Remarks for the user.
    pub notes: Vec<String>,
    /// The newest version of glibc that a collected file needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub glibc: Option<String>,
}

impl CollectReport {
    /// Replaces paths in trees by those in the result.
    pub(super) fn rename(&mut self, path: impl Fn(&str) -> Option<String>) {
        let of_pieces = self.missing.iter_mut().chain(&mut self.absent).map(|piece| &mut piece.by);
        let of_libraries = self.left_out.iter_mut().map(|library| &mut library.by);
        let of_suggestions = self.suggestions.iter_mut().map(|suggestion| &mut suggestion.by);
        for by in of_pieces.chain(of_libraries).chain(of_suggestions) {
            if let Some(path) = path(by) {
                *by = path;
            }
        }
    }

    /// The application or the tree from which a file is.
    pub fn origin(&self, file: &CollectedFile) -> Option<&CollectedInput> {
        match file.from.checked_sub(1) {
            Some(tree) => self.trees.get(tree),
            None => self.apps.first(),
        }
    }

    /// The file with this path, or the only one with this name.
    pub fn file(&self, name: &str) -> Option<&CollectedFile> {
        let name = name.trim_start_matches("./");
        let by_name = || {
            let mut found = self.files.iter().filter(|file| file.path.rsplit('/').next() == Some(name));
            found.next().filter(|_| found.next().is_none())
        };
        self.files.iter().find(|file| file.path == name).or_else(by_name)
    }

    /// Why a name is not in the result, a line for each reason.
    pub fn absence(&self, name: &str) -> Vec<String> {
        let missing = self.missing.iter().map(|piece| ("missing", piece));
        let absent = self.absent.iter().map(|piece| ("not found, and not always needed", piece));
        let pieces = missing.chain(absent).filter(|(_, piece)| piece.name == name);
        let pieces = pieces.map(|(what, it)| format!("{name}: {what}, needed by {}: {}", it.by, it.reason));
        let left_out = self.left_out.iter().filter(|library| library.name == name);
        let left_out =
            left_out.map(|it| format!("{name}: left out, needed by {}: {}; --include takes it in", it.by, it.rule));
        let suggested = self.suggestions.iter().filter(|library| library.name == name);
        let suggested = suggested.map(|it| format!("{name}: only a string in {}; --include takes it in", it.by));
        pieces.chain(left_out).chain(suggested).collect()
    }

    /// The chain of files that need a file, from the application on.
    pub fn chain(&self, file: &CollectedFile) -> Vec<CollectedFile> {
        let mut chain = vec![file.clone()];
        while let Some(by) = chain.last().and_then(|last| last.by.as_deref()) {
            let Some(next) = self.files.iter().find(|file| file.path == by) else { break };
            if chain.contains(next) {
                break;
            }
            chain.push(next.clone());
        }
        chain.reverse();
        chain
    }
}
