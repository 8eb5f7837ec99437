//! kpackfs shows a fat ROCm wheel or install tree as if it had already been split by GPU architecture.
//!
//! Data flows one way: an input is *listed* (`source`), binaries that are split already are *joined* with their archives (`join`),
//! binaries are *scanned* (`binary`, `fatbin`), the split is *planned* (`split`), views are *laid out* (`view`), what there is
//! is *reported* (`report`), and bytes are *served* (`fs`) or *written* (`export`). Every byte that is served or written comes out of a `rope`. `docs/ARCHITECTURE.md` has the
//! rooms, the threads, the locks and the memory.

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
pub mod verify;
pub mod view;
pub mod wheel;
pub mod why;
