//! `kpackfs split --format index`: to a directory or to a bucket.

use std::process::ExitCode;

use super::super::options::SplitOptions;
use super::super::package_index::IndexOutput;
use super::Split;
use crate::bucket::is_bucket;
use crate::export::Inputs;
use crate::opened::NamedPath;
use crate::report::LookedAt;

impl Split {
    /// Whether the output is in a bucket.
    pub(super) fn is_to_bucket(&self) -> bool {
        self.output.as_deref().is_some_and(is_bucket)
    }

    /// Writes an index.
    pub(super) fn write_index(
        &self,
        named: &[NamedPath],
        inputs: &Inputs,
        options: &SplitOptions,
    ) -> anyhow::Result<ExitCode> {
        let (force, writing, limits) = (self.force, self.writing, self.limits);
        let output = IndexOutput { directory: self.output(), force, inputs, writing, limits };
        if self.is_to_bucket() {
            self.said.say(&output.publish(named, options, self.allow_http)?)?;
        } else {
            let (places, release) = output.write(named, options)?;
            let planned = || release.wheels.iter().map(|wheel| (&wheel.prepared.input, &wheel.prepared.plan));
            let are_fat = planned().all(|(_, plan)| plan.joined.is_empty());
            self.say(&places, are_fat, LookedAt::rest(planned(), &release.resources))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
