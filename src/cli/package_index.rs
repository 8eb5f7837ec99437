//! `kpackfs split --format index`.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};

use super::limits::wheels_of_release;
use super::options::SplitOptions;
use super::prepare::{CommandSession, check_claims, save_index};
use super::split_warnings::{check_symlinks, note_runtime};
use super::terminal::{note, warn};
use super::thin_wheels::warn_of_signatures;
use super::writing::{OutputTarget, WorkBefore, write_views};
use crate::export::{self, MadeFiles, Output, ReadyViews, Replace, WantedSums};
use crate::metrics::Progress;
use crate::mount;
use crate::opened::NamedPath;
use crate::report::{PartChoice, SizedPart};
use crate::resources::Resources;
use crate::rope::{Content, ReadError, Sha256, SizeBounds};
use crate::session::{Release, ReleasedWheel};
use crate::simple::WheelSums;
use crate::source::{Attributes, EntryPath};
use crate::split::{FileDigest, FileSum, join};
use crate::tree::Tree;
use crate::view::{self, ListedWheel, SIMPLE};
use crate::wheelparts::{WheelPart, WheelSet};

impl OutputTarget<'_> {
    /// Writes an index of all wheels of the inputs, which need not belong together. Returns its place, and the wheels.
    pub(super) fn write_index(
        &self,
        named: &[NamedPath],
        options: &SplitOptions,
    ) -> anyhow::Result<(Vec<PathBuf>, Release)> {
        let (release, mut wheels, root) = self.open_release(named, options)?;
        let (place, replace) = (self.directory.join(SIMPLE), Replace::all(self.force));
        let places = std::slice::from_ref(&place);
        let mut output =
            Output::prepare(self.directory, places, &[], &replace, self.inputs, &release.resources.store, warn)?;
        let views = output.views(&[(EntryPath::root().child(SIMPLE.as_bytes()), place.clone())]);
        let [(_, staged)] = views.as_slice() else { bail!("{SIMPLE}: not written") };
        let sums = IndexSums::wanted(&wheels);
        output.add_made(self.write_wheels(&release, &wheels, root, &views, sums.of_files(&wheels, staged))?);
        sums.put(&mut wheels, &release.resources)?;
        let mut pages = Tree::new(root);
        view::show_pages(&mut pages, SIMPLE, root, &wheels)?;
        let (sums, reflink) = (WantedSums::new(), self.writing.reflink);
        output.add_made(export::write_summing(&pages, &views, reflink, sums, &Progress::default())?);
        output.publish(self.writing.durability())?;
        save_index(&release.resources);
        Ok((vec![place], release))
    }

    /// The wheels that an index gets, the inputs that they are of, and the attributes of its directories. Fails if a wheel cannot
    /// be made, or is certainly too large.
    pub(super) fn open_release(
        &self,
        named: &[NamedPath],
        options: &SplitOptions,
    ) -> anyhow::Result<(Release, Vec<ListedWheel>, Attributes)> {
        mount::raise_open_files().context("RLIMIT_NOFILE")?;
        let release = CommandSession::new(named, options)?.session().open_apart(named)?;
        release.wheels.iter().try_for_each(check)?;
        let wheels = release.listed()?;
        self.limits.check_bounds(|| wheels_of_release(&release), PartChoice::Gpus)?;
        let root = release.root().context("there are no wheels")?;
        Ok((release, wheels, root))
    }

    /// Writes the wheels and their METADATA. Returns the files that are not the input's.
    fn write_wheels(
        &self,
        release: &Release,
        wheels: &[ListedWheel],
        root: Attributes,
        views: &[(EntryPath, PathBuf)],
        sums: WantedSums,
    ) -> anyhow::Result<MadeFiles> {
        let sets: Vec<Vec<Arc<WheelPart>>> = release.wheels.iter().map(|wheel| wheel.prepared.parts()).collect();
        let bytes = sets.iter().map(|parts| WheelSet::unmade_size(parts, true)).sum();
        let mut tree = Tree::new(root);
        view::show_index(&mut tree, SIMPLE, root, wheels)?;
        let make = |progress: &_| sets.iter().try_for_each(|parts| WheelSet::make(parts, true, progress));
        let measured = |ready: &_| Ok(measured(wheels_of_release(release)?, ready));
        let check = |ready: &_| self.limits.check(|| measured(ready), PartChoice::Gpus);
        write_views(&tree, views, WorkBefore { bytes, make }, sums, self.writing, check, &release.resources)
    }
}

/// Fails if a wheel cannot be made of an input, or if its members are damaged.
fn check(wheel: &ReleasedWheel) -> anyhow::Result<()> {
    let Some(wheels) = &wheel.prepared.wheels else { return Ok(()) };
    let name = wheel.path().display();
    check_symlinks(wheel.path(), wheels)?;
    wheels.notes.iter().for_each(|text| note(&format!("{name}: {text}")));
    let existing = wheel.prepared.plan.keys_of_input();
    if wheel.prepared.plan.keys.is_empty() && !existing.is_empty() {
        let existing = join(&existing);
        warn(&format!(
            "{name}: it has nothing for the wanted GPUs, and so no device wheel; it has code for {existing}"
        ));
    }
    note_runtime(&name.to_string(), &wheel.prepared);
    warn_of_signatures(&wheel.prepared.input);
    check_claims(&wheel.prepared)
}

/// The digests of the wheels of an index, which are computed while these are written.
struct IndexSums(Vec<Arc<FileSum>>);

impl IndexSums {
    fn wanted(wheels: &[ListedWheel]) -> Self {
        Self(wheels.iter().map(|_| Arc::new(FileSum::new(FileDigest::Sha256))).collect())
    }

    /// Where each goes, by the path of the wheel in the index at `directory`.
    fn of_files(&self, wheels: &[ListedWheel], directory: &Path) -> WantedSums {
        let path = |wheel: &ListedWheel| directory.join(wheel.indexed.path().as_path());
        wheels.iter().map(path).zip(self.0.iter().cloned()).collect()
    }

    /// Sets size and digest of each wheel.
    fn put(&self, wheels: &mut [ListedWheel], resources: &Resources) -> anyhow::Result<()> {
        for (wheel, sum) in wheels.iter_mut().zip(&self.0) {
            let content = wheel.body.content()?;
            let Some(&sha256) = sum.of(&*content)?.first_chunk() else { bail!("{}: no SHA-256", wheel.file_name()) };
            resources.counters.bytes_hashed.add(content.size());
            wheel.put_sums(WheelSums { size: content.size(), sha256 }, &resources.index);
        }
        Ok(())
    }
}

/// Size and digest of a wheel.
pub(super) fn sums_of(wheel: &dyn Content, resources: &Resources) -> Result<WheelSums, ReadError> {
    let sha256 = Sha256::of_content(wheel)?;
    resources.counters.bytes_hashed.add(wheel.size());
    Ok(WheelSums { size: wheel.size(), sha256 })
}

/// The wheels with their sizes.
fn measured(wheels: Vec<SizedPart>, ready: &ReadyViews) -> Vec<SizedPart> {
    let sizes: HashMap<_, _> = ready.sizes().filter_map(|(path, size)| Some((path.file_name()?, size))).collect();
    let size = |part: &SizedPart| sizes.get(OsStr::new(&part.name)).copied().map_or(part.size, SizeBounds::exact);
    wheels.into_iter().map(|part| SizedPart { size: size(&part), ..part }).collect()
}
