//! What work was done and what memory is used: counters, gauges, and the kernel's requests by kind.
//!
//! It imports no other room. The rooms that do the work update the counters.

mod counters;
mod gauges;
mod openmetrics;
mod progress;
mod requests;

pub use counters::{Counter, Counters};
pub use gauges::{Gauges, MemoryClass};
pub use openmetrics::{MetricsSource, openmetrics};
pub use progress::{Portion, Progress};
pub use requests::{Answering, RequestKind, Requests, StartedRequest, TransportState};
