//! Several wheels that do not belong together: each with its own plan, and the resources of all.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use once_cell::sync::OnceCell;

use super::prepared::Prepared;
use crate::opened::check_elsewhere;
use crate::resources::Resources;
use crate::simple::PackageIndex;
use crate::source::Attributes;
use crate::view::{ListedWheel, PackageIndexes, ThinWheelOfView};
use crate::wheel::WheelName;

/// Several wheels.
pub(crate) struct Release {
    pub(crate) wheels: Vec<ReleasedWheel>,
    pub(crate) resources: Arc<Resources>,
}

/// One of several wheels, or a host wheel with its device wheels.
pub(crate) struct ReleasedWheel {
    pub(crate) prepared: Prepared,
    /// What an index lists for it.
    listed: OnceCell<Vec<ListedWheel>>,
}

impl Release {
    /// The wheels of an index, without their digests. Fails if an installer could not tell two of them apart.
    pub(crate) fn listed(&self) -> anyhow::Result<Vec<ListedWheel>> {
        let mut listed = Vec::new();
        for wheel in &self.wheels {
            let found = wheel.listed();
            if found.is_err() && wheel.prepared.has_nothing_to_split() {
                check_elsewhere(&wheel.prepared.input, &wheel.prepared.resources)?;
            }
            listed.extend_from_slice(found.with_context(|| wheel.path().display().to_string())?);
        }
        PackageIndex::new(listed.iter().map(|wheel| wheel.indexed.clone()))?;
        Ok(listed)
    }

    /// What installers make of the wheels of an index.
    pub(super) fn warnings(&self) -> Vec<String> {
        let listed = self.wheels.iter().filter_map(|wheel| wheel.listed().ok()).flatten();
        // Wheels that cannot be in one index are an error of the commands that make one.
        let index = PackageIndex::new(listed.map(|wheel| wheel.indexed.clone())).ok();
        let of_wheels = self.wheels.iter().flat_map(ReleasedWheel::warnings);
        of_wheels.chain(index.iter().flat_map(PackageIndex::warnings)).collect()
    }

    /// The attributes of directories: those of the newest input.
    pub(crate) fn root(&self) -> Option<Attributes> {
        let roots = self.wheels.iter().map(|wheel| wheel.prepared.input.root);
        let newest = roots.max_by_key(|root| (root.mtime, root.mtime_nanoseconds))?;
        Some(Attributes { mode: 0o755, ..newest })
    }
}

impl ReleasedWheel {
    pub(super) fn new(prepared: Prepared) -> Self {
        Self { prepared, listed: OnceCell::new() }
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.prepared.input.location
    }

    /// The wheels that an index lists for it.
    pub(crate) fn listed(&self) -> anyhow::Result<&[ListedWheel]> {
        let listed = self.listed.get_or_try_init(|| self.prepared.listed())?;
        Ok(listed)
    }

    /// Adds its wheels to the indexes of a mount.
    pub(crate) fn add_to(&self, indexes: &mut PackageIndexes, thin: &[ThinWheelOfView]) -> anyhow::Result<()> {
        let made = self.prepared.made.seconds();
        match &self.prepared.wheels {
            Some(wheels) => indexes.add_split(&self.prepared.input, wheels, thin, made)?,
            None => self.listed()?.iter().for_each(|wheel| indexes.add_whole(wheel.clone().dated(made))),
        }
        Ok(())
    }

    /// The name of the wheel, or of the host wheel.
    pub(crate) fn name(&self) -> anyhow::Result<WheelName> {
        let host = self.prepared.wheels.as_ref().and_then(|wheels| wheels.hosts.first());
        let file = match host {
            Some(host) => host.file_name()?,
            None => self.path().file_name().unwrap_or_default().to_string_lossy().into_owned(),
        };
        Ok(WheelName::parse(&file)?)
    }

    /// Why installers refuse wheels that are listed as they are, and which of their signatures are not listed.
    fn warnings(&self) -> Vec<String> {
        let Some(listed) = self.listed().ok().filter(|_| self.prepared.wheels.is_none()) else { return Vec::new() };
        listed.iter().flat_map(ListedWheel::warnings).collect()
    }
}
