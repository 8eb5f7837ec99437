//! Faults of what a mount depends on: the input, the cache folder, limits, readers. Each read returns the right bytes
//! or an error in bounded time, and no effect outlasts the fault. `docs/FAULTS.md` has a row for each test.

mod cache;
mod hangs;
mod input;
mod limits;
mod memory;
mod readers;
mod remount;
mod rings;
