//! kpackfs shows a fat ROCm wheel or install tree as if it had already been split by GPU architecture.
//!
//! Data flows one way:
//!
//! 1. An input is *listed* ([`source`]).
//! 2. Binaries that are split already are *joined* with their archives ([`join`]).
//! 3. Binaries are *scanned* for device code ([`binary`], [`fatbin`]), and other files for kernel databases ([`database`]).
//! 4. The split is *planned*: which entry goes to which GPU target ([`split`], [`gpu`]), and which archives there are ([`kpack`]).
//! 5. Views are *laid out* ([`view`]), with the metadata of wheels ([`wheel`]) and of artifacts ([`artifact`]).
//! 6. Bytes are *served* ([`fs`]) or *written* ([`export`]), and what there is is *reported* ([`report`]).
//!
//! Every byte that is served or written comes out of a [`rope`]: a list of segments whose total length is known when it is
//! built. Work happens when a segment is read, on the threads of an [`executor`] and within one budget of [`memory`]. What
//! planning and reading found out is kept on disk in an [`index`].
//!
//! [`verify`] checks a split from its files alone, and [`why`] explains why a HIP runtime finds no kernel. [`cli`] has one file for
//! each command.
//!
//! Modules are called rooms. Imports between rooms point one way; `docs/ARCHITECTURE.md` has their order, and the threads, the
//! locks, the memory and the files on disk.

pub mod artifact;
pub mod binary;
pub mod cli;
pub mod database;
pub mod deflate;
pub mod executor;
pub mod export;
pub mod fatbin;
pub mod fs;
pub mod gpu;
pub mod index;
pub mod join;
pub mod kpack;
pub mod memory;
pub mod metrics;
pub mod report;
pub mod resources;
pub mod rope;
pub mod source;
pub mod split;
mod sync;
pub mod verify;
pub mod view;
pub mod wheel;
pub mod why;
