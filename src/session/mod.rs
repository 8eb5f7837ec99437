//! From what the user named to a planned split: opened, joined, planned, with its wheels and its ID.
//!
//! It prints nothing. What is to be said is returned, and the command line says it.

mod choices;
mod image;
mod opening;
mod prepared;
mod release;

pub(crate) use choices::{SplitChoices, Stages};
pub(crate) use image::PreparedImage;
pub(crate) use opening::{Session, SessionInputs};
pub(crate) use prepared::{Prepared, Share};
pub(crate) use release::{Release, ReleasedWheel};
