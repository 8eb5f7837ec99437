//! What a command says after success: what it has written, where, and what to type next. It is said on stderr, or as
//! JSON on stdout.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use clap::Args;
use serde::Serialize;

use super::json;
use super::table::{counted, size};
use super::terminal::{complain, message, print_error, stdout};
use crate::report::LookedAt;
use crate::resources::Resources;
use crate::source::Input;
use crate::split::Plan;
use crate::text::{more, quoted};

/// The most pieces that are listed for people.
const MOST: usize = 15;

static IS_QUIET: AtomicBool = AtomicBool::new(false);

/// Keeps success and progress to itself from now on.
pub(super) fn be_quiet() {
    IS_QUIET.store(true, Ordering::Relaxed);
}

/// Whether success and progress are not shown.
pub(super) fn is_quiet() -> bool {
    IS_QUIET.load(Ordering::Relaxed)
}

/// The option by which success is said to programs.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(super) struct SaidOptions {
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

impl SaidOptions {
    /// What a split does not divide, if anything is said.
    pub(super) fn not_split<'a>(
        self,
        planned: impl IntoIterator<Item = (&'a Input, &'a Plan)>,
        resources: &Arc<Resources>,
    ) -> Option<String> {
        let is_heard = self.json || !is_quiet();
        is_heard.then(|| LookedAt::rest(planned, resources)).flatten()
    }

    /// Says what was written.
    pub(super) fn say(self, written: &WrittenOutput) -> anyhow::Result<()> {
        if self.json {
            return json::write(&mut stdout(), written);
        }
        written.say();
        Ok(())
    }
}

/// What a command has written.
#[derive(Debug, Serialize)]
pub(super) struct WrittenOutput {
    output: String,
    /// Bytes of all pieces, once if several share them.
    size: u64,
    pieces: Vec<SaidPiece>,
    /// What a split does not divide, and did not look at, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_split: Option<String>,
    /// The command that comes next.
    next: Option<String>,
    /// What a piece is called, one and several.
    #[serde(skip)]
    noun: (&'static str, &'static str),
}

/// A piece of it: a file, a directory, or an image.
#[derive(Debug, Serialize)]
pub(super) struct SaidPiece {
    /// Its path in the output, or its tag.
    pub(super) name: String,
    pub(super) size: u64,
    /// The files in a directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) files: Option<usize>,
    /// That of an image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) digest: Option<String>,
}

impl WrittenOutput {
    /// What is at `places` now, which are below `output` or are it.
    pub(super) fn at<'p>(
        noun: (&'static str, &'static str),
        output: &Path,
        places: impl IntoIterator<Item = &'p PathBuf>,
    ) -> anyhow::Result<Self> {
        let mut sum = Sum::default();
        let piece = |place: &'p PathBuf| {
            let name = place.strip_prefix(output).ok().filter(|name| !name.as_os_str().is_empty());
            let before = (sum.size, sum.files);
            sum.add(place).with_context(|| place.display().to_string())?;
            let files = place.is_dir().then_some(sum.files - before.1);
            let name = name.unwrap_or(place).display().to_string();
            Ok(SaidPiece { name, size: sum.size - before.0, files, digest: None })
        };
        let pieces = places.into_iter().map(piece).collect::<anyhow::Result<_>>()?;
        Ok(Self::new(noun, output, sum.size, pieces))
    }

    /// Pieces of `size` bytes together. A noun is for one and for several of them.
    pub(super) fn new(noun: (&'static str, &'static str), output: &Path, size: u64, pieces: Vec<SaidPiece>) -> Self {
        Self { output: output.display().to_string(), size, pieces, not_split: None, next: None, noun }
    }

    /// Adds the command that comes next: how it begins, and its arguments.
    pub(super) fn next(mut self, begin: &str, words: impl IntoIterator<Item: AsRef<OsStr>>) -> Self {
        self.next = Some(command(begin, words));
        self
    }

    /// Adds what a split does not divide.
    pub(super) fn without(mut self, not_split: Option<String>) -> Self {
        self.not_split = not_split;
        self
    }

    /// Says it on stderr.
    pub(super) fn say(&self) {
        if is_quiet() {
            return;
        }
        self.lines().iter().for_each(|line| print_error(line));
    }

    fn lines(&self) -> Vec<String> {
        let what = match &*self.pieces {
            [only] if only.name == self.output => self.output.clone(),
            pieces => format!("{} to {}", counted(pieces.len(), self.noun.0, self.noun.1), self.output),
        };
        let mut lines = vec![format!("kpackfs: wrote {}, {}", message(&what), size(self.size))];
        let is_listed = |piece: &&SaidPiece| piece.name != self.output;
        for piece in self.pieces.iter().filter(is_listed).take(MOST) {
            let files = piece.files.map(|files| format!(", {}", counted(files, "file", "files")));
            let digest = piece.digest.as_ref().map(|digest| format!(", {digest}"));
            let detail = files.or(digest).unwrap_or_default();
            lines.push(format!("  {:>10}  {}{detail}", size(piece.size), message(&piece.name)));
        }
        lines.extend(Some(more(self.pieces.len().saturating_sub(MOST), "  …")).filter(|line| !line.is_empty()));
        lines.extend(self.not_split.iter().map(|rest| format!("note: {}", message(rest))));
        lines.extend(self.next.iter().map(|next| format!("next: {next}")));
        lines
    }
}

