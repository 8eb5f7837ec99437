//! `kpackfs why`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::Args;

use super::confinement::{self, Opens};
use super::environment::{PythonEnvironment, is_package, libraries_of, packages_in};
use super::failure::{self, NOT_UNDERSTOOD, printed, text};
use super::gpus::gpus;
use super::input::{RemoteOptions, forms, input_word};
use super::json;
use super::lists::pieces;
use super::memory::MemoryOption;
use super::table::counted;
use super::terminal::{complain, escaped, message, note, stdout};
use super::tips::{is_library_name, of_word};
use crate::gpu::{GpuNode, KFD_TOPOLOGY, OVERRIDE, TargetId, gpu_nodes};
use crate::memory::check_tables;
use crate::near::near;
use crate::opened::{check_there, recognise_all};
use crate::remote::check_remote;
use crate::resources::{Resources, WorkPolicy};
use crate::text::some_of;
use crate::threads;
use crate::why::{
    AnswerStatus, DatabaseLookup, Explanation, FORCED, FoundCause, InstalledFiles, Lookup, Process, Question, Trail,
    VisibleGpu, WhyError, disabled, forced, is_not_understood, is_runtime, visible, warn_of_empty, warn_of_forced,
};

/// Why there is no answer.
type NoAnswer = (AnswerStatus, anyhow::Error);

/// Exit code if something cannot be read.
const UNREADABLE: u8 = 3;

/// Explain why a HIP runtime finds no kernel, and how to fix it
///
/// It follows the steps of a runtime for each library, without loading it: its device code, environment, all archives
/// in order, packages, and the runtime itself. The first line is the answer. Lines marked "model" are not observed but
/// follow from how runtimes work. PATH may also be the URL of a wheel (https://…), which is the only one then.
///
/// Exit codes: 0 found, 1 not found, 2 wrong command line, 3 something cannot be read, 4 nothing has device code or no
/// GPU is known, 5 what was named is not understood or not there.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Examples:\n  kpackfs why\n  kpackfs why torch\n  kpackfs why --python venv --target gfx942\n\nWords: docs/glossary.md"
)]
pub(super) struct Why {
    #[arg(
        value_parser = input_word(),
        help = "Libraries, a mount, a package, …; the active environment if nothing is named",
        long_help = concat!(
            "What has the code: libraries, or ", forms!(), ", an archive, a bundle, a code object, or the name of an installed \
             package. Without it, the active environment is examined: that of VIRTUAL_ENV or CONDA_PREFIX, .venv in this \
             directory or one above it, or that of python3"
        )
    )]
    path: Vec<PathBuf>,

    #[command(flatten)]
    remote: RemoteOptions,

    /// The GPUs in the order in which the runtime sees them
    ///
    /// `auto` stands for those of this machine, and follows `HSA_OVERRIDE_GFX_VERSION`.
    #[arg(long, value_name = "TARGET", default_value = "auto", value_parser = named_gpus)]
    target: Vec<NamedGpus>,

    /// Only libraries with this file name
    #[arg(long, value_name = "NAME")]
    binary: Option<String>,

    /// Only the wrapper with this number
    #[arg(long, value_name = "N")]
    wrapper: Option<usize>,

    /// The packages of this Python interpreter or environment
    ///
    /// All of them, or those that are named.
    #[arg(long, value_name = "PYTHON", conflicts_with = "pid")]
    python: Option<PathBuf>,

    /// The libraries and the environment of this process
    #[arg(long, value_name = "PID", conflicts_with = "path")]
    pid: Option<u32>,

    /// Print the evidence for all libraries, not only for the first without code
    #[arg(long)]
    all: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    memory: MemoryOption,

    /// Directory of the kernel's description of GPUs
    #[arg(long, value_name = "DIR", default_value = KFD_TOPOLOGY, hide = true)]
    topology: PathBuf,
}

/// The GPUs in one value of the option; `None` for those of this machine.
#[derive(Clone, Debug)]
struct NamedGpus(Option<Vec<TargetId>>);

