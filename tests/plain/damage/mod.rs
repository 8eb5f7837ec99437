//! Damaged input: what a mount serves, and what commands say (docs/FAULTS.md).
//!
//! Damage with a place leaves what ends before it, for all orders and numbers of readers, with and without a cache, and
//! after a remount. Damage without a place is served until a pass over the whole content finds it. Commands that write
//! or check always find both.

mod bundles;
mod frames;
mod inputs;
mod members;
mod sessions;
mod streams;
mod support;
