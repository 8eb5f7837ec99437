//! kpackfs as part of the system: mount(8), fstab, autofs, service managers, logs, users, and installed files.
//!
//! Every test is a shell script in mount and process namespaces of its own, so that nothing of it remains. In these
//! namespaces, links to the program cover `/sbin`.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod daemon;
mod installation;
#[path = "../common/links.rs"]
mod links;
mod mount8;
#[path = "../common/namespaces.rs"]
mod namespaces;
mod sandbox;
mod users;
