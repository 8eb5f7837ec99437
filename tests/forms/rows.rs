//! The rows of the table: the forms of an input.

use crate::commands::Command;

/// A form of an input.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// What is named on the command line, below the place where forms are made.
    pub(crate) inputs: &'static [&'static str],
    pub(crate) holds: Holds,
    /// Whether it was split, so that `verify` has something to check.
    pub(crate) is_split: bool,
    /// Columns that this row does not have, since the command takes other inputs.
    pub(crate) without: &'static [Command],
    /// Its row in the first table of the issue, of eight rows and six commands.
    pub(crate) first: Option<u8>,
}

/// What an input holds.
#[derive(Clone, Copy)]
pub(crate) enum Holds {
    /// All code of the fat wheel.
    All,
    /// The code for these GPUs.
    Gpus(&'static [&'static str]),
    /// The code of one library of the wheel.
    Library(&'static str),
    /// The host part of a split, whose code is elsewhere.
    Host,
    /// No device code, in this number of files and binaries.
    Nothing { files: usize, binaries: usize },
    /// A form that is not understood, with the words that name it and what unpacks it; `|` stands between alternatives.
    Unknown(&'static [&'static str]),
}

const fn fat(name: &'static str, inputs: &'static [&'static str]) -> Row {
    Row { name, inputs, holds: Holds::All, is_split: false, without: &[], first: None }
}

const fn split(name: &'static str, inputs: &'static [&'static str]) -> Row {
    Row { is_split: true, ..fat(name, inputs) }
}

impl Row {
    const fn holds(self, holds: Holds) -> Self {
        Self { holds, ..self }
    }

    const fn first(self, number: u8) -> Self {
        Self { first: Some(number), ..self }
    }

    const fn without(self, without: &'static [Command]) -> Self {
        Self { without, ..self }
    }
}

/// The table.
pub(crate) const ROWS: &[Row] = &[
    fat("fat wheel", &["fat/small-1.0-py3-none-any.whl"]).first(1),
    split("directory of split wheels", &["wheels"]).first(1),
    split("thin view", &["views/thin/gfx90a"]).holds(Holds::Gpus(&["gfx90a"])).first(1),
    split("merged view", &["views/merged/gfx90a"]).holds(Holds::Gpus(&["gfx90a"])).first(1),
    fat("site-packages, fat", &["site-fat"]).first(1),
    split("site-packages, split", &["site-split"]).first(1),
    split("output of split", &["parts"]).first(2),
    split("mount point", &["mnt"]).first(3),
    split("output of --format index", &["index"]).first(4),
    split("simple/ of an index", &["index/simple"]).first(4),
    split("output of --format thin-wheel", &["thin-wheels"]).first(5),
    split("split wheels and SHA256SUMS", &["wheels-sums"]).first(6),
    fat("fat wheel and SHA256SUMS", &["fat-sums"]).first(7),
    fat("virtual environment, fat", &["venv-fat"]).first(8),
    split("virtual environment, split", &["venv-split"]).first(8),
];
