//! What `collect` and `mount --collect` share: options, and the planned collection.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};

use super::lists::pieces;
use super::options::SplitOptions;
use super::prepare::{Bars, CommandSession};
use super::table::counted;
use super::terminal::{complain, warn};
use crate::collect::{CollectOptions, CollectReport, Collection, MissingKind, MissingPiece, archives_for, collect};
use crate::coverage::{Coverage, CoverageInput, InputCoverage, Requirement};
use crate::gpu::{BundleKey, GpuSet, Level, TargetId};
use crate::opened::NamedPath;
use crate::session::{Prepared, Session, Share};
use crate::source::{EntryPath, Input};
use crate::tree::{Body, ROOT};
use crate::view::{self, HOST, THIN, ThinViews};

/// Options about what is collected.
#[derive(Clone, Debug, Args)]
pub(super) struct Collecting {
    /// Take in this library although nothing says that it is needed
    ///
    /// It is named by its soname, and is taken in although every system has it. It may be given several times.
    #[arg(long, value_name = "NAME", help_heading = "Collect", hide_short_help = true)]
    include: Vec<String>,

    /// Directories of the result that will be in `LD_LIBRARY_PATH`
    ///
    /// Libraries of a program without a RUNPATH relative to itself go to the first one. The default is lib.
    #[arg(long, value_name = "LIST", help_heading = "Collect", hide_short_help = true)]
    library_path: Vec<String>,

    /// Where device code is
    #[arg(long, value_enum, default_value_t = CollectForm::Auto, help_heading = "Collect", hide_short_help = true)]
    form: CollectForm,
}

/// The form of device code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CollectForm {
    /// As it is in the trees if their HIP runtime reads archives, else in the libraries
    Auto,
    /// In .kpack archives
    Archives,
    /// In the libraries, with the code of these GPUs only
    Thin,
}

/// A collection with the plan of its split.
pub(super) struct Collected {
    pub(super) prepared: Prepared,
    pub(super) report: CollectReport,
    /// The wanted GPUs for which something was collected.
    pub(super) gpus: Vec<TargetId>,
    /// Whether device code is in archives.
    pub(super) has_archives: bool,
}

impl Collecting {
    /// Collects, and plans the split of the result, possibly to write it in one piece.
    pub(super) fn collect(
        &self,
        apps: &[NamedPath],
        trees: &[NamedPath],
        options: &SplitOptions,
        is_whole: bool,
    ) -> anyhow::Result<Collected> {
        self.collect_for(&gpus(options)?, apps, trees, &CommandSession::new(trees, options)?, is_whole)
    }

    /// Collects for these GPUs, which are those of the session.
    pub(super) fn collect_for(
        &self,
        gpus: &[TargetId],
        apps: &[NamedPath],
        trees: &[NamedPath],
        opening: &CommandSession,
        is_whole: bool,
    ) -> anyhow::Result<Collected> {
        let session = opening.session();
        let library_path = self.library_path.iter().flat_map(|list| list.split([',', ':']));
        let library_path = library_path.filter(|path| !path.is_empty()).map(directory);
        let choices = CollectOptions {
            gpus: gpus.to_vec(),
            include: self.include.iter().flat_map(|list| pieces(list)).map(str::to_owned).collect(),
            library_path: library_path.collect::<anyhow::Result<_>>()?,
        };
        let named = |it: &NamedPath, listed: Vec<Input>| {
            listed.into_iter().map(|input| (it.path.clone(), input)).collect::<Vec<_>>()
        };
        let (mut of_apps, mut of_trees) = (Vec::new(), Vec::new());
        for app in apps {
            of_apps.extend(named(app, session.list(std::slice::from_ref(app))?.into_vec()));
        }
        for tree in trees {
            of_trees.extend(named(tree, session.list_all(tree)?));
        }
        let collection = collect(of_apps, of_trees, &choices)?;
        self.plan(collection, gpus, &session, is_whole)
    }

    fn plan(
        &self,
        collection: Collection,
        gpus: &[TargetId],
        session: &Session<'_, Bars>,
        is_whole: bool,
    ) -> anyhow::Result<Collected> {
        let Collection { input, mut report, split, reads_archives, unasked } = collection;
        let has_archives = match self.form {
            CollectForm::Auto => !split.is_empty() && reads_archives == Some(true),
            CollectForm::Archives => true,
            CollectForm::Thin => false,
        };
        if reads_archives == Some(false) && has_archives {
            let note =
                "the HIP runtime of the trees does not read archives; use one of ROCm 7.13 or later, or --form thin";
            report.notes.push(note.to_owned());
        }
        let mut prepared = session.plan(input, Share::Collected)?;
        let served: Vec<_> = gpus.iter().filter(|gpu| view::serves(&prepared.plan, gpu)).cloned().collect();
        let has_code = !prepared.plan.binaries.is_empty() || !prepared.plan.keys_of_input().is_empty();
        for gpu in gpus.iter().filter(|gpu| has_code && !served.contains(gpu)) {
            let (name, by) = (format!("code for {gpu}"), "--gpu-targets".to_owned());
            let reason =
                "nothing that is collected has any; name a tree that has it first, or leave this GPU out".to_owned();
            report.missing.push(MissingPiece { kind: MissingKind::Code, name, by, reason });
        }
        report.add_unasked(&unasked, gpus, &served, &prepared.resources);
        report.add_unjoined(&split, &prepared.plan, gpus);
        // What cannot be read has no code that a GPU could be served by.
        report.add_uncovered(&coverage(&prepared, if has_code { &served } else { gpus }));
        report.keep_planned(&prepared.input, &prepared.plan, &served);
        let archives = (is_whole && has_archives).then(|| archives_for(&prepared.plan, &served));
        report.state_in(&mut prepared.input, &mut prepared.plan, gpus, has_archives, archives)?;
        Ok(Collected { prepared, report, gpus: served, has_archives })
    }
}

