//! What each command opens, and when its confinement begins: before its second thread, and before a byte of an input is read.
//!
//! | command | reads | writes | from when |
//! |---|---|---|---|
//! | `inspect`, `ls`, `cat`, `split`, `diff`, `index`, `kpack` | inputs, and what is next to a file | output, cache, temporary files | start |
//! | `inspect`, `verify` and `why` of URLs | certificates, credentials, what resolves names; the list of GPUs | output | start |
//! | `split` to a bucket | the same as without a bucket; certificates, credentials, what resolves names | | start |
//! | the same with a directory that has directories or symlinks in it | everything: its symlinks, `.pth` files and blobs lead elsewhere | the same | start |
//! | `collect`, `recombine --output`, `verify` | everything: search paths, links, shards | the same | start |
//! | `why` | everything: search paths, configurations of pip and uv | temporary files | start; after an interpreter that says where packages are |
//! | `why --pid` | everything, without Landlock, which hides other processes | | start |
//! | `mount`, `recombine --mount` | everything, without Landlock, which forbids mount(2) and umount(2) | cache, log | in the daemon, before it reads an input |
//! | `umount`, `status`, `cache`, `generate` | no input, so they are not confined | | |

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use rustix::thread::CapabilitySet;

use crate::confine::{self, Calls, FileRules, WriteAccess};
use crate::disk::{create_private, parent};
use crate::remote::{is_url, remote_files};

/// Reading files of others, as root.
const READER: CapabilitySet = CapabilitySet::DAC_READ_SEARCH;

/// Writing, and replacing, files of others, as root, with their owners and modes.
const WRITER: CapabilitySet = READER
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID);

/// Mounting, passthrough, limits on open files, and the buffers of rings.
const DAEMON: CapabilitySet =
    WRITER.union(CapabilitySet::SYS_ADMIN).union(CapabilitySet::SYS_RESOURCE).union(CapabilitySet::IPC_LOCK);

static IS_OFF: AtomicBool = AtomicBool::new(false);

/// The directories that were created for the rules, which refer to existing ones only.
static CREATED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Confines nothing from now on (`--no-confinement`).
pub(super) fn turn_off() {
    IS_OFF.store(true, Ordering::Relaxed);
}

fn is_off() -> bool {
    IS_OFF.load(Ordering::Relaxed)
}

/// What a command opens.
#[derive(Debug)]
pub(super) struct Opens {
    inputs: Vec<PathBuf>,
    rules: Result<FileRules, &'static str>,
    capabilities: CapabilitySet,
}

impl Opens {
    /// These inputs, and what is next to those that are files.
    pub(super) fn inputs(inputs: Vec<PathBuf>) -> Self {
        let read = inputs.iter().map(|input| places(input)).collect::<Option<Vec<_>>>().map(|places| places.concat());
        let connects = inputs.iter().any(|input| is_url(input));
        Self { inputs, rules: Ok(FileRules { read, written: Vec::new(), connects }), capabilities: READER }
    }

    /// These inputs, and what they lead to. Those on servers lead nowhere.
    pub(super) fn everything(inputs: Vec<PathBuf>) -> Self {
        let mut remote = inputs.iter().map(|input| is_url(input));
        if !inputs.is_empty() && remote.clone().all(|it| it) {
            return Self::inputs(inputs);
        }
        let rules = FileRules { connects: remote.any(|it| it), ..FileRules::default() };
        Self { inputs, rules: Ok(rules), capabilities: READER }
    }

    /// Whether nothing is read but what is on servers, and files by which these are reached. Of that nothing is kept on disk.
    fn is_remote(&self) -> bool {
        self.connects() && self.inputs.iter().all(|input| is_url(input))
    }

    fn connects(&self) -> bool {
        self.rules.as_ref().is_ok_and(|rules| rules.connects)
    }

    /// A server that is written to, with these files by which it is reached. Nothing is written on disk.
    pub(super) fn server(mut self, files: &[PathBuf]) -> Self {
        if let Ok(rules) = &mut self.rules {
            rules.connects = true;
            rules.read.iter_mut().for_each(|read| read.extend(remote_files().into_iter().chain(files.to_vec())));
        }
        self
    }