fn named_gpus(list: &str) -> Result<NamedGpus, String> {
    match pieces(list).as_slice() {
        ["auto"] => Ok(NamedGpus(None)),
        names if names.contains(&"auto") => Err("auto stands alone".to_owned()),
        _ => gpus(list).map(|list| NamedGpus(Some(list))),
    }
}

fn no_answer(error: anyhow::Error) -> NoAnswer {
    let status = match error.downcast_ref() {
        Some(WhyError::Nothing(_)) => AnswerStatus::Nothing,
        _ if is_not_understood(&error) => AnswerStatus::Unknown,
        _ => AnswerStatus::Unreadable,
    };
    (status, error)
}

impl Why {
    pub(super) fn run(&self) -> ExitCode {
        let answer = self.answer().unwrap_or_else(|(status, error)| Explanation::failed(status, text(&error)));
        let mut out = stdout();
        let result = if self.json {
            json::write(&mut out, &answer)
        } else if answer.lookups.is_empty() && answer.databases.is_empty() && answer.causes.is_empty() {
            complain(&answer.sentence);
            // The sentence has the first one.
            answer.unread.iter().skip(1).for_each(complain);
            Ok(())
        } else {
            self.print(&answer, &mut out)
        };
        if let Err(error) = printed(result) {
            failure::print(&error);
            return ExitCode::from(UNREADABLE);
        }
        ExitCode::from(match answer.status {
            AnswerStatus::Found => 0,
            AnswerStatus::NoCode => 1,
            AnswerStatus::Unreadable => UNREADABLE,
            AnswerStatus::Nothing => 4,
            AnswerStatus::Unknown => NOT_UNDERSTOOD,
        })
    }

    fn answer(&self) -> Result<Explanation, NoAnswer> {
        let (unreadable, nothing) = (|error| (AnswerStatus::Unreadable, error), |error| (AnswerStatus::Nothing, error));
        let mut variables: BTreeMap<_, _> = std::env::vars_os().collect();
        // An interpreter cannot run confined.
        let sites = self.sites(&variables).map_err(|error| match error.downcast_ref::<io::Error>() {
            Some(io) if io.kind() == io::ErrorKind::NotFound => (AnswerStatus::Unknown, error),
            _ => unreadable(error),
        })?;
        let urls = self.remote.access(&self.path).map_err(|error| (AnswerStatus::Unknown, error))?;
        let opens = || Opens::everything(self.path.clone()).also(&self.topology).temporary();
        let opens = self.pid.map_or_else(opens, |_| Opens::process());
        confinement::confine(&opens);
        let (mut paths, packages) = if self.path.is_empty() { (sites, Vec::new()) } else { self.named(&sites)? };
        let libraries = paths.iter().filter(|path| is_library_name(path));
        check_there(libraries).map_err(|error| (AnswerStatus::Unknown, error))?;
        let policy = WorkPolicy { urls, ..WorkPolicy::default() };
        let resources = Resources::with_policy(self.memory.limit().map_err(unreadable)?, policy);
        let (mut loaded, mut gone) = (None, Vec::new());
        if let Some(pid) = self.pid {
            let process = Process::read(pid, &resources).map_err(no_answer)?;
            let is_runtime = |path: &&PathBuf| path.file_name().is_some_and(is_runtime);
            loaded = Some(process.mapped.iter().filter(is_runtime).cloned().collect());
            (variables, paths, gone) = (process.variables, process.mapped, process.gone);
        }
        let named = self.named_gpus();
        let nodes = match (&named, self.pid) {
            (None, _) => gpu_nodes(&self.topology).with_context(|| no_gpu(&variables)).map_err(|error| {
                // A GPU would not mend a wrong path.
                let wrong = recognise_all(&paths).err().filter(is_not_understood);
                wrong.map_or_else(|| nothing(error), |wrong| (AnswerStatus::Unknown, wrong))
            })?,
            (Some(_), Some(_)) => gpu_nodes(&self.topology).unwrap_or_default(),
            // The variables of this shell are about the GPUs of this machine.
            (Some(_), None) => {
                if variables.contains_key(OsStr::new(OVERRIDE)) {
                    note(&format!("{OVERRIDE} is set, and not followed: --target has what runtimes take GPUs for"));
                }
                Vec::new()
            }
        };
        if let Some(answer) = disabled(&nodes, &variables) {
            return Ok(answer);
        }
        let visible = if named.is_some() { Vec::new() } else { seen(&nodes, &variables).map_err(nothing)? };
        let gpus = named.unwrap_or_else(|| visible.iter().map(|gpu| gpu.target.clone()).collect());
        let (binary, wrapper) = (self.binary.clone(), self.wrapper);
        threads::start_pool(None).map_err(|error| unreadable(error.into()))?;
        let installed = InstalledFiles::new(&resources);
        let question =
            Question { paths, packages, gpus, visible, binary, wrapper, variables, loaded, gone, resources, installed };
        let answer = question.answer();
        check_remote(&question.resources).map_err(|error| (AnswerStatus::Unknown, error.into()))?;
        let mut answer = answer.map_err(no_answer)?;
        check_tables().map_err(|error| unreadable(error.into()))?;
        warn_of_empty(&question.variables, &nodes, &mut answer);
        if self.named_gpus().is_none() {
            warn_of_forced(&question.variables, &question.gpus, &mut answer);
        }
        Ok(answer)
    }

