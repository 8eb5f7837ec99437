//! The files in memory.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;

/// The number of the root directory.
pub(super) const ROOT: u64 = 1;

/// Bytes of a file whose reads take long.
const SLEEPING_SIZE: u16 = 4096;

/// All files and directories, by their numbers, which begin at [`ROOT`].
pub(super) struct Files {
    nodes: Vec<Node>,
}

/// A file or directory.
pub(super) struct Node {
    pub(super) number: u64,
    pub(super) parent: u64,
    pub(super) name: OsString,
    /// In seconds since 1970.
    pub(super) mtime: u64,
    /// Permissions.
    pub(super) mode: u32,
    pub(super) body: Body,
}

pub(super) enum Body {
    File(Vec<u8>),
    /// The numbers of what is in it, sorted by name.
    Directory(Vec<u64>),
    /// A file of zeros whose reads take this long.
    Sleeping(Duration),
}

impl Files {
    /// Reads a file or a directory, and adds files whose reads take long.
    pub(super) fn read(source: &Path, sleeping: usize, time: Duration) -> anyhow::Result<Self> {
        let root = Node {
            number: ROOT,
            parent: ROOT,
            name: OsString::new(),
            mtime: 0,
            mode: 0o555,
            body: Body::Directory(Vec::new()),
        };
        let mut files = Self { nodes: vec![root] };
        if source.is_dir() {
            files.add_directory(source, ROOT)?;
        } else {
            files.add_entry(source, ROOT)?;
        }
        for number in 0..sleeping {
            files.add(ROOT, format!("sleep-{number}").into(), 0, 0o444, Body::Sleeping(time));
        }
        files.sort();
        Ok(files)
    }

    fn add_directory(&mut self, directory: &Path, number: u64) -> anyhow::Result<()> {
        for entry in fs::read_dir(directory).with_context(|| directory.display().to_string())? {
            self.add_entry(&entry?.path(), number)?;
        }
        Ok(())
    }

    fn add_entry(&mut self, path: &Path, parent: u64) -> anyhow::Result<()> {
        let name = || path.display().to_string();
        let metadata = fs::symlink_metadata(path).with_context(name)?;
        let file_name = path.file_name().context("a file without a name")?.to_owned();
        let (mtime, mode) = (u64::try_from(metadata.mtime()).unwrap_or(0), metadata.mode() & 0o7777);
        if metadata.is_dir() {
            let number = self.add(parent, file_name, mtime, mode, Body::Directory(Vec::new()));
            self.add_directory(path, number)?;
        } else if metadata.is_file() {
            self.add(parent, file_name, mtime, mode, Body::File(fs::read(path).with_context(name)?));
        }
        Ok(())
    }

    fn add(&mut self, parent: u64, name: OsString, mtime: u64, mode: u32, body: Body) -> u64 {
        let number = self.nodes.len() as u64 + ROOT;
        self.nodes.push(Node { number, parent, name, mtime, mode, body });
        if let Some(Node { body: Body::Directory(children), .. }) = self.nodes.get_mut(index(parent)) {
            children.push(number);
        }
        number
    }

    fn sort(&mut self) {
        let names: Vec<_> = self.nodes.iter().map(|node| node.name.clone()).collect();
        for node in &mut self.nodes {
            if let Body::Directory(children) = &mut node.body {
                children.sort_by_key(|child| names.get(index(*child)));
            }
        }
    }

    pub(super) fn node(&self, number: u64) -> Option<&Node> {
        self.nodes.get(index(number))
    }

    pub(super) fn child(&self, parent: u64, name: &OsStr) -> Option<&Node> {
        let children = self.children(parent);
        let found =
            children.binary_search_by_key(&Some(name), |child| Some(self.node(*child)?.name.as_os_str())).ok()?;
        self.node(*children.get(found)?)
    }

    fn children(&self, directory: u64) -> &[u64] {
        match self.node(directory) {
            Some(Node { body: Body::Directory(children), .. }) => children,
            _ => &[],
        }
    }

    /// The entries of a directory from `offset` on, each with the offset of the next one.
    pub(super) fn list(&self, directory: u64, offset: u64) -> impl Iterator<Item = (u64, &OsStr, &Node)> {
        let parent = self.node(directory).map_or(ROOT, |node| node.parent);
        let dots = [(OsStr::new("."), directory), (OsStr::new(".."), parent)];
        let children =
            self.children(directory).iter().filter_map(|&child| Some((self.node(child)?.name.as_os_str(), child)));
        let all = dots.into_iter().chain(children).enumerate().skip(usize::try_from(offset).unwrap_or(usize::MAX));
        all.filter_map(|(at, (name, number))| Some((at as u64 + 1, name, self.node(number)?)))
    }
}

impl Node {
    pub(super) fn size(&self) -> u64 {
        match &self.body {
            Body::File(bytes) => bytes.len() as u64,
            Body::Directory(_) => 0,
            Body::Sleeping(_) => SLEEPING_SIZE.into(),
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        matches!(self.body, Body::Directory(_))
    }

    /// Up to `size` bytes from `offset` on.
    pub(super) fn read(&self, offset: u64, size: u32) -> &[u8] {
        static ZEROS: [u8; SLEEPING_SIZE as usize] = [0; SLEEPING_SIZE as usize];
        let bytes: &[u8] = match &self.body {
            Body::File(bytes) => bytes,
            Body::Directory(_) => &[],
            Body::Sleeping(_) => &ZEROS,
        };
        let position = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        bytes.get(position(offset)..position(offset.saturating_add(size.into()))).unwrap_or_default()
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number.wrapping_sub(ROOT)).unwrap_or(usize::MAX)
}
