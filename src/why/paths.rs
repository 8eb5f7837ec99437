//! What the paths on the command line are.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::error::WhyError;
use super::held::HeldCode;
use super::part;
use crate::join::wheels_in;
use crate::resources::Resources;
use crate::source::{SourceError, may_be_binary, open_file};

/// The paths, by kind.
#[derive(Default)]
pub(super) struct SortedPaths {
    /// Libraries, and directories with libraries.
    pub(super) files: Vec<PathBuf>,
    /// Wheels.
    pub(super) wheels: Vec<PathBuf>,
    /// Outputs or mounts of splits, with the parts side by side.
    pub(super) splits: Vec<PathBuf>,
    /// Archives, bundles and code objects.
    pub(super) loose: Vec<(PathBuf, HeldCode)>,
    /// Other files, such as tar archives.
    pub(super) packed: Vec<PathBuf>,
    /// Why some cannot be read.
    pub(super) unread: Vec<WhyError>,
}

impl SortedPaths {
    pub(super) fn sort(paths: &[PathBuf], resources: &Arc<Resources>) -> Self {
        let mut sorted = Self::default();
        for path in paths {
            if let Err(error) = sorted.add(path, resources) {
                sorted.unread.push(error);
            }
        }
        sorted
    }

    fn add(&mut self, path: &Path, resources: &Arc<Resources>) -> Result<(), WhyError> {
        let io = |source| SourceError::Io { path: path.to_owned(), source };
        let owned = path.to_owned();
        if path.metadata().map_err(io)?.is_dir() {
            let wheels = wheels_in(path)?;
            match part::is_split(path) {
                true => self.splits.push(owned),
                false if wheels.is_empty() => self.files.push(owned),
                false => self.wheels.extend(wheels),
            }
            return Ok(());
        }
        if path.extension().is_some_and(|extension| extension == "whl") {
            self.wheels.push(owned);
            return Ok(());
        }
        let content = open_file(path, resources)?;
        match HeldCode::of_loose(path, &content, resources)? {
            Some(code) => self.loose.push((owned, code)),
            None if may_be_binary(&*content) => self.files.push(owned),
            None => self.packed.push(owned),
        }
        Ok(())
    }
}
