//! The views of an input that `ls` and `cat` read.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;

use super::confinement::Opens;
use super::input::{SHORT_FORMS, forms, input_word};
use super::options::ViewOptions;
use super::prepare::{absolute_input, place_of, save_index};
use super::views::views;
use crate::fs::Unmounted;
use crate::view::ThinViews;

/// An input, seen as a mount of it.
#[derive(Debug, Args)]
pub(super) struct ViewedInput {
    #[arg(value_parser = input_word(), help = SHORT_FORMS, long_help = concat!("The input: ", forms!()))]
    input: PathBuf,

    #[command(flatten)]
    options: ViewOptions,
}

impl ViewedInput {
    pub(super) fn opens(&self) -> Opens {
        self.options.resources.opens(Opens::inputs(vec![place_of(&self.input)]))
    }

    /// Reads the views with `read`, and saves what was found in the input.
    pub(super) fn read(&self, read: impl FnOnce(&Unmounted) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let input = absolute_input(&self.input)?;
        let served = views(&[input], &self.options.of_split(), &[], &ThinViews::default())?;
        let result = read(&Unmounted::new(Arc::clone(&served.tree)));
        save_index(&served.resources);
        result
    }
}
