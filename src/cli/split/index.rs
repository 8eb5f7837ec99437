//! `kpackfs split --format index`: to a directory or to a bucket.

use std::process::ExitCode;

use super::super::options::SplitOptions;
use super::super::package_index::IndexOutput;
use super::Split;
use crate::bucket::is_bucket;
use crate::export::Inputs;
use crate::opened::NamedPath;

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
            let (places, is_fat) = output.write(named, options)?;
            self.say(&places, is_fat)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
