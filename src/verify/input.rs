//! The input of `verify`: which paths are parts of one split, and which are separate.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::artifacts;
use super::group::{NamedInput, check_alone, group, is_device};
use super::outer::OuterArchives;
use super::parts::{Part, Parts, PartsKind};
use super::report::{Findings, Tools};
use super::thin;
use super::views::open_views;
use crate::artifact::FoundArtifacts;
use crate::gpu::BundleKey;
use crate::image;
use crate::kpack::ArchiveReader;
use crate::loader::{DOT_KPACK, is_archive};
use crate::opened::{
    LocatedStatement, Named, NamedPath, Site, WheelDirectory, shows_nothing_of_its_own, wheel_in_tree,
};
use crate::resources::Resources;
use crate::rope::{Content, equal};
use crate::source::{EntryPath, Input, SourceError, open_file};
use crate::split::HOST;

/// Something to check.
#[derive(Debug)]
pub(super) enum VerifyInput {
    /// Directories or wheels, each with what belongs to it.
    Parts(Vec<Parts>),
    /// Components of artifacts.
    Artifacts {
        components: Vec<Parts>,
        /// Whether a directory of artifacts was named, so that all components are there.
        is_whole: bool,
    },
    /// A single binary or code object.
    Binary(SingleFile),
    /// A single archive.
    Archive(SingleFile),
}

/// A single file.
#[derive(Debug)]
pub(super) struct SingleFile {
    pub(super) path: PathBuf,
    pub(super) content: Arc<dyn Content>,
}

impl VerifyInput {
    /// The parts, if it is made of them.
    pub(super) fn parts(&self) -> &[Parts] {
        match self {
            Self::Parts(parts) | Self::Artifacts { components: parts, .. } => parts,
            Self::Binary(_) | Self::Archive(_) => &[],
        }
    }
}

/// Opens what the user named, possibly to compare it. Directories and wheels are grouped by their content; everything else is
/// separate.
pub(super) fn open(named: &[NamedPath], is_compared: bool, tools: Tools<'_>) -> anyhow::Result<Vec<VerifyInput>> {
    let Tools { resources, findings, .. } = tools;
    if let Some(components) = artifacts::open(named, tools)? {
        let is_directory = |it: &NamedPath| matches!(it.named, Named::Artifacts(FoundArtifacts::Several { .. }));
        let is_whole = named.iter().any(is_directory);
        return Ok(vec![VerifyInput::Artifacts { components, is_whole }]);
    }
    let (mut grouped, mut inputs) = (Vec::new(), Vec::new());
    for it @ NamedPath { path, named: form } in named {
        let form = if is_tree(it, named, resources)? { &Named::Tree } else { form };
        inputs.extend(packages_of_host(it, form, is_compared, resources)?);
        let file = || anyhow::Ok(SingleFile { path: path.clone(), content: open_file(path, resources)? });
        match form {
            Named::Wheels(wheels) => grouped.extend(wheels_of(wheels, named, tools)),
            Named::Split(split) => {
                inputs.push(VerifyInput::Parts(open_views(split, "", tools)?));
                if !split.sites.is_empty() {
                    inputs.push(VerifyInput::Parts(open_sites(&split.path, &split.sites, resources)?));
                }
            }
            Named::Environment(sites) => {
                note_wheels(path, findings)?;
                inputs.push(VerifyInput::Parts(open_environment(path, sites, is_compared, tools)?));
            }
            Named::Image(reference) => {
                let root = image::open_root(reference, resources)?;
                // Messages name the image, and not a file of its layout.
                let root = Input { location: path.clone(), ..root };
                let part = Part::of_input(root, String::new(), resources)?;
                let thin = image::gpus_of(reference, resources)?;
                inputs.push(VerifyInput::Parts(vec![Parts { thin, is_image: true, ..Parts::of_one(part) }]));
            }
            Named::Bundle => form.check_input(path)?,
            Named::Binary | Named::CodeObject => inputs.push(VerifyInput::Binary(file()?)),
            Named::Archive => inputs.push(VerifyInput::Archive(file()?)),
            Named::Tree | Named::Artifacts(_) if shows_nothing_of_its_own(path) => {}
            Named::Tree | Named::Artifacts(_) | Named::Wheel | Named::Remote | Named::Tar | Named::Zip => {
                note_wheels(path, findings)?;
                grouped.push(NamedInput { path: path.clone(), is_listed: false });
            }
        }
    }
    match grouped.as_slice() {
        [] => {}
        // In messages its files have no prefix.
        [NamedInput { path, is_listed: false }] => {
            let parts = Parts::open_installation(path, String::new(), resources)?;
            check_alone(&parts, findings);
            inputs.push(VerifyInput::Parts(vec![parts]));
        }
        grouped => inputs.push(VerifyInput::Parts(group(grouped, tools)?)),
    }
    Ok(inputs)
}