/// Whether what was collected has code for the GPUs.
fn coverage(prepared: &Prepared, gpus: &[TargetId]) -> Coverage {
    let Prepared { input, joined, plan, resources, .. } = prepared;
    let examined = CoverageInput { within: None, locations: &[], input, joined, plan, code: &[], resources };
    let found = InputCoverage::of_plan(&examined, gpus);
    Coverage::of(&Requirement { gpus: gpus.to_vec(), patterns: Vec::new(), is_all_judged: false }, vec![found])
}

impl Collected {
    /// Takes note of the sizes that are known without more work, or by what is in `written`.
    pub(super) fn measure(&mut self, written: Option<&Path>) -> anyhow::Result<()> {
        let (view, arch, thin) = self.view();
        let (tree, _) = view::lay_out_listed(self.prepared.planned(), &arch, &thin)?;
        let files = tree.resolve(ROOT, &view).map(|root| tree.files_below(root)).unwrap_or_default();
        let known = |(path, body): (EntryPath, Body)| Some((path.to_string(), body.bounds().known()?));
        let sizes: HashMap<_, _> = files.into_iter().filter_map(known).collect();
        for file in &mut self.report.files {
            let on_disk = || Some(written?.join(&file.path).symlink_metadata().ok()?.len());
            file.size = sizes.get(&file.path).copied().or_else(on_disk);
        }
        Ok(())
    }

    /// The view of the result in the tree of its split, and what makes that view: the targets to overlay on the host part,
    /// and the sets of GPUs of thin views.
    pub(super) fn view(&self) -> (EntryPath, Vec<BundleKey>, ThinViews) {
        let root = EntryPath::root();
        let set = GpuSet::new(self.gpus.iter().cloned());
        let Some(set) = set else { return (root.child(HOST.as_bytes()), Vec::new(), ThinViews::default()) };
        if self.has_archives {
            let keys = &self.prepared.plan.keys;
            let has = |key: &BundleKey| key.packaging_chain().iter().any(|key| keys.contains(key));
            let keys = self.gpus.iter().map(BundleKey::of).filter(has).collect();
            return (root.child(HOST.as_bytes()), keys, ThinViews::default());
        }
        let view = root.child(THIN.as_bytes()).child(set.to_string().as_bytes());
        (view, Vec::new(), ThinViews { sets: vec![set], auto: None })
    }
}

/// The most missing pieces that are printed.
const MOST_MISSING: usize = 1000;

/// Prints warnings, and what is missing, on stderr.
pub(super) fn warn_of_missing(report: &CollectReport) {
    report.warnings.iter().for_each(|warning| warn(warning));
    for missing in report.missing.iter().take(MOST_MISSING) {
        complain(&format_args!("{}: missing, needed by {}: {}", missing.name, missing.by, missing.reason));
    }
    let more = report.missing.len().saturating_sub(MOST_MISSING);
    if more > 0 {
        complain(&format_args!("{} missing; --json lists all", counted(more, "more piece is", "more pieces are")));
    }
}

/// The GPUs of `--gpu-targets`.
fn gpus(options: &SplitOptions) -> anyhow::Result<Vec<TargetId>> {
    let gpus = options.targets.wanted();
    if gpus.is_empty() {
        bail!(
            "--gpu-targets: name the GPUs for which the application is, such as gfx942, or auto for those of this machine"
        );
    }
    let is_family = |gpu: &&TargetId| !gpu.is_generic() && BundleKey::of(gpu).level() != Level::Target;
    if let Some(family) = gpus.iter().find(is_family) {
        bail!("--gpu-targets {family}: it is not one GPU; name processors such as gfx1100");
    }
    Ok(gpus)
}

fn directory(path: &str) -> anyhow::Result<EntryPath> {
    match path.trim_matches('/').trim_start_matches("./") {
        "" | "." => Ok(EntryPath::root()),
        path => EntryPath::new(path.as_bytes()).with_context(|| format!("--library-path {path}")),
    }
}
