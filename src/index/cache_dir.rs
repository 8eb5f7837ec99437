//! The directory of stored indexes.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::file::{IndexFile, is_index};
use super::pending::Pending;
use super::records::{Header, RecordsError, SUFFIX, TEMPORARY, at};
use crate::disk;

/// A stored index.
#[derive(Debug)]
pub struct CacheEntry {
    /// The file.
    pub path: PathBuf,
    /// The input that it describes; `None` if the file is damaged or of another version.
    pub location: Option<PathBuf>,
    /// Its size in bytes.
    pub size: u64,
    /// When it was written.
    pub modified: SystemTime,
    /// Whether it can be used: its input exists and has not changed.
    pub is_usable: bool,
}

/// Regular files in a folder with our suffix and the magic of an index. All others belong to other programs.
fn files(folder: &Path, suffix: &str) -> Result<Vec<(PathBuf, Metadata)>, RecordsError> {
    let found = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found.map_err(at(folder))?,
    };
    let mut files = Vec::new();
    for entry in found {
        let path = entry.map_err(at(folder))?.path();
        if path.extension().is_none_or(|extension| extension != suffix) {
            continue;
        }
        // Another process may have removed it.
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_file() && is_index(&path) {
            files.push((path, metadata));
        }
    }
    Ok(files)
}

/// Removes temporary files of sessions that were killed while they wrote an index.
pub fn remove_orphans(folder: &Path) -> Result<(), RecordsError> {
    for (path, metadata) in files(folder, TEMPORARY)? {
        if disk::is_orphaned(&metadata) {
            fs::remove_file(&path).map_err(at(&path))?;
        }
    }
    Ok(())
}

/// The indexes in a folder, sorted by path. A missing folder has none.
pub fn list(folder: &Path) -> Result<Vec<CacheEntry>, RecordsError> {
    let mut kept = Vec::new();
    for (path, metadata) in files(folder, SUFFIX)? {
        let header = IndexFile::open(&path).ok().map(|file| file.header);
        let is_usable =
            header.as_ref().is_some_and(|header| Header::of(header.location()).is_ok_and(|now| now == *header));
        kept.push(CacheEntry {
            location: header.map(|header| header.location().to_owned()),
            size: metadata.len(),
            modified: metadata.modified().map_err(at(&path))?,
            is_usable,
            path,
        });
    }
    kept.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(kept)
}

impl CacheEntry {
    /// The prefix of the names of everything that is stored about the input.
    pub fn stem(&self) -> Option<&str> {
        self.path.file_stem()?.to_str()
    }

    /// Removes the file. Succeeds if it is gone already.
    pub fn remove(&self) -> Result<(), RecordsError> {
        Pending::discard(&self.path);
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(at(&self.path)(error)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::index::{Index, RecordKind};
    use crate::rope::Identity;

    #[test]
    fn what_is_kept_is_listed_with_its_use() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("cache");
        assert!(list(&folder).unwrap().is_empty());
        let inputs = ["a.whl", "b.whl", "c.whl"].map(|name| place.path().join(name));
        for input in &inputs {
            fs::write(input, "x").unwrap();
            let index = Index::open(&folder, input);
            index.put(RecordKind::Scan, &Identity::describe("x").finish(), &1);
            index.save().unwrap();
        }
        fs::write(folder.join("other"), "x").unwrap();
        fs::write(folder.join("damaged.index"), "KPFSIDX\nx").unwrap();
        fs::write(folder.join("of-another-program.index"), "x").unwrap();
        fs::write(folder.join("of-another-program.new"), "x").unwrap();
        for (name, age) in [("killed", 7200), ("alive", 60)] {
            let path = folder.join(name).with_extension("new");
            fs::write(&path, "KPFSIDX\n").unwrap();
            let file = fs::File::options().write(true).open(path).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        }
        fs::write(folder.join("damaged.saving"), "").unwrap();
        fs::write(&inputs[1], "changed").unwrap();
        fs::remove_file(&inputs[2]).unwrap();
        let kept = list(&folder).unwrap();
        let shown: Vec<_> = kept.iter().map(|kept| (kept.location.as_deref(), kept.is_usable)).collect();
        let expected =
            [(Some(inputs[0].as_path()), true), (Some(&inputs[1]), false), (Some(&inputs[2]), false), (None, false)];
        assert_eq!(shown, expected);
        for kept in kept {
            kept.remove().unwrap();
            kept.remove().unwrap();
        }
        remove_orphans(&folder).unwrap();
        let left = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(left, ["CACHEDIR.TAG", "alive.new", "of-another-program.index", "of-another-program.new", "other"]);
    }
}
