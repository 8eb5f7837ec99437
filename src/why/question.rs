//! What is asked.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::gpus::VisibleGpu;
use super::sites::InstalledFiles;
use crate::gpu::TargetId;
use crate::resources::Resources;

/// The question.
#[derive(Debug)]
pub(crate) struct Question {
    /// Libraries, or directories with libraries.
    pub paths: Vec<PathBuf>,
    /// Those of each package that was named.
    pub packages: Vec<Vec<PathBuf>>,
    /// The GPUs, in the order in which a runtime sees them.
    pub gpus: Vec<TargetId>,
    /// The same GPUs, if they are those of this machine.
    pub visible: Vec<VisibleGpu>,
    /// Restricts the libraries to this file name.
    pub binary: Option<String>,
    /// Restricts the look-up to this wrapper.
    pub wrapper: Option<usize>,
    /// The environment variables of the process.
    pub variables: BTreeMap<OsString, OsString>,
    /// The HIP runtimes that the process has loaded, if there is a process.
    pub loaded: Option<Vec<PathBuf>>,
    /// Why libraries with code that the process has loaded cannot be examined.
    pub gone: Vec<String>,
    /// For reading.
    pub resources: Arc<Resources>,
    /// What is found out about installed files.
    pub installed: InstalledFiles,
}

impl Question {
    /// The positions of all GPUs.
    pub(super) fn all_gpus(&self) -> Vec<usize> {
        (0..self.gpus.len()).collect()
    }

    /// The name of a GPU with its features in their default state, modified by `HSA_XNACK`.
    pub(super) fn device_of(&self, gpu: &TargetId) -> TargetId {
        if gpu.features().len() > 0 || gpu.is_generic() {
            return gpu.clone();
        }
        let wants_xnack = self.variables.get(&OsString::from("HSA_XNACK")).is_some_and(|value| value == "1");
        gpu.default_device(wants_xnack)
    }

    /// Whether the question is about files of this name.
    pub(super) fn is_wanted(&self, path: &Path) -> bool {
        self.binary.as_ref().is_none_or(|name| path.file_name() == Some(name.as_ref()))
    }
}
