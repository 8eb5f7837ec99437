//! The byte budget for memory whose size depends on the input: caches, pooled buffers, compression contexts; and the memory of parsers.
//!
//! This room does not know what the bytes are for, apart from their [class](crate::metrics::MemoryClass).

mod accounts;
mod aligned;
mod budget;
mod cache;
mod compressors;
mod idle;
mod lease;
mod malloc;
mod open_stream;
mod pool;
#[cfg(all(test, feature = "shuttle"))]
mod schedules;
mod tables;

pub use aligned::Malloc;
pub(crate) use budget::{Budget, Reclaim, Reservation};
pub(crate) use cache::{ByteCache, Weight};
pub(crate) use compressors::{Compressors, Original, STREAMED};
pub(crate) use malloc::set_up_malloc;
pub(crate) use open_stream::OpenStream;
pub(crate) use pool::{Pool, Pooled};
pub use tables::{Parser, ParserMemory, TableError};
pub(crate) use tables::{WholeFile, check_tables, kept_in_tables, limit_tables, most_kept};
