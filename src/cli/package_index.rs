//! `kpackfs split --format index`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::bail;
use rayon::prelude::*;

use super::options::SplitOptions;
use super::prepare::save_index;
use super::progress::show_bytes;
use super::release::{Release, ReleasedWheel, release};
use super::terminal::{message, warn};
use super::thin_wheels::warn_of_signatures;
use super::writing::Writing;
use crate::export::{self, Inputs, Output, Replace};
use crate::kpack::{ArchiveRope, unmade_size};
use crate::metrics::Progress;
use crate::resources::Resources;
use crate::rope::{Content, ReadError, Sha256};
use crate::simple::WheelSums;
use crate::source::{Attributes, EntryPath, open_file};
use crate::tree::Tree;
use crate::view::{self, ListedWheel, SIMPLE};
use crate::wheelparts::{WheelPart, WheelSet};

/// Where an index is written to.
pub(super) struct IndexOutput<'a> {
    pub(super) directory: &'a Path,
    pub(super) force: bool,
    pub(super) inputs: &'a [PathBuf],
    pub(super) writing: Writing,
}

impl IndexOutput<'_> {
    /// Writes an index of all wheels of the inputs, which need not belong together.
    pub(super) fn write(&self, options: &SplitOptions) -> anyhow::Result<()> {
        let release = release(self.inputs, options)?;
        self.write_release(&release)?;
        save_index(&release.resources);
        Ok(())
    }

    fn write_release(&self, release: &Release) -> anyhow::Result<()> {
        for wheel in &release.wheels {
            check(wheel)?;
        }
        let wheels = release.listed()?;
        let Some(root) = release.root() else { bail!("there are no wheels") };
        let (place, inputs, replace) = (self.directory.join(SIMPLE), Inputs::of(self.inputs), Replace::all(self.force));
        let places = std::slice::from_ref(&place);
        let output = Output::prepare(self.directory, places, &[], &replace, &inputs, &release.resources, warn)?;
        let views = output.views(&[(EntryPath::root().child(SIMPLE.as_bytes()), place)]);
        let [(_, staged)] = views.as_slice() else { bail!("{SIMPLE}: not written") };
        show_bytes("Writing", |progress| self.write_wheels(release, &wheels, root, &views, progress))?;
        let wheels = with_sums(wheels, staged, &release.resources)?;
        let mut pages = Tree::new(root);
        view::show_pages(&mut pages, SIMPLE, root, &wheels)?;
        export::write_with(&pages, &views, self.writing.reflink(), &Progress::default())?;
        Ok(output.publish(self.writing.durability())?)
    }

    /// Writes the wheels and their METADATA.
    fn write_wheels(
        &self,
        release: &Release,
        wheels: &[ListedWheel],
        root: Attributes,
        views: &[(EntryPath, PathBuf)],
        progress: &Progress,
    ) -> anyhow::Result<()> {
        let sets: Vec<Vec<Arc<WheelPart>>> = release.wheels.iter().map(|wheel| wheel.prepared.parts()).collect();
        let archives: Vec<&ArchiveRope> = sets.iter().flatten().flat_map(|part| part.archives()).collect();
        progress.expect(unmade_size(&archives));
        for parts in &sets {
            WheelSet::make(parts, true, &progress.done)?;
        }
        let mut tree = Tree::new(root);
        view::show_index(&mut tree, SIMPLE, root, wheels)?;
        Ok(export::write_with(&tree, views, self.writing.reflink(), progress)?)
    }
}

/// Fails if a wheel cannot be made of an input, or if its members are damaged.
fn check(wheel: &ReleasedWheel) -> anyhow::Result<()> {
    let Some(wheels) = &wheel.prepared.wheels else { return Ok(()) };
    let name = wheel.path().display();
    if wheels.has_symlinks {
        bail!(
            "{name}: wheels cannot hold its symlinks; put copies in their place, or remove those that the warnings name"
        );
    }
    for note in &wheels.notes {
        eprintln!("kpackfs: note: {}", message(&format!("{name}: {note}")));
    }
    warn_of_signatures(&wheel.prepared.input);
    wheel.prepared.check_claims()
}

/// The wheels with size and digest of what was written.
fn with_sums(
    mut wheels: Vec<ListedWheel>,
    directory: &Path,
    resources: &Arc<Resources>,
) -> anyhow::Result<Vec<ListedWheel>> {
    let sums = |wheel: &ListedWheel| -> anyhow::Result<WheelSums> {
        let file = open_file(&directory.join(wheel.indexed.path().as_path()), resources)?;
        Ok(sums_of(&*file, resources)?)
    };
    let sums = wheels.par_iter().with_max_len(1).map(sums).collect::<anyhow::Result<Vec<_>>>()?;
    for (wheel, sums) in wheels.iter_mut().zip(sums) {
        wheel.put_sums(sums, &resources.index);
    }
    Ok(wheels)
}

/// Size and digest of a wheel.
pub(super) fn sums_of(wheel: &dyn Content, resources: &Resources) -> Result<WheelSums, ReadError> {
    let sha256 = Sha256::of_content(wheel)?;
    resources.counters.bytes_hashed.add(wheel.size());
    Ok(WheelSums { size: wheel.size(), sha256 })
}
