//! What work was done and what memory is used: counters, gauges, and the kernel's requests by kind.
//!
//! It imports no other room. The rooms that do the work update the counters.

mod counter;
mod counters;
mod gauges;
mod openmetrics;
mod progress;
mod requests;

pub use counter::Counter;
pub use counters::Counters;
pub use gauges::{Gauges, MemoryClass};
pub use openmetrics::{MetricsSource, openmetrics};
pub use progress::{Portion, Progress};
pub use requests::{Answering, RequestKind, Requests, StartedRequest, TransportState};
