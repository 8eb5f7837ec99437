//! A file on a server, read by ranges of HTTP (RFC 9110, section 14). Nothing of it is kept on disk.
//!
//! The first request asks for the end of the file, which has the central directory of a wheel. Its answer says how long
//! the file is, where redirects lead, and by which validators a change is noticed. Each later answer is compared with
//! it.

mod answers;
mod certificates;
mod client;
mod credentials;
mod error;
mod file;
mod proxy;
mod response;
mod url;
mod window;

pub(crate) use client::{agent, pause, test_milliseconds};
pub(crate) use error::check as check_remote;
pub use error::{RemoteError, RemoteProblem};
pub(crate) use file::RemoteFile;
pub(crate) use proxy::proxy_of;
pub(crate) use response::busy;
pub(crate) use url::{is_insecure, is_url, without_secrets};
pub(crate) use window::MemberAccess;

use std::path::PathBuf;

/// By what a name is resolved (resolver(3)).
const RESOLVER: [&str; 5] = ["/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf"];

/// The files that are read to reach a server.
pub(crate) fn remote_files() -> Vec<PathBuf> {
    let resolver = RESOLVER.map(PathBuf::from);
    resolver.into_iter().chain(certificates::files()).chain(credentials::files()).collect()
}
