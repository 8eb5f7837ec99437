//! kpackfs shows a fat ROCm wheel or install tree as if it had already been split by GPU architecture.
//!
//! # As a library
//!
//! - [`rope`]: contents as lists of segments, of known length before a byte is read
//! - [`kpack`]: `.kpack` archives, written and read
//! - [`fatbin`]: offload bundles and the code objects in them
//! - [`gpu`] and [`resources`], which these need
//!
//! All other modules serve kpackfs' own programs, tests and benches. They are not a stable API, and are not shown here.
//!
//! # How it is built
//!
//! Data flows one way, through modules that are called rooms:
//!
//! 1. An input is *listed* (`source`).
//! 2. Binaries that are split already are *joined* with their archives (`join`).
//! 3. Binaries are *scanned* for device code (`binary`, [`fatbin`]), and other files for kernel databases (`database`).
//! 4. The split is *planned*: which entry goes to which GPU target (`split`, [`gpu`]), and which archives there are ([`kpack`]).
//! 5. Views are *laid out* (`view`), with the metadata of wheels (`wheel`) and of artifacts (`artifact`).
//! 6. Bytes are *served* (`fs`) or *written* (`export`), and the split is *reported* (`report`).
//!
//! Every byte that is served or written comes from a [`rope`]: a list of segments whose total length is known when it
//! is built. Work happens when a segment is read, on the threads of an `executor` and within one budget of `memory`.
//! Results of planning and reading are stored on disk in an `index`.
//!
//! `verify` checks a split from its files alone, and `why` explains why a HIP runtime finds no kernel. `cli` has one
//! file for each command.
//!
//! Imports between rooms point one way. `docs/ARCHITECTURE.md` describes their order, the threads, the locks, the
//! memory and the files on disk.

#![cfg_attr(not(test), warn(clippy::disallowed_methods, clippy::too_many_lines))]
// Printing without a result panics where nobody reads, or the disk is full.
#![cfg_attr(not(test), warn(clippy::print_stderr, clippy::print_stdout))]

pub mod fatbin;
pub mod gpu;
pub mod kpack;
pub mod resources;
pub mod rope;

// For kpackfs' own programs, tests and benches; no stable API.
#[doc(hidden)]
pub mod artifact;
#[doc(hidden)]
pub mod binary;
#[doc(hidden)]
pub mod bucket;
#[doc(hidden)]
pub mod cli;
#[doc(hidden)]
pub mod collect;
#[doc(hidden)]
pub mod database;
#[doc(hidden)]
pub mod deflate;
pub mod devicecode;
#[doc(hidden)]
pub mod export;
#[doc(hidden)]
pub mod fs;
#[doc(hidden)]
pub mod image;
#[doc(hidden)]
pub mod index;
#[doc(hidden)]
pub mod join;
#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod metrics;
#[doc(hidden)]
pub mod mount;
#[doc(hidden)]
pub mod opened;
#[doc(hidden)]
pub mod packages;
pub mod remote;
mod session;
#[doc(hidden)]
pub mod simple;
#[doc(hidden)]
pub mod source;
#[doc(hidden)]
pub mod split;
#[doc(hidden)]
pub mod tree;
#[doc(hidden)]
pub mod verify;
#[doc(hidden)]
pub mod view;
#[doc(hidden)]
pub mod wheel;
#[doc(hidden)]
pub mod wheelparts;

mod confine;
mod coverage;
mod diff;
mod disk;
mod executor;
mod loader;
mod near;
mod page;
mod report;
mod sync;
mod text;
mod threads;
mod why;
