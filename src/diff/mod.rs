//! The changes between two inputs: sizes, targets, code objects, kernels, members and metadata, as one model. `tables`
//! and the page render it.
//!
//! Code objects are equal if all of their bytes are. Kernels are equal if their names and their code sizes in the
//! symbol tables are: a new compiler changes every code object, but few kernels.

mod amount;
mod code;
mod compare;
mod inventory;
mod members;
mod metadata;
mod model;
mod paths;
mod side;
mod tables;

pub(crate) use amount::{Changes, Pair};
pub(crate) use model::Diff;
pub(crate) use side::{Settings, Side};
pub(crate) use tables::{growth, whose};
