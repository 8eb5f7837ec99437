//! What all commands do that plan a split: resources, progress bars, notes and warnings.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;

use super::options::SplitOptions;
use super::progress::{show_bytes, show_opening};
use super::terminal::{note, warn};
use crate::image::ImageReference;
use crate::index::Index;
use crate::metrics::{Counters, Progress};
use crate::mount;
use crate::opened::NamedPath;
use crate::remote::is_url;
use crate::resources::Resources;
use crate::session::{Prepared, Session, SessionInputs, SplitChoices, Stages};
use crate::threads;

/// The file or directory that an input is in: for an image, its layout.
pub(super) fn place_of(input: &Path) -> PathBuf {
    ImageReference::parse(input).map_or_else(|| input.to_owned(), |image| image.layout)
}

/// Whether a word names something that exists: a file, a directory or an image.
pub(super) fn is_input(word: &OsStr) -> bool {
    answers(&place_of(Path::new(word)), Path::exists)
}

/// The answer of a question that is asked while the command line is read. It is "yes" of a path that leads into a mount whose
/// daemon is stopped, and would never answer: the command is refused for that when all of its line is read.
pub(super) fn answers(path: &Path, question: impl Fn(&Path) -> bool) -> bool {
    mount::check_running([path]).is_err() || question(path)
}

/// An input by its absolute name, which stays valid when a daemon changes its working directory. Fails if the input is not there
/// or not understood, before a daemon is started, whose errors have one exit code.
pub(super) fn absolute_input(input: &Path) -> anyhow::Result<NamedPath> {
    let absolute = |path: &Path| std::path::absolute(path).with_context(|| path.display().to_string());
    let path = match ImageReference::parse(input) {
        Some(image) => ImageReference { layout: absolute(&image.layout)?, ..image }.to_string().into(),
        None if is_url(input) => input.to_owned(),
        None => absolute(input)?,
    };
    // An error has the name that the user gave.
    let found = NamedPath::of(&path).or_else(|_| NamedPath::of(input))?;
    found.named.check_local(input)?;
    found.named.check_input(input)?;
    Ok(found)
}

/// The resources, with the user's limits on threads and memory. Of a wheel on a server nothing is kept on disk, nor
/// of one that goes to a server.
pub(super) fn resources(input: &Path, options: &SplitOptions) -> anyhow::Result<Arc<Resources>> {
    let memory = options.resources.memory.limit()?;
    threads::start_pool(options.resources.threads.jobs)?;
    options.note_ignored();
    if is_url(input) || options.without_disk {
        return Ok(Resources::with_policy(memory, options.policy));
    }
    let cache = options.resources.cache.safe_directory();
    let index = cache.as_ref().map_or_else(Index::default, |directory| Index::open(directory, input));
    Ok(Resources::with_store(memory, index, options.resources.frame_store(cache.as_deref(), input), options.policy))
}

/// Progress bars for the stages of planning.
pub(super) struct Bars;

impl Stages for Bars {
    fn stage<T: Send>(&self, title: &'static str, work: impl FnOnce(&Progress) -> T + Send) -> T {
        show_bytes(title, work)
    }

    fn opening<T: Send>(&self, inputs: &[PathBuf], resources: &Resources, work: impl FnOnce() -> T + Send) -> T {
        show_opening(inputs, resources, work)
    }
}

/// What the commands need that open inputs.
pub(super) struct CommandSession {
    pub(super) choices: SplitChoices,
    pub(super) resources: Arc<Resources>,
    /// Whether nothing is said of the inputs, because an earlier session of the command has said it.
    pub(super) is_quiet: bool,
}

impl CommandSession {
    /// The choices, and resources whose index is that of the first input.
    pub(super) fn new(inputs: &[NamedPath], options: &SplitOptions) -> anyhow::Result<Self> {
        let first = inputs.first().map_or(Path::new(""), |input| &input.path);
        let resources = resources(&place_of(first), options)?;
        Ok(Self { choices: options.choices()?, resources, is_quiet: false })
    }

    /// For a command that writes all archives to this directory. It exists, unless the command is not confined.
    pub(super) fn with_output(self, directory: Option<&Path>) -> Self {
        if let Some(directory) = directory.filter(|directory| directory.is_dir()) {
            self.resources.store.spool_to(directory);
        }
        self
    }

    pub(super) fn session(&self) -> Session<'_, Bars> {
        let say = if self.is_quiet { |_: &[String], _: &[String]| () } else { say };
        Session { choices: &self.choices, resources: &self.resources, stages: Bars, say }
    }
}

/// Opens and plans the inputs. Each of several may keep files open.
pub(super) fn open(inputs: &[NamedPath], options: &SplitOptions) -> anyhow::Result<SessionInputs> {
    mount::raise_open_files().map_err(|error| anyhow::anyhow!("RLIMIT_NOFILE: {error}"))?;
    CommandSession::new(inputs, options)?.session().open(inputs)
}

/// Prints notes and warnings on stderr.
fn say(notes: &[String], warnings: &[String]) {
    for text in notes {
        note(text);
    }
    for text in warnings {
        warn(text);
    }
}

/// Compares the members of a wheel with its RECORD, with a progress bar.
pub(super) fn check_claims(prepared: &Prepared) -> anyhow::Result<()> {
    Ok(show_bytes("Comparing with RECORD", |progress| prepared.check_claims(progress))?)
}

/// Saves the index. Without it the next run takes longer, but is not wrong.
pub(super) fn save_index(resources: &Resources) {
    log_work(&resources.counters);
    if let Err(error) = resources.index.save() {
        warn(&format!("the index of the input cannot be saved: {error}"));
    }
    resources.store.finish();
}

/// Logs what was done.
fn log_work(counters: &Counters) {
    tracing::debug!(
        bytes_read = counters.bytes_read.get(),
        bytes_inflated = counters.bytes_inflated.get(),
        bytes_deflated = counters.bytes_deflated.get(),
        bytes_decompressed = counters.bytes_decompressed.get(),
        bytes_compressed = counters.bytes_compressed.get(),
        bytes_hashed = counters.bytes_hashed.get(),
        "work"
    );
}
