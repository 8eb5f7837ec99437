//! Suites about what commands write, print and refuse, and about the rules of the library. Each suite is a module.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "clippy allows them in test functions only"
)]

mod artifacts;
mod bucket;
mod codeobjects;
mod commands;
#[path = "../common/mod.rs"]
mod common;
mod confinement;
mod coverage;
mod damage;
mod diff;
mod documents;
mod forms;
mod gpu_links;
mod hierarchy_oracle;
mod hostile;
mod identity;
mod images;
mod outputs;
mod packed_splits;
mod pages;
mod plug_ins;
mod recognised;
mod remote;
mod report;
mod requirements;
mod said;
mod shapes;
mod splice_inflaters;
mod split_id;
mod split_input;
mod unsearched;
mod verify;
mod wheels;
mod why;
mod why_databases;
mod why_machine;
mod why_places;
