//! The files of install trees that one application needs, for some GPUs, in the layout of the application.
//!
//! The result is an input like any other: planning, views and writing do not know that it was collected. What is not
//! needed is no entry of it, so that nothing of that is read.

mod assemble;
mod data;
mod gpus;
mod known;
mod loaded;
mod model;
mod objects;
mod options;
mod origin;
mod pieces;
mod place;
mod policy;
mod root;
mod select;
mod sizes;
mod statement;
mod strings;
mod unasked;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};

use crate::binary::LinkedMachine;
use crate::loader::RuntimeNames;
use crate::source::{EntryPath, Input};
use crate::text::some_of;

use assemble::{ResultAssembly, application};
use objects::{LoadedObject, RootedPath, search_lists};
use pieces::OpenedFiles;
use place::Placement;
use root::{Followed, SearchRoot};
use select::Selector;
use strings::suggestions;
use unasked::UnaskedLibrary;

pub use model::{CollectReport, CollectedFile, MissingKind, MissingPiece, Reason};
pub use options::CollectOptions;
pub use origin::CollectedInput;
pub use sizes::{CollectedCode, code_of};
pub use statement::{archives_for, collected_files, collected_gpus, form_name, is_collected, stated_gpus};

/// The stem of the HIP runtime's name.
const RUNTIME: &str = "amdhip64";

/// The most objects that need a library and are asked whether they find it.
const MAX_NEEDING: usize = 1024;

/// An application with what it needs.
#[derive(Debug)]
pub struct Collection {
    /// All files of the result, with the device code of all GPUs that the trees have.
    pub input: Input,
    /// What is in it, and why.
    pub report: CollectReport,
    /// The libraries whose code is in archives, by their paths in the result.
    pub split: BTreeSet<String>,
    /// Whether the HIP runtime reads archives; `None` if no runtime was found.
    pub reads_archives: Option<bool>,
    /// Libraries of the trees that were not collected.
    pub unasked: Vec<UnaskedLibrary>,
}

/// Collects what the applications need from the trees, which are searched in this order. Each comes with its path as the
/// user named it.
pub fn collect(
    apps: Vec<(PathBuf, Input)>,
    trees: Vec<(PathBuf, Input)>,
    options: &CollectOptions,
) -> anyhow::Result<Collection> {
    let named = apps.first().map(|(place, _)| place.clone()).context("no application is named")?;
    let identified = |inputs: &[(PathBuf, Input)]| {
        inputs.iter().map(|(place, input)| CollectedInput::of(place, input)).collect::<Result<Vec<_>, _>>()
    };
    let (of_apps, of_trees) = (identified(&apps)?, identified(&trees)?);
    let (app, host) = application(apps, &trees).context("no application is named")?;
    let trees = trees.into_iter().map(|(place, input)| SearchRoot::new(place, input));
    let roots: Vec<_> = std::iter::once(SearchRoot::new(named.clone(), app)).chain(trees).collect();
    let mut report = CollectReport { apps: of_apps, trees: of_trees, ..CollectReport::default() };
    let objects = Selector::run(&roots, options, host, &mut report);
    if objects.is_empty() && report.missing.is_empty() {
        bail!("{}: contains no program and no library, so it needs nothing", named.display());
    }
    let (drafts, split) = OpenedFiles::find(&roots, &objects, options, host, &mut report);
    let mut placement = Placement::new(&roots, &objects, options, host);
    placement.fit(drafts.iter().map(|draft| &draft.target));
    let mut input = ResultAssembly::new(&roots, &objects, &placement, &mut report).run(drafts);
    report.notes.extend(runtime_path(&objects, &placement, options));
    report.suggestions = suggestions(&roots, &objects);
    let places: HashMap<_, _> =
        objects.iter().map(|object| (object.file.path.to_string(), placement.path(&object.file).to_string())).collect();
    statement::reserve(&mut input);
    report.rename(|by| places.get(by).cloned());
    let split = split.iter().filter_map(|&number| objects.get(number));
    let split = split.map(|object| placement.path(&object.file).to_string()).collect();
    let (reads_archives, unasked) = (reads_archives(&roots, &objects), unasked::find(&roots, &objects));
    Ok(Collection { input, report, split, reads_archives, unasked })
}

/// Whether the HIP runtime reads archives: that of the result, or else of a tree.
fn reads_archives(roots: &[SearchRoot], objects: &[LoadedObject]) -> Option<bool> {
    let mut collected = objects.iter().filter(|it| known::stem(it.loaded_as.name()) == Some(RUNTIME));
    let content = collected.next().map(|object| Arc::clone(&object.content)).or_else(|| {
        let of_root = |root: &SearchRoot| {
            let mut paths = root.beginning(b"libamdhip64.so").chain(root.beginning(b"amdhip64"));
            paths.find_map(|path| match root.follow(path) {
                Followed::File(found) => Some(found.content),
                Followed::Outside(_) | Followed::Nothing => None,
            })
        };
        roots.iter().skip(1).find_map(of_root)
    })?;
    Some(RuntimeNames::of(&*content)?.reads_archives())
}

/// A remark about libraries that a loader finds with `LD_LIBRARY_PATH` only.
fn runtime_path(objects: &[LoadedObject], placement: &Placement, options: &CollectOptions) -> Option<String> {
    let directory = |object: &LoadedObject| {
        placement.path(&RootedPath::new(object.file.root, &object.loaded_as)).parent().unwrap_or_else(EntryPath::root)
    };
    let finds = |by: &LoadedObject, directory: &EntryPath| {
        search_lists(by, objects).any(|(named, list)| placement.searched(named, list).contains(directory))
    };
    let mut needing = HashMap::<&[u8], Vec<&LoadedObject>>::new();
    for by in objects {
        for name in &by.imports.needed {
            needing.entry(name).or_default().push(by);
        }
    }
    let mut lost = BTreeMap::<EntryPath, BTreeSet<String>>::new();
    // Programs on Windows look into their own directory, where all of these are.
    let is_elf = |object: &&LoadedObject| object.imports.machine != LinkedMachine::Pe;
    for object in objects.iter().filter(is_elf).filter(|object| object.reason == Reason::Needed) {
        let name = object.loaded_as.name();
        let here = directory(object);
        // A program loads what it needs itself before what its libraries need, and each name once.
        let needing = needing.get(name).into_iter().flatten();
        if needing.take(MAX_NEEDING).any(|by| finds(by, &here)) || options.library_path.contains(&here) {
            continue;
        }
        lost.entry(here).or_default().insert(String::from_utf8_lossy(name).into_owned());
    }
    let directories: Vec<_> = lost.keys().map(|path| format!("DIR/{path}").trim_end_matches('/').to_owned()).collect();
    let names: BTreeSet<_> = lost.values().flatten().collect();
    (!lost.is_empty()).then(|| {
        format!(
            "no RUNPATH leads to {}; start the program with LD_LIBRARY_PATH={}, or link it with \
             -Wl,--disable-new-dtags,-rpath,'$ORIGIN/...', which libraries inherit",
            some_of(names),
            directories.join(":")
        )
    })
}