/// Whether something is a tree, although it looks like more: an environment that is the host part of a split and is named with
/// device parts, or a tree with its own directory called `host`. Other splitters write no statement, but device parts.
fn is_tree(it: &NamedPath, all: &[NamedPath], resources: &Arc<Resources>) -> anyhow::Result<bool> {
    let has_name = |path: &Path, is_it: fn(&str) -> bool| {
        path.canonicalize().is_ok_and(|real| real.file_name().and_then(OsStr::to_str).is_some_and(is_it))
    };
    match &it.named {
        Named::Environment(_) => {
            let is_host = has_name(&it.path, |name| name == HOST);
            let has_devices = || all.iter().any(|other| has_name(&other.path, BundleKey::is_name));
            Ok(is_host && has_devices() && LocatedStatement::of_part(&it.path)?.is_some())
        }
        Named::Split(split) if split.has_host && !split.is_proved => {
            let is_part = |name: &String| {
                if BundleKey::is_name(name) || name == DOT_KPACK {
                    return Ok(name != DOT_KPACK);
                }
                // A directory of a tree may have nothing but databases.
                let part = Part::open(&split.path.join(name), String::new(), resources)?;
                Ok(is_device(&part) && part.files().any(|(path, content)| is_archive(path, content)))
            };
            Ok(!split.devices.iter().map(is_part).collect::<anyhow::Result<Vec<_>>>()?.contains(&true))
        }
        _ => Ok(false),
    }
}

/// The directories of packages of an environment that is checked as a host part (`form` is that of a tree). Their RECORDs show which
/// files changed; the rest is checked with the device parts. A comparison shows more than RECORDs.
fn packages_of_host(
    NamedPath { path, named }: &NamedPath,
    form: &Named,
    is_compared: bool,
    resources: &Arc<Resources>,
) -> anyhow::Result<Option<VerifyInput>> {
    let (Named::Environment(sites), Named::Tree, false) = (named, form, is_compared) else { return Ok(None) };
    let statement = LocatedStatement::of_part(path)?;
    let of_host = |site: Parts| Parts { kind: PartsKind::Fragment, statement: statement.clone(), ..site };
    let sites = open_sites(path, sites, resources)?;
    Ok(Some(VerifyInput::Parts(sites.into_iter().map(of_host).collect())))
}

