//! kpackfs towards the system: mount(8), fstab, autofs, service managers, logs, users, and what is installed.
//!
//! Every test is a shell script in mount and process namespaces of its own, so that nothing of it is left behind. There,
//! links to the program lie over `/sbin`.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod daemon;
mod installation;
mod mount8;
mod sandbox;
mod users;
