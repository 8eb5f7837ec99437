//! What the user names as input of a split.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};

use super::options::note;
use super::prepare::place_of;
use crate::opened::{NamedPath, recognise_all};
use crate::remote::{RemoteProblem, is_insecure, without_secrets};
use crate::resources::UrlAccess;

/// The forms that commands take, in the same words (docs/inputs.md).
macro_rules! forms {
    () => {
        "a wheel, a directory or an index of wheels, an unpacked wheel, an environment, an install tree, a tar archive or zip file of \
         one, a binary, artifacts, the output of split, a mount, or a container image (oci:DIR[:TAG], oci-archive:FILE[:TAG])"
    };
}

pub(super) use forms;

/// The most frequent of them, for a line of `-h`.
pub(super) const SHORT_FORMS: &str = "A wheel, an install tree, a directory of wheels, … (see --help)";

/// Reads a word that names an input.
pub(super) fn input_word() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().map(without_secrets)
}

/// The name of what the user named, for titles: images and splits are opened by other paths.
pub(super) fn title_of(path: &Path) -> String {
    let real = path.canonicalize().unwrap_or_default();
    path.file_name().or(real.file_name()).unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The input.
#[derive(Clone, Debug, Args)]
pub(super) struct InputOptions {
    #[arg(
        required_unless_present_any = ["input_path", "artifact_dir", "input_dir"],
        value_parser = input_word(),
        help = SHORT_FORMS,
        long_help = concat!("The input: ", forms!(), "; several wheels, or parts of one split")
    )]
    input: Vec<PathBuf>,

    /// INPUT, in the spelling of `split_python_wheels`.
    #[arg(long = "input", id = "input_path", value_name = "INPUT", conflicts_with = "input", hide = true)]
    named: Option<PathBuf>,

    /// INPUT, in the spelling of `split_artifacts`; it must be an artifact or contain some.
    #[arg(long, alias = "batch-artifact-parent-dir", value_name = "INPUT", conflicts_with_all = ["input", "input_path"], hide = true)]
    artifact_dir: Option<PathBuf>,

    /// An earlier name of --artifact-dir, used if no other is given.
    #[arg(long, value_name = "INPUT", hide = true)]
    input_dir: Option<PathBuf>,
}

impl InputOptions {
    pub(super) fn path(&self) -> &Path {
        let named = self.named.as_deref().or(self.artifact_dir.as_deref()).or(self.input_dir.as_deref());
        // clap requires one of them.
        self.input.first().map(PathBuf::as_path).or(named).unwrap_or(Path::new(""))
    }

    /// All inputs.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        if self.input.is_empty() { vec![self.path().to_owned()] } else { self.input.clone() }
    }

    /// All inputs, recognised.
    pub(super) fn named(&self) -> anyhow::Result<Vec<NamedPath>> {
        recognise_all(&self.paths())
    }

    /// The files and directories that are not written to.
    pub(super) fn places(&self) -> Vec<PathBuf> {
        self.paths().iter().map(|path| place_of(path)).collect()
    }

    /// The directory that was named as one of artifacts. Its other name is ignored, with a note, if there is another INPUT.
    pub(super) fn artifact_directory(&self) -> Option<&Path> {
        let is_named = !self.input.is_empty() || self.named.is_some() || self.artifact_dir.is_some();
        if self.input_dir.is_some() && is_named {
            note("--input-dir");
        }
        self.artifact_dir.as_deref().or(self.input_dir.as_deref().filter(|_| !is_named))
    }
}

/// How servers are asked.
#[derive(Clone, Copy, Debug, Args)]
pub(super) struct RemoteOptions {
    /// Read URLs of http, not only of https
    ///
    /// Others on the way can read and change what http carries.
    #[arg(long, hide_short_help = true)]
    allow_http: bool,

    /// Read all of a wheel from a server that sends no ranges
    ///
    /// It is kept in memory, in half of --memory.
    #[arg(long, hide_short_help = true)]
    download: bool,
}

impl RemoteOptions {
    /// How URLs among these inputs are read. Fails if bytes would travel in the clear without being allowed to.
    pub(super) fn access<'a>(self, inputs: impl IntoIterator<Item = &'a PathBuf>) -> anyhow::Result<UrlAccess> {
        match inputs.into_iter().find(|input| !self.allow_http && is_insecure(input)) {
            Some(in_the_clear) => Err(RemoteProblem::in_the_clear().at(in_the_clear).into()),
            None => Ok(if self.download { UrlAccess::Whole } else { UrlAccess::Ranges }),
        }
    }
}
