//! `kpackfs verify`.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use strum::VariantNames;

use super::confinement::Opens;
use super::failure::{printed, unanswered};
use super::gpus::gpu;
use super::input::{RemoteOptions, forms, input_word};
use super::json;
use super::memory::MemoryOption;
use super::options::{DatabaseOptions, Ignored, TargetOptions, ThreadOptions};
use super::progress::show_bytes;
use super::table::counted;
use super::terminal::{message, note, stdout, verdict};
use crate::gpu::{GpuSet, TargetIdError};
use crate::memory::check_tables;
use crate::opened::{Named, NamedPath, recognise_all_unproved};
use crate::remote::check_remote;
use crate::resources::{Resources, WorkPolicy};
use crate::rope::to_usize;
use crate::split::Packaging;
use crate::threads;
use crate::verify::{self, FindingGroup, NothingSplit, Rule, Unsplit, VerifyOptions, VerifyReport};

/// Exit code if something is wrong with what was verified.
const FOUND: u8 = 1;
/// More findings than this are preceded by a summary.
const MAX_WITHOUT_SUMMARY: usize = 10;

/// Check a split: binaries, archives, and that every kernel is found
///
/// If there is a RECORD, as in wheels, every file in it is compared with its SHA-256 and size. METADATA shows which
/// wheels belong together. A split that was restricted by --gpu-targets and the like contains a statement of that.
/// Wheels may also be URLs (https://…), all of whose bytes are read.
///
/// Exit codes: 0 everything was checked and nothing is wrong, 1 something is wrong, 2 wrong command line, unreadable
/// input, or nothing there was split, 5 an input is not there or not understood.
#[derive(Debug, Args)]
#[command(
    after_long_help = "Examples:\n  kpackfs verify dist --against torch.whl\n  kpackfs verify index --against stage/*.whl"
)]
pub(super) struct Verify {
    #[arg(
        required_unless_present_any = ["artifacts_dir", "against"],
        value_parser = input_word(),
        help = "What was split: any form of a split, or the host part and device parts",
        long_help = concat!("What was split: ", forms!(), ", or an archive; or the host part and the device parts in any order")
    )]
    path: Vec<PathBuf>,

    /// PATH, in the spelling of `verify_artifacts`.
    #[arg(long, value_name = "PATH", conflicts_with = "path", hide = true)]
    artifacts_dir: Option<PathBuf>,

    /// Compare with the inputs that were split
    ///
    /// They are wheels, directories of wheels, an install tree, artifacts or a directory of shards. PATH comes first: after
    /// this option, it can follow one FAT only.
    #[arg(long, value_name = "FAT", num_args = 1.., value_parser = input_word())]
    against: Vec<PathBuf>,

    /// PATH is a copy of a thin view for these GPUs
    ///
    /// They are named as gfx942 or gfx1036+gfx1100. Anything but a copy of a directory in thin/ says so itself.
    #[arg(long, value_name = "GPUS", value_parser = thin_gpus)]
    thin: Option<GpuSet>,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Take findings such as record-form for notes
    ///
    /// Notes do not change the exit code. It may be given several times.
    #[arg(long, value_name = "ID", value_parser = rule_parser(), hide_possible_values = true)]
    allow: Vec<Rule>,

    /// With artifacts and --against: only this component
    ///
    /// It may be given several times.
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    component: Vec<String>,

    #[command(flatten)]
    remote: RemoteOptions,

    #[command(flatten)]
    targets: TargetOptions,

    #[command(flatten)]
    databases: DatabaseOptions,

    #[command(flatten)]
    ignored: Ignored,

    #[command(flatten)]
    memory: MemoryOption,

    #[command(flatten)]
    threads: ThreadOptions,
}

/// The GPUs of a thin view.
fn thin_gpus(text: &str) -> Result<GpuSet, String> {
    let set: GpuSet = text.to_ascii_lowercase().parse().map_err(|error: TargetIdError| error.to_string())?;
    set.targets().iter().try_for_each(|target| gpu(&target.to_string()).map(drop))?;
    Ok(set)
}

/// A parser of identifiers. The page lists them, so `--help` does not.
fn rule_parser() -> impl TypedValueParser<Value = Rule> {
    PossibleValuesParser::new(Rule::VARIANTS).try_map(|id| id.parse())
}

impl Verify {
    pub(super) fn opens(&self) -> Opens {
        Opens::everything(self.path.iter().chain(&self.against).cloned().collect()).temporary()
    }

