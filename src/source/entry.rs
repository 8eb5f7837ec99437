//! Entries of an input.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use super::path::EntryPath;
use crate::rope::{Content, ReadError, equal};

/// One file, directory or symlink of the input.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its path relative to the root.
    pub path: EntryPath,
    /// Its kind.
    pub kind: EntryKind,
    /// Permissions, owner and time.
    pub attributes: Attributes,
}

/// The kind of an entry.
#[derive(Clone, Debug)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A symlink, with its target.
    Symlink(Arc<[u8]>),
    /// A regular file.
    File {
        /// Its bytes.
        content: Arc<dyn Content>,
        /// Entries with the same number are hard links to one file.
        link_group: Option<u64>,
    },
}

impl Entry {
    /// The bytes of a file; `None` for a directory or a symlink.
    pub fn content(&self) -> Option<&Arc<dyn Content>> {
        self.kind.content()
    }

    /// The size of a file; 0 for others.
    pub fn size(&self) -> u64 {
        self.content().map_or(0, |content| content.size())
    }
}

impl EntryKind {
    /// The bytes of a file; `None` for a directory or a symlink.
    pub fn content(&self) -> Option<&Arc<dyn Content>> {
        if let Self::File { content, .. } = self { Some(content) } else { None }
    }

    /// Bytes of the target of a symlink; 0 for others.
    pub(crate) fn target_length(&self) -> u64 {
        if let Self::Symlink(target) = self { target.len() as u64 } else { 0 }
    }

    /// The difference between two entries for one path; `None` if they are equal.
    pub fn difference(&self, other: &Self) -> Result<Option<&'static str>, ReadError> {
        Ok(match (self, other) {
            (Self::Directory, Self::Directory) => None,
            (Self::Symlink(one), Self::Symlink(other)) => (one != other).then_some("they lead to different places"),
            (Self::File { content: one, .. }, Self::File { content: other, .. }) => {
                (!equal(&**one, &**other)?).then_some("their content differs")
            }
            _ => Some("they are of different kinds"),
        })
    }
}

/// What `stat` returns in addition to kind and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Permission bits, including set-uid, set-gid and sticky (mask 0o7777).
    pub mode: u16,
    /// User id of the owner.
    pub uid: u32,
    /// Group id of the owner.
    pub gid: u32,
    /// Seconds since 1970 of the last change of content.
    pub mtime: i64,
    /// Nanoseconds to add to `mtime`, below 10^9.
    pub mtime_nanoseconds: u32,
}

/// The permissions to read a file.
const READ: u16 = 0o444;

impl Attributes {
    /// Those of a file that this process would write, for what has no owner: a file on a server, or in another file.
    pub(super) fn of_process() -> Self {
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Self { mode: 0o644, uid, gid, mtime: 0, mtime_nanoseconds: 0 }
    }

    /// Those of a file that is made of these, so that only those who can read all of them can read it. `None` without any.
    pub fn of_all(files: impl IntoIterator<Item = Self, IntoIter: Clone>) -> Option<Self> {
        let files = files.into_iter();
        let strictest = files.clone().min_by_key(|file| file.mode & READ)?;
        Some(files.fold(Self { mode: 0o644, ..strictest }, |all, file| all.for_readers_of(&file)))
    }

    /// These attributes, but without permission to read for everybody who cannot read a file that has `other`.
    #[must_use]
    pub fn for_readers_of(self, other: &Self) -> Self {
        let (read, others) = (other.mode & READ, READ & 0o077);
        let read = match (self.uid == other.uid, self.gid == other.gid) {
            (true, true) => read,
            // Members of one group may be others, or the owner, for the other file.
            (true, false) if read & others == others => read,
            (true, false) => read & !others,
            (false, _) if read == READ => read,
            (false, _) => 0,
        };
        Self { mode: self.mode & !READ | self.mode & read, ..self }
    }

    /// Those of a directory as those of a file that everybody can read who can open files in it by name.
    #[must_use]
    pub fn of_way(self) -> Self {
        Self { mode: (self.mode & 0o111) << 2, ..self }
    }

    /// The attributes of a file of the operating system.
    pub fn of(metadata: &Metadata) -> Self {
        Self {
            mode: u16::try_from(metadata.mode() & 0o7777).unwrap_or(0),
            uid: metadata.uid(),
            gid: metadata.gid(),
            mtime: metadata.mtime(),
            mtime_nanoseconds: u32::try_from(metadata.mtime_nsec()).unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Attributes;

    /// Whether a user, with the groups that it is in, can read a file.
    fn can_read(file: &Attributes, uid: u32, groups: &[u32]) -> bool {
        let class = if file.uid == uid { 6 } else { 3 * u16::from(groups.contains(&file.gid)) };
        file.mode >> class & 4 != 0
    }

    #[test]
    fn what_is_made_of_files_is_read_by_those_who_can_read_all_of_them() {
        let of_mode = |mode: u16| (mode >> 2 & 1) << 8 | (mode >> 1 & 1) << 5 | (mode & 1) << 2;
        let kinds = (0..8).flat_map(|mode| [(1, 1), (1, 2), (2, 1), (2, 2)].map(|owner| (of_mode(mode), owner)));
        let files: Vec<_> =
            kinds.map(|(mode, (uid, gid))| Attributes { mode, uid, gid, mtime: 0, mtime_nanoseconds: 0 }).collect();
        for (one, other) in files.iter().flat_map(|one| files.iter().map(move |other| (one, other))) {
            let made = Attributes::of_all([*one, *other]).unwrap();
            for uid in 1..=3 {
                for groups in [&[][..], &[1], &[2], &[1, 2]] {
                    let all = can_read(one, uid, groups) && can_read(other, uid, groups);
                    assert!(all || !can_read(&made, uid, groups), "{one:?} {other:?} {made:?} {uid} {groups:?}");
                }
            }
        }
    }

    #[test]
    fn files_that_everybody_reads_make_one_that_everybody_reads() {
        for (mode, made) in
            [(0o755, 0o644), (0o644, 0o644), (0o444, 0o644), (0o750, 0o640), (0o4755, 0o644), (0, 0o200)]
        {
            let file = Attributes { mode, uid: 1, gid: 1, mtime: 0, mtime_nanoseconds: 0 };
            assert_eq!(Attributes::of_all([file]).unwrap().mode, made, "{mode:o}");
        }
        let [root, user] =
            [0, 1].map(|id| Attributes { mode: 0o755, uid: id, gid: id, mtime: 0, mtime_nanoseconds: 0 });
        assert_eq!(Attributes::of_all([root, user]).unwrap().mode, 0o644);
        assert_eq!(Attributes::of_all([]), None);
    }
}
