//! Tests of artifacts with the compiled program: what `split_artifacts`, `recombine_artifacts`, `verify_artifacts` and
//! `bulk_unbundle` of rocm-kpack promise, and what they should promise.

mod archives;
mod batch;
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