    pub(super) fn run(&self) -> ExitCode {
        let report = match self.verify() {
            Ok(report) => report,
            Err(error) => {
                if let Some(NothingSplit(Unsplit { notes, .. })) = error.downcast_ref() {
                    for text in notes {
                        note(text);
                    }
                }
                return unanswered(&error);
            }
        };
        if let Err(error) = printed(self.print(&report)) {
            return unanswered(&error);
        }
        if report.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(FOUND) }
    }

    /// What is verified, and what it is compared with. All words after --against are its values. If PATH does not come
    /// first, only the first of them is.
    fn paths(&self) -> anyhow::Result<(Vec<PathBuf>, &[PathBuf])> {
        let paths: Vec<_> = self.path.iter().chain(&self.artifacts_dir).cloned().collect();
        match self.against.as_slice() {
            fats if !paths.is_empty() => Ok((paths, fats)),
            [fat, paths @ ..] if !paths.is_empty() => Ok((paths.to_vec(), std::slice::from_ref(fat))),
            _ => bail!(
                "what is verified is missing: name it before --against, as in `kpackfs verify PATH --against FAT…`"
            ),
        }
    }

    fn verify(&self) -> anyhow::Result<VerifyReport> {
        self.ignored.note();
        let (paths, against) = self.paths()?;
        let urls = self.remote.access(paths.iter().chain(against))?;
        let named = recognise_all_unproved(&paths)?;
        let is_artifact = |it: &NamedPath| matches!(it.named, Named::Artifacts(_));
        let packaging = if named.iter().all(is_artifact) { Packaging::Processors } else { Packaging::Bundles };
        let options = VerifyOptions {
            databases: self.databases.chosen()?,
            targets: self.targets.targets(packaging),
            thin: self.thin.clone(),
            allow: self.allow.clone(),
            components: self.component.clone(),
        };
        threads::start_pool(self.threads.jobs)?;
        let resources = Resources::with_policy(self.memory.limit()?, WorkPolicy { urls, ..WorkPolicy::default() });
        let report =
            show_bytes("Verifying", |progress| verify::verify(&named, against, &options, &resources, progress));
        check_remote(&resources)?;
        // Missing memory is the cause of another error, and has the exit code of all errors here.
        check_tables()?;
        report
    }

    fn print(&self, report: &VerifyReport) -> anyhow::Result<()> {
        let mut out = stdout();
        if self.json {
            return json::write(&mut out, report);
        }
        for note in &report.notes {
            writeln!(out, "note: {}", message(note))?;
        }
        let count = to_usize(report.counts.findings.get());
        if count > MAX_WITHOUT_SUMMARY {
            writeln!(out, "{count} findings by cause:")?;
            for FindingGroup { count, reason, first, .. } in &report.causes {
                writeln!(out, "{count:>8}  {}; the first: {}", message(reason), message(first))?;
            }
            writeln!(out)?;
        }
        for finding in &report.findings {
            writeln!(out, "{}", message(finding))?;
        }
        let more = count.saturating_sub(report.findings.len());
        if more > 0 {
            writeln!(out, "… and {}", counted(more, "more finding", "more findings"))?;
        }
        let rules: BTreeSet<_> = report.causes.iter().map(|cause| cause.rule).collect();
        for rule in rules {
            writeln!(out, "hint: {rule}: {}", rule.remedy())?;
        }
        let counts = &report.counts;
        // Only wheels and their installations have one.
        let recorded = counts.recorded_files.get();
        let recorded = if recorded > 0 { format!(", {recorded} of them compared with RECORD") } else { String::new() };
        let kinds = [
            (counts.binaries.get(), "split binary", "split binaries"),
            (counts.thin_binaries.get(), "thin binary", "thin binaries"),
            (counts.wrappers.get(), "wrapper", "wrappers"),
            (counts.archives.get(), "archive", "archives"),
            (counts.code_objects.get(), "code object", "code objects"),
        ];
        let files = counted(counts.files.get(), "file", "files");
        let findings = verdict(&counted(count, "finding", "findings"), count == 0);
        write!(out, "{findings}; {files}{recorded}")?;
        for (number, one, several) in kinds.into_iter().filter(|(number, ..)| *number > 0) {
            write!(out, ", {}", counted(number, one, several))?;
        }
        Ok(writeln!(out)?)
    }
}