    /// The directories of packages, or of the whole environment if all of it is examined.
    fn sites(&self, variables: &BTreeMap<OsString, OsString>) -> anyhow::Result<Vec<PathBuf>> {
        match &self.python {
            Some(python) => PythonEnvironment::named(python).sites(),
            None if self.pid.is_some() => Ok(Vec::new()),
            None if self.path.is_empty() => {
                let active = PythonEnvironment::active(variables);
                let (PythonEnvironment::Prefix(path) | PythonEnvironment::Interpreter(path)) = &active;
                complain(&format_args!("nothing is named, so the environment of {} is examined", path.display()));
                active.places()
            }
            // A word may be a path that is not there, on a machine without Python.
            None if self.path.iter().any(|word| is_package(word)) => {
                Ok(PythonEnvironment::active(variables).sites().unwrap_or_default())
            }
            None => Ok(Vec::new()),
        }
    }

    /// The paths that were named, with those of packages, and the latter of each package.
    fn named(&self, sites: &[PathBuf]) -> Result<(Vec<PathBuf>, Vec<Vec<PathBuf>>), NoAnswer> {
        let (mut paths, mut packages) = (Vec::new(), Vec::new());
        for word in &self.path {
            if self.python.is_none() && !is_package(word) {
                paths.push(word.clone());
                continue;
            }
            let libraries = libraries_of(word, sites).map_err(|error| (AnswerStatus::Nothing, error))?;
            packages.push(libraries.ok_or_else(|| {
                let shown = some_of(sites.iter().map(|site| site.display()));
                let shown = if shown.is_empty() { "any environment that is active" } else { &shown };
                let path = if self.python.is_some() { ":" } else { ": No such file or directory, and" };
                let tip = near(&word.to_string_lossy(), packages_in(sites)) + of_word(word);
                (AnswerStatus::Unknown, anyhow!("{}{path} no package of this name is in {shown}{tip}", word.display()))
            })?);
        }
        paths.extend(packages.concat());
        Ok((paths, packages))
    }

    /// The GPUs that the command line names; `None` for those of this machine.
    fn named_gpus(&self) -> Option<Vec<TargetId>> {
        self.target.iter().map(|named| named.0.clone()).collect::<Option<Vec<_>>>().map(|lists| lists.concat())
    }