/// What an environment has outside of its directories of packages, and each of these. A view of one has the code of its packages
/// outside of them, so it is compared as a whole.
fn open_environment(prefix: &Path, sites: &[Site], is_compared: bool, tools: Tools<'_>) -> anyhow::Result<Vec<Parts>> {
    let (statement, thin) = (LocatedStatement::of_part(prefix)?, thin::of_view(prefix));
    if is_compared && (statement.is_some() || thin.is_some()) {
        let part = Part::open(prefix, String::new(), tools.resources)?;
        let environment = prefix.canonicalize().ok();
        return Ok(vec![Parts { environment, statement, ..Parts::of_one(part) }]);
    }
    let rest = Parts::open_rest(prefix, sites, tools)?;
    let thin = thin.or_else(|| rest.as_ref().and_then(thin::of_place));
    let mut sites = open_sites(prefix, sites, tools.resources)?;
    give_archives(rest.as_ref(), prefix, &mut sites);
    // What `.pth` files add from elsewhere is in no view.
    let is_inside = |site: &Parts| {
        let real = site.location().canonicalize().ok().zip(site.environment.as_ref());
        real.is_some_and(|(real, environment)| real.starts_with(environment))
    };
    for site in sites.iter_mut().filter(|site| is_inside(site)) {
        site.statement = site.statement.take().or_else(|| statement.clone());
        site.thin.clone_from(&thin);
    }
    Ok(rest.into_iter().chain(sites).collect())
}

/// The directories of packages of the environment with this prefix.
fn open_sites(prefix: &Path, sites: &[Site], resources: &Arc<Resources>) -> anyhow::Result<Vec<Parts>> {
    let open = |Site { path, label, .. }: &Site| {
        Ok(Parts::open_installation(path, label.clone(), resources)?.of_environment(prefix))
    };
    sites.iter().map(open).collect()
}

/// Gives each directory of packages the archives of the `rest` of its environment, or of the directory that adds it. Those that
/// cannot be read are reported with that.
fn give_archives(rest: Option<&Parts>, prefix: &Path, sites: &mut [Parts]) {
    let Ok(prefix) = prefix.canonicalize() else { return };
    let is_prefix = |site: &&Parts| site.location().canonicalize().is_ok_and(|real| real == prefix);
    let Some(around) = rest.or_else(|| sites.iter().find(is_prefix)) else { return };
    let files = around.files().filter(|file| is_archive(file.path, file.content));
    let opened = files.filter_map(|it| Some((it.path.clone(), ArchiveReader::open(Arc::clone(it.content)).ok()?)));
    let archives = Arc::new(opened.collect::<Vec<_>>());
    for site in sites {
        let real = site.location().canonicalize().ok();
        let below = real.as_ref().and_then(|real| real.strip_prefix(&prefix).ok());
        let path = below.and_then(|below| EntryPath::new(below.as_os_str().as_bytes()).ok());
        site.outer = path.map(|site| OuterArchives { site, archives: Arc::clone(&archives) });
    }
}

/// The wheels of a directory. Those of an index that are equal to others of the same name are left out: a mount shows the
/// same ones in its directory of wheels, which may be named as well.
fn wheels_of(wheels: &WheelDirectory, named: &[NamedPath], tools: Tools<'_>) -> Vec<NamedInput> {
    wheels.notes.iter().chain(&wheels.warnings).for_each(|note| tools.findings.note(note.clone()));
    let others = named.iter().filter_map(|it| match &it.named {
        Named::Wheels(other) if wheels.is_index && !other.is_index => Some(&other.wheels),
        _ => None,
    });
    let mut known: Vec<_> = others.flatten().collect();
    // What cannot be read is checked, and gives an error.
    let are_equal = |one: &Path, other: &Path| {
        let (Ok(one), Ok(other)) = (open_file(one, tools.resources), open_file(other, tools.resources)) else {
            return false;
        };
        equal(&*one, &*other).unwrap_or(false)
    };
    let mut kept = Vec::new();
    for wheel in wheels.wheels.iter().chain(&wheels.copies) {
        if !known.iter().any(|other| other.file_name() == wheel.file_name() && are_equal(wheel, other)) {
            known.push(wheel);
            kept.push(NamedInput::listed(wheel));
        }
    }
    kept
}

/// Says that wheels in an installation or a tree are no part of it.
fn note_wheels(path: &Path, findings: &Findings) -> Result<(), SourceError> {
    if let Some(first) = wheel_in_tree(path)? {
        let first = first.display();
        findings.note(format!(
            "{first}: wheels in a tree or an installation are not checked with it; name them to check them"
        ));
    }
    Ok(())
}
