//! kpackfs as part of the system: mount(8), fstab, autofs, service managers, logs, users, and installed files.
//!
//! Every test is a shell script in mount and process namespaces of its own, so that nothing of it remains. In these
//! namespaces, links to the program cover `/sbin`.

mod below;
mod confined;
mod daemon;
mod installation;
mod mount8;
mod sandbox;
mod users;