    fn print(&self, answer: &Explanation, out: &mut impl Write) -> anyhow::Result<()> {
        // A command is whole, so that it can be run.
        let run = |command: &Option<String>| match command {
            Some(command) => format!("; run: {}", escaped(command)),
            None => String::new(),
        };
        writeln!(out, "{}{}", message(&answer.sentence), run(&answer.command))?;
        if let Some(FoundCause { targets, paths, .. }) = answer.causes.first()
            && paths.len() > 1
        {
            let others = paths.iter().skip(1).map(String::as_str).collect::<Vec<_>>().join(", ");
            writeln!(out, "also: {}", message(&format!("{others} on {}, for the same reason", targets.join(", "))))?;
        }
        for FoundCause { cause, targets, paths } in answer.causes.iter().skip(1) {
            let place = format!("{} on {}", paths.join(", "), targets.join(", "));
            writeln!(out, "also: {}{}", message(&format!("{place}: {}", cause.reason)), run(&cause.command))?;
        }
        for problem in &answer.unread {
            writeln!(out, "not read: {}", message(problem))?;
        }
        for left_out in &answer.left_out {
            writeln!(out, "note: {}", message(left_out))?;
        }
        for lookup in answer.lookups.iter().filter(|_| answer.lookups.len() > 1) {
            if let Some(gap) = lookup.gap() {
                writeln!(out, "note: {}", message(&format!("{} on {}: {gap}", lookup.library, lookup.target)))?;
            }
        }
        for FoundCause { cause, targets, paths } in answer.remarks() {
            let place = format!("{} on {}", some_of(&paths), targets.join(", "));
            writeln!(out, "note: {}{}", message(&format!("{place}: {}", cause.reason)), run(&cause.command))?;
        }
        let is_shown = |it: &&Lookup| self.all || it.cause.is_some() || answer.lookups.len() == 1;
        let shown: Vec<_> = answer.lookups.iter().filter(is_shown).collect();
        let (printed, others) = shown.split_at(if self.all { shown.len() } else { shown.len().min(1) });
        for it in printed {
            print_evidence(&it.library, &it.target, &it.evidence, out)?;
        }
        if !others.is_empty() {
            let others = counted(others.len(), "other look-up fails", "other look-ups fail");
            writeln!(out, "\n{others}; --all prints the evidence of each")?;
        }
        let is_shown = |it: &&DatabaseLookup| self.all || it.cause.is_some() || it.remark.is_some();
        for it in answer.databases.iter().filter(is_shown) {
            let place = format!("{}, its database", it.library);
            print_evidence(&place, &it.target, &it.evidence, out)?;
        }
        Ok(())
    }
}

/// Prints what was found of a library, or of its database, for a GPU.
fn print_evidence(place: &str, target: &str, evidence: &Trail, out: &mut impl Write) -> anyhow::Result<()> {
    writeln!(out, "\n{}", message(&format!("{place} on {target}:")))?;
    for evidence in evidence.iter() {
        let mark = if evidence.model { "model: " } else { "" };
        writeln!(out, "  {mark}{}", message(&evidence.text))?;
    }
    Ok(())
}

/// What was asked when no GPU was found.
fn no_gpu(variables: &BTreeMap<OsString, OsString>) -> String {
    let forced = forced(variables).map(|names| {
        format!(" asks for the GPUs that HIP sees, which does not follow {FORCED}; name them (--target {names})")
    });
    format!("--target auto{}", forced.unwrap_or_else(|| ", the default".to_owned()))
}

/// The GPUs of this machine that a runtime shows to a program.
fn seen(nodes: &[GpuNode], variables: &BTreeMap<OsString, OsString>) -> anyhow::Result<Vec<VisibleGpu>> {
    let mut gpus = visible(nodes.to_vec(), variables);
    for name in ["ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES"] {
        let Some(list) = variables.get(OsStr::new(name)).and_then(|list| list.to_str()) else { continue };
        // Runtimes stop at the first number that is not that of a GPU. UUIDs are not supported here.
        let numbers = list.split(',').map_while(|number| number.trim().parse::<usize>().ok());
        gpus = numbers.map_while(|number| gpus.get(number).cloned()).collect();
        if gpus.is_empty() {
            bail!("{name}={list}: it hides all GPUs, or names them in a way that is not understood; use --target");
        }
    }
    Ok(gpus)
}