    /// What is read in addition.
    pub(super) fn also(mut self, path: &Path) -> Self {
        if let Ok(FileRules { read: Some(read), .. }) = &mut self.rules {
            read.push(path.to_owned());
        }
        self
    }

    /// A process, and what it has mapped.
    pub(super) fn process() -> Self {
        // The second one is for /proc/PID/map_files (proc(5)).
        let capabilities = READER.union(CapabilitySet::SYS_PTRACE).union(CapabilitySet::CHECKPOINT_RESTORE);
        Self { inputs: Vec::new(), rules: Err("Landlock hides other processes"), capabilities }
    }

    fn written(mut self, path: PathBuf, how: WriteAccess) -> Self {
        if let Ok(rules) = &mut self.rules {
            rules.written.push((path, how));
        }
        self
    }

    /// A directory that is written to, or created.
    pub(super) fn directory(mut self, path: &Path) -> Self {
        self.capabilities = WRITER;
        self.created(path, |path| fs::create_dir_all(path))
    }

    fn created(self, path: &Path, create: impl Fn(&Path) -> io::Result<()>) -> Self {
        if is_off() {
            return self;
        }
        let mut above = parent(path);
        let exists = path.symlink_metadata().is_ok();
        // "." does not exist for a user who may not enter it.
        while !above.exists() && parent(above) != above {
            above = parent(above);
        }
        let real = above.canonicalize();
        let is_in = |input: &PathBuf, real: &PathBuf| input.canonicalize().is_ok_and(|input| real.starts_with(input));
        // The command refuses an output in an input, whose time must not change.
        let may_be_input = real.as_ref().map_or(true, |real| self.inputs.iter().any(|input| is_in(input, real)));
        if exists || may_be_input {
            return self.written(path.to_owned(), WriteAccess::Directory);
        }
        let missing = path.ancestors().take_while(|it| *it != above && !it.as_os_str().is_empty());
        CREATED.lock().extend(missing.map(Path::to_owned));
        // Without it, the command fails for the same reason.
        create(path).ok();
        self.written(path.to_owned(), WriteAccess::Directory).written(above.to_owned(), WriteAccess::EmptyDirectories)
    }

    /// The file of an option, if it is given. One that is there is written to; another one gets its name when it is complete.
    pub(super) fn file(mut self, path: Option<&Path>) -> Self {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else { return self };
        self.capabilities = WRITER;
        match path.canonicalize() {
            Ok(existing) => self.written(existing, WriteAccess::Files),
            Err(_) => self.written(parent(path).to_owned(), WriteAccess::Files),
        }
    }

    /// Files in the directory of an input get further names in the output.
    pub(super) fn linked(self, layout: &Path) -> Self {
        let blobs = layout.join("blobs/sha256");
        let entries = fs::read_dir(&blobs).into_iter().flatten().flatten();
        let links = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_symlink()));
        let mut stores: Vec<_> =
            links.filter_map(|link| Some(link.path().canonicalize().ok()?.parent()?.to_owned())).collect();
        stores.push(blobs);
        stores.sort();
        stores.dedup();
        stores.into_iter().fold(self, |opens, store| opens.written(store, WriteAccess::Linked))
    }

    /// A file that gets its name when it is complete, or a directory; which of both, only the inputs say.
    pub(super) fn file_or_directory(self, path: Option<&Path>) -> Self {
        match path.filter(|path| *path != Path::new("-")) {
            Some(path) if path.is_dir() => self.directory(path),
            Some(path) => self.directory(parent(path)),
            None => self,
        }
    }

    /// The cache directory.
    pub(super) fn cache(self, directory: Option<PathBuf>) -> Self {
        let directory = directory.filter(|_| !self.is_remote());
        directory.into_iter().fold(self, |opens, directory| opens.created(&directory, create_private))
    }

    /// The directories of temporary files.
    pub(super) fn temporary(self) -> Self {
        if self.is_remote() {
            return self;
        }
        let named = std::env::var_os("TMPDIR").map(PathBuf::from);
        let places = named.into_iter().chain([PathBuf::from("/var/tmp")]);
        places.fold(self, |opens, place| opens.written(place, WriteAccess::Files))
    }
}

