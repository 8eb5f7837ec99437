//! Tests of artifacts with the compiled program: what `split_artifacts`, `recombine_artifacts`, `verify_artifacts` and
//! `bulk_unbundle` of rocm-kpack promise, and what they should promise.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "not allowed in helpers of tests")]

mod archives;
mod batch;
#[path = "../common/mod.rs"]
mod common;
mod create;
mod interrupted;
mod place;
mod recombine;
mod scripts;
mod single;
mod split;
mod strict;
mod targets;
mod unbundle;
mod verify;
