//! `kpackfs split --format index`: to a directory or to a bucket.

use std::process::ExitCode;

use super::super::options::SplitOptions;
use super::super::writing::OutputTarget;
use super::Split;
use crate::bucket::is_bucket;
use crate::opened::NamedPath;
use crate::session::Release;
use crate::source::Input;
use crate::split::Plan;

impl Split {
    /// Whether the output is in a bucket.
    pub(super) fn is_to_bucket(&self) -> bool {
        self.output.as_deref().is_some_and(is_bucket)
    }

    /// Writes an index.
    pub(super) fn write_index(
        &self,
        named: &[NamedPath],
        to: OutputTarget<'_>,
        options: &SplitOptions,
    ) -> anyhow::Result<ExitCode> {
        if self.is_to_bucket() {
            let (written, release) = to.publish_index(named, options, self.allow_http)?;
            self.said.say(&written.without(self.said.not_split(planned(&release), &release.resources)))?;
        } else {
            let (places, release) = to.write_index(named, options)?;
            let are_fat = planned(&release).all(|(_, plan)| plan.joined.is_empty());
            self.say(&places, are_fat, self.said.not_split(planned(&release), &release.resources))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn planned(release: &Release) -> impl Iterator<Item = (&Input, &Plan)> {
    release.wheels.iter().map(|wheel| (&wheel.prepared.input, &wheel.prepared.plan))
}