/// What is read of an input; `None` if it may lead anywhere.
fn places(input: &Path) -> Option<Vec<PathBuf>> {
    if is_url(input) {
        return Some(remote_files());
    }
    let real = input.canonicalize().ok()?;
    if !real.is_dir() {
        return is_packed(&real).then(|| vec![parent(input).to_owned(), parent(&real).to_owned()]);
    }
    // Only a directory of wheels has nothing that leads out of it: markers of libraries do, and .pth files.
    let mut files = fs::read_dir(&real).ok()?;
    let is_file = |it: io::Result<fs::DirEntry>| {
        it.is_ok_and(|it| it.file_type().is_ok_and(|kind| kind.is_file()) && !may_lead_out(&it.path()))
    };
    files.all(is_file).then(|| vec![real])
}

/// Whether all of a file is in it. Markers of a library lead to archives elsewhere.
fn is_packed(path: &Path) -> bool {
    const SUFFIXES: [&str; 7] = ["whl", "zip", "tar", "gz", "tgz", "zst", "xz"];
    path.extension().is_some_and(|suffix| SUFFIXES.iter().any(|known| suffix == *known))
}

/// Whether a file of a directory may name places outside of it.
fn may_lead_out(path: &Path) -> bool {
    !is_packed(path)
        && !path
            .extension()
            .is_some_and(|suffix| ["asc", "html", "json", "metadata", "txt"].iter().any(|it| suffix == *it))
}

/// Removes the directories that were created for the rules and are empty.
pub(super) fn remove_empty() {
    CREATED.lock().drain(..).for_each(|directory| _ = fs::remove_dir(directory));
}

/// Confines a command from now on. Call it before this process has a second thread.
pub(super) fn confine(opens: &Opens) {
    if is_off() {
        return probe();
    }
    confine::refuse_core_dumps();
    confine::keep_capabilities(opens.capabilities);
    confine::refuse_new_privileges();
    confine::restrict_files(opens.rules.as_ref().map_err(|reason| *reason));
    confine::restrict_calls(if opens.connects() { Calls::Remote } else { Calls::Command });
    probe();
}

/// Confines a daemon that will mount, from before it has a second thread.
pub(super) fn confine_daemon() {
    if is_off() {
        return;
    }
    confine::refuse_core_dumps();
    confine::keep_capabilities(DAEMON);
}

/// Confines a daemon to these calls: before it reads an input, and further when its mount is ready.
pub(super) fn restrict_daemon(calls: Calls) {
    const HELPER: &str = "fusermount3, which unmounts at the end, has the rights of root";
    if is_off() {
        return;
    }
    confine::leave_out(confine::FILES, "as for every mount: Landlock would forbid mounting and unmounting");
    if confine::can_mount() {
        confine::refuse_new_privileges();
        confine::restrict_calls(calls);
    } else {
        confine::leave_out("new privileges", HELPER);
        confine::leave_out("system calls", HELPER);
    }
    probe();
}

/// Hook for tests: what `KPACKFS_PROBE` names is tried.
#[cfg(debug_assertions)]
fn probe() {
    if let Some(list) = std::env::var_os("KPACKFS_PROBE") {
        confine::try_files(&list.to_string_lossy());
        confine::try_actions();
    }
}

#[cfg(not(debug_assertions))]
fn probe() {}

/// Ends what began with [`confine`]: empty directories that were created for the rules are removed.
pub(super) fn end() {
    #[cfg(debug_assertions)]
    if std::env::var_os("KPACKFS_PROBE").is_some() {
        confine::try_threads();
    }
    remove_empty();
}

/// What is in force, a layer a line; for `--version --verbose`.
pub(super) fn describe() -> String {
    confine::state().iter().map(|it| line(it.layer, it.in_force, &it.detail) + "\n").collect()
}

/// A layer, for people.
pub(super) fn line(layer: &str, in_force: bool, detail: &str) -> String {
    format!("Confinement, {layer}: {}{detail}", if in_force { "" } else { "not restricted: " })
}
