//! How requests of a mount travel.

use serde::Serialize;

/// How requests of a mount travel, and why.
#[derive(Clone, Debug, Serialize)]
pub struct TransportState {
    /// `uring` or `dev-fuse`.
    pub kind: &'static str,
    /// Why they do not travel through rings, unless that was asked for.
    pub reason: Option<String>,
}
