//! Memory whose size depends on the input, in one byte budget: caches, pooled buffers, compression contexts.
//!
//! This room does not know what the bytes are for, apart from their [class](crate::metrics::MemoryClass).

mod budget;
mod cache;
mod compressors;
mod idle;
mod malloc;
mod open_stream;
mod pool;
#[cfg(all(test, feature = "shuttle"))]
mod schedules;

pub use budget::{Budget, Reclaim, Reservation};
pub use cache::{ByteCache, Weight};
pub use compressors::{Compressors, Original, STREAMED};
pub use malloc::set_up_malloc;
pub use open_stream::OpenStream;
pub use pool::{Pool, Pooled};