/// Says in a line what was done.
pub(super) fn say(text: &str) {
    if !is_quiet() {
        complain(&text);
    }
}

/// Says where something is mounted, and how that ends.
pub(super) fn say_mounted(place: &Path) {
    say(&format!("mounted on {}; {} ends it", place.display(), command("kpackfs umount", [place])));
    if !is_quiet() {
        print_error(&format!("next: {}", command("ls", [place])));
    }
}

/// The sizes of files, of which one with several names counts once.
#[derive(Default)]
struct Sum {
    size: u64,
    files: usize,
    linked: HashSet<(u64, u64)>,
}

impl Sum {
    fn add(&mut self, place: &Path) -> io::Result<()> {
        let found = place.symlink_metadata()?;
        if found.is_dir() {
            return fs::read_dir(place)?.try_for_each(|entry| self.add(&entry?.path()));
        }
        self.files += 1;
        if self.is_first(&found) {
            self.size += found.len();
        }
        Ok(())
    }

    fn is_first(&mut self, file: &Metadata) -> bool {
        file.is_file() && (file.nlink() == 1 || self.linked.insert((file.dev(), file.ino())))
    }
}

/// A command to type into a shell, which begins with plain words.
fn command(begin: &str, words: impl IntoIterator<Item: AsRef<OsStr>>) -> String {
    words.into_iter().fold(begin.to_owned(), |command, word| command + " " + &quoted(word))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_with_several_names_counts_once() {
        let place = tempfile::tempdir().unwrap();
        let part = place.path().join("host part");
        fs::create_dir(&part).unwrap();
        fs::write(part.join("a"), [1; 1000]).unwrap();
        fs::hard_link(part.join("a"), part.join("b")).unwrap();
        symlink("a", part.join("c")).unwrap();
        let output = place.path().join("x");
        fs::write(&output, [1; 24]).unwrap();
        let written = WrittenOutput::at(("part", "parts"), place.path(), [&part, &output]).unwrap();
        let shown = place.path().display();
        let lines = [
            format!("kpackfs: wrote 2 parts to {shown}, 1.00 KiB"),
            "      1000 B  host part, 3 files".to_owned(),
            "        24 B  x".to_owned(),
            "next: kpackfs verify 'host part'".to_owned(),
        ];
        assert_eq!(written.next("kpackfs verify", ["host part"]).lines(), lines);
        let lines = WrittenOutput::at(("file", "files"), &output, [&output]).unwrap().lines();
        assert_eq!(lines, [format!("kpackfs: wrote {}, 24 B", output.display())]);
    }

    #[test]
    fn shells_read_words_as_they_were() {
        for (word, expected) in [("a/ä-b.whl", "a/ä-b.whl"), ("", "''"), ("a b", "'a b'"), ("it's$", r"'it'\''s$'")] {
            assert_eq!(quoted(word), expected);
        }
    }
}
